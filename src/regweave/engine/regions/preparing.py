"""Steps of operators that are prepared by size: convolutions, and work on planes, with their arguments.

memory   [flags][strips of the convolution that runs][images of a region]
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from regweave.cascades.native import NativeChain, NativeRun
from regweave.convolution import Conv2d, DenseConvolution
from regweave.devices import cpu
from regweave.devices.onnxruntime import LINE, WORK_PLACE, Place, Step
from regweave.devices.onnxruntime.sized import Field
from regweave.graphs import Piece
from regweave.kernels.planes.kernel import plane_kernel
from regweave.kernels.planes.loops import PlaneArguments
from regweave.machines.x86 import VectorMachine
from regweave.operators import EnlargedTaps, PixelShuffle, PlaneWork

Shape = tuple[int, ...]

LEAST_PIXELS = 64
"""For each part of a piece: kernels take as many at a time."""


def convolution_layer(
    piece: Piece,
    machine: VectorMachine,
    threads: int,
    padding: tuple[int, ...] | None = None,
    dilations: tuple[int, int] | None = None,
) -> Conv2d:
    """The convolution of a piece with its weights packed; `padding` and `dilations` in place of its own."""
    layer, window = piece.layer, piece.window
    assert layer is not None, "the caller asks for convolutions only"
    assert window is not None
    return Conv2d(
        layer.weights,
        layer.bias,
        stride=window.settings["strides"],
        padding=window.settings["padding"] if padding is None else padding,
        dilation=window.settings["dilations"] if dilations is None else dilations,
        groups=window.settings["groups"],
        activation=layer.epilogue,
        threads=threads,
        isa=machine.name,
    )


def planes_step(
    work: PlaneWork,
    shape: Shape,
    x: tuple[Place, int, int],
    y: tuple[Place, int, int],
    machine: VectorMachine,
    threads: int,
    addend: tuple[Place, int, int] | None = None,
    around: tuple[bool, bool] = (False, False),
) -> Step:
    """Work on the planes of images of that shape; x, y and what is added are places, and the bytes from one
    plane and one image to the next. `around`: rows stand above and below those that are given."""
    batch, planes, rows, columns = shape
    if isinstance(work, (PixelShuffle, EnlargedTaps)):
        planes //= work.side**2
    parts = max(1, min(threads, planes))
    arguments = PlaneArguments(
        batch=batch, planes=planes, rows=rows, columns=columns, parts=parts,
        x_plane=x[1], y_plane=y[1], x_image=x[2], y_image=y[2], above=around[0], below=around[1],
    )  # fmt: skip
    places = {"x": x[0], "y": y[0]}
    if addend is not None:
        places["addend"], arguments.addend_plane, arguments.addend_image = addend
    kernel = _loaded(work, machine)
    return Step(kernel.address, arguments, places, parts, keep=(kernel,))


def piece_step(
    work: NativeChain | NativeRun,
    pixels: int,
    images: Sequence[tuple[Place, int]],
    y: tuple[Place, int],
    scratch: int,
    threads: int,
) -> Step:
    """Products or an element-wise run on `pixels` pixels of one image.

    `images` are its inputs with gates; they and y are places, and the bytes from one plane to the next."""
    arguments = work.arguments()
    (x, x_pitch), *extras = images
    arguments.x_pitch, arguments.y_pitch, arguments.rows, arguments.batch = x_pitch, y[1], pixels, 1
    places: dict[Field, Place] = {"x": x, "y": y[0]}
    for index, (place, pitch) in enumerate(extras):
        places["extras", index], arguments.pitches[index] = place, pitch
    if isinstance(work, NativeChain):
        places["scratch"] = Place(WORK_PLACE, scratch)
    arguments.parts = parts = max(1, min(threads, pixels // LEAST_PIXELS))
    return Step(work.entry, arguments, places, parts, keep=(work,))


def room_of(convolutions: Sequence[DenseConvolution], other: int = 0) -> tuple[int, int]:
    """Where strips start behind the flags, and where both end: for convolutions that run in turn, and `other`
    scratch memory in the place of the strips."""
    flags = max((dense.parts * dense.flag_bytes for dense in convolutions), default=0)
    strips = -(-flags // LINE) * LINE
    scratch = max([other, *(dense.parts * dense.scratch_bytes for dense in convolutions)])
    return strips, strips + -(-scratch // LINE) * LINE


def convolution_step(
    dense: DenseConvolution,
    x: Place,
    y: Place,
    strips: int,
    x_pitch: int,
    y_pitch: int,
) -> Step:
    """A convolution from x to y, whose images lie so many bytes apart."""
    arguments = dense.arguments
    arguments.x_image, arguments.y_image = x_pitch, y_pitch
    places: dict[Field, Place] = {
        "x": x,
        "y": y,
        "flags": Place(WORK_PLACE),
        "scratch": Place(WORK_PLACE, strips),
    }
    flags = dense.parts * dense.flag_bytes
    return Step(dense.kernel.address, arguments, places, dense.parts, flags, keep=(dense,))


@lru_cache(maxsize=32)
def _loaded(work: PlaneWork, machine: VectorMachine) -> cpu.Function:
    return cpu.load_made(lambda: plane_kernel(work, machine), repr(work), machine)
