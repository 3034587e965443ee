"""`regweave.conv2d` and `regweave.Conv2d`: images in, images out, nothing copied on the way.

    >>> y = regweave.conv2d(x, w, b, padding="same_upper", activation="relu")
    >>> layer = regweave.Conv2d(w, b, stride=2, padding=1)        # packs once
    >>> layer(x, out=y)

Images of any strides are read where they are and results of any strides written where they belong: a channels
last image is one whose channels lie side by side, a mirrored one has a negative stride.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from regweave.cascades.arrays import address_of, aligned_bytes, take, writable
from regweave.cascades.device import choose_machine
from regweave.cascades.threads import thread_count
from regweave.convolution.decision import ORDERS, decide, dense_strides, streams
from regweave.convolution.halves import convolve_halves
from regweave.convolution.planes.form import FORMS, combines
from regweave.convolution.planes.strips import untransformed
from regweave.convolution.portable import run_portable
from regweave.errors import InputError, UnsupportedError, unknown_name
from regweave.machines.x86 import VectorMachine
from regweave.operators import Convolution, Elementwise, activation, convolution_of

if TYPE_CHECKING:
    from regweave.convolution.planes.native import DenseConvolution

_FLOAT = np.dtype(np.float32)
#: Bytes after which addresses differ in their upper bits only, as far as loads and stores compare them.
_PAGE, _LINE = 4096, 64
#: Bytes that the result, apart from whole pages, may begin before and behind the image for that to matter.
_BEFORE, _BEHIND = 192, 256
#: Bytes that a result whose channels lie side by side begins before the image, apart from whole pages.
_PIXEL = 256
#: Shapes for which a layer keeps its tables.
_KEPT = 8


def conv2d(
    x: Any,
    w: Any,
    bias: Any = None,
    *,
    stride: int | Sequence[int] = 1,
    padding: int | str | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    activation: str | Elementwise | None = None,
    order: str = "nchw",
    out: Any = None,
    threads: int | None = None,
    form: str | None = None,
    isa: str | None = None,
) -> Any:
    """activation(convolution of x with w + bias); see `Conv2d`, which packs the weights once."""
    layer = Conv2d(
        w,
        bias,
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=groups,
        activation=activation,
        order=order,
        threads=threads,
        form=form,
        isa=isa,
    )
    return layer(x, out=out)


class Conv2d:
    """A convolution with its weights packed: `layer(x)` or `layer(x, out=y)`.

    `weights` [filters, channels / groups, kernel height, kernel width], `bias` [filters] or None. x is
    [batch, channels, height, width]; with order "nhwc" it and the result are [batch, height, width,
    channels]. Without the height everywhere it is a convolution of signals. `stride`, `padding`,
    `dilation`, `groups` as in `operators.convolution_of`, `activation` as in `cascade`, or several operators.
    `form`: "none", "polyphase", "unrolled" or "transformed" insists on how rows are rearranged. `threads` at
    most work on a call; None: all processors of this process. It may be called from several threads.
    Arrays of float16 are taken too: the result of such an x is float16, its sums are float32. Errors:
    InputError for shapes that do not meet, element types, unknown words.
    """

    def __init__(
        self,
        weights: Any,
        bias: Any = None,
        *,
        stride: int | Sequence[int] = 1,
        padding: int | str | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        activation: str | Elementwise | Sequence[Elementwise] | None = None,
        order: str = "nchw",
        threads: int | None = None,
        form: str | None = None,
        isa: str | None = None,
    ) -> None:
        self.threads, self.machine = thread_count(threads), choose_machine(isa)
        self.form = None if form is None else _one_of(form, "form", FORMS)
        self.weights = np.array(take(weights, "weights", halves=True)[0], np.float32, order="C")
        if self.weights.ndim not in (3, 4):
            raise InputError(
                f"the shape is {list(self.weights.shape)}",
                where="weights",
                expected="[filters, channels / groups, kernel height, kernel width], or without the height",
            )
        self.bias = None if bias is None else _bias(bias, len(self.weights))
        self.order = _one_of(order.lower() if isinstance(order, str) else order, "order", ORDERS)
        self.epilogue = _epilogue(activation)
        self._isa = self.machine.name if self.machine is not None else "portable"
        self._settings: dict[str, Any] = {
            "strides": stride,
            "padding": padding,
            "dilations": dilation,
            "groups": groups,
        }
        arrays = (self.weights,) if self.bias is None else (self.weights, self.bias)
        self._alike = all(bool((array == array[:1]).all()) for array in arrays)
        self._packed: dict[Any, np.ndarray] = {}
        self._native: dict[Any, Any] = {}
        self._last: tuple[Any, ...] | None = None

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.weights.shape))
        settings = [f"{word} {value}" for word, value in self._settings.items()]
        return f"<Conv2d {', '.join([shape, *settings, *map(str, self.epilogue)])}; {self._isa}>"

    def __reduce__(self) -> tuple[Any, ...]:
        # code belongs to the process that made it: a copy is compiled anew
        given = self._settings
        again = partial(
            type(self),
            stride=given["strides"],
            padding=given["padding"],
            dilation=given["dilations"],
            groups=given["groups"],
            activation=self.epilogue,
            order=self.order,
            threads=self.threads,
            form=self.form,
            isa=self._isa,
        )
        return again, (self.weights, self.bias)

    def convolution(self, shape: Sequence[int]) -> Convolution:
        """The convolution of an image of that shape, in the order of this layer. Errors: InputError."""
        if len(shape) != self.weights.ndim:
            raise InputError(
                f"an image of shape {list(shape)} for weights of shape {list(self.weights.shape)}",
                where="x",
                expected=f"{self.weights.ndim} dimensions",
            )
        planar = (shape[0], shape[-1], *shape[1:-1]) if self.order == "nhwc" else tuple(shape)
        return convolution_of(planar, self.weights.shape, **self._settings)

    def dense(
        self,
        shape: Sequence[int],
        x_strides: tuple[int, ...] | None = None,
        y_strides: tuple[int, ...] | None = None,
        *,
        finite: bool = True,
    ) -> DenseConvolution:
        """What runs an image [batch, channels, height, width] of that shape, densely packed.

        `x_strides` and `y_strides` are bytes from one image, channel, row and element to the next where that
        is not so; elements lie one after the other. Without `finite` no form is taken that would carry an
        infinity to rows around it. Errors: InputError; UnsupportedError on machines without kernels.
        """
        from regweave.convolution.planes.native import DenseConvolution

        c, machine = self.convolution(shape), self.machine
        if machine is None or self.order != "nchw" or len(shape) != 4:
            raise UnsupportedError("only images of order nchw on machines with kernels are run from outside")

        strides = x_strides or dense_strides(c.image_shape), y_strides or dense_strides(c.out_shape)

        form = self.form if finite or not combines(c) else untransformed(c)
        native, packed = self._prepare(c, *strides, False, False, form, machine, planes=True)
        return DenseConvolution(native, packed, c.out_shape)

    def __call__(self, x: Any, *, out: Any = None) -> Any:
        """The result, of x's own kind, or `out`, which it was written to. Errors: InputError."""
        done = self._again(x, out)
        if done is not None:
            return done
        image, wrap = take(x, "x", halves=True)
        c = self.convolution(image.shape)
        shape = c.out_shape
        if self.order == "nhwc":
            shape = (shape[0], *shape[2:], shape[1])
        if out is None:
            result = _result(image, shape, self.order)
            self._run(c, image, result)
            return wrap(result)
        target = writable(out, shape, image.dtype.type)
        apart = not np.may_share_memory(target, image)
        result = target if apart else _result(image, shape, self.order)
        self._run(c, image, result)
        if not apart:
            target[...] = result
        return out

    def _again(self, x: Any, out: Any) -> Any:
        """The result if x and out are laid out as those of the call before; None, with nothing done, if not.

        Most calls repeat the one before on other numbers, and all checks would then take longer than a small
        image does.
        """
        last = self._last
        if last is None or type(x) is not np.ndarray or (out is not None and type(out) is not np.ndarray):
            return None
        layout, shape, native, packed, alignment = last
        y = _result(x, shape, self.order) if out is None else out
        same = layout == (x.shape, x.strides, y.shape, y.strides) and x.dtype is y.dtype is _FLOAT
        if not same or not y.flags.writeable or np.may_share_memory(x, y):
            return None
        to = address_of(y)
        return None if to % alignment or not native.run(address_of(x), to, packed) else y

    def _run(self, c: Convolution, image: np.ndarray, result: np.ndarray) -> None:
        if result.size == 0:
            return
        x, y = (self._planar(array) for array in (image, result))
        if image.dtype == np.float16:
            convolve_halves(c, x, y, self._compute)
            return
        used = self._compute(c, x, y)
        if used is not None and self.machine is not None and (x.strides[3] != 4 or not _paged(x, y)):
            native, packed = used
            alignment = self.machine.vector_bytes if native.choice.tile.stream else 1
            layout = (image.shape, image.strides, result.shape, result.strides)
            self._last = (layout, result.shape, native, packed, alignment)

    def _compute(self, c: Convolution, x: np.ndarray, y: np.ndarray) -> tuple[Any, np.ndarray] | None:
        """y = the result for x, both [batch, channels, height, width]; the code and weights that are tried
        first, None where there is no code."""
        if self.machine is None:
            run_portable(c, x, self.weights, self.bias, self.epilogue, y)
            return None
        used = native, packed = self._prepared(c, self.machine, x, y, self.form)
        if not native.run(x.ctypes.data, y.ctypes.data, packed):
            # an infinity, a NaN or an overflow, which a transform would carry to rows around it
            native, packed = self._prepared(c, self.machine, x, y, untransformed(c))
            native.run(x.ctypes.data, y.ctypes.data, packed)
        return used

    def _planar(self, array: np.ndarray) -> np.ndarray:
        """[batch, channels, height, width], a view."""
        if self.order == "nhwc":
            array = np.moveaxis(array, -1, 1)
        return array if array.ndim == 4 else array[:, :, None]

    def _prepared(
        self, c: Convolution, machine: VectorMachine, x: np.ndarray, y: np.ndarray, form: str | None
    ) -> Any:
        """(native code with its tables, packed weights) for arrays of these shapes and strides."""
        x_strides, y_strides = _strides(x), _strides(y)
        stream = streams(machine, y_strides, y.nbytes, y.shape[3], y.ctypes.data)
        late = _paged(x, y) and (y.ctypes.data - x.ctypes.data + _BEFORE) % _PAGE < _BEFORE + _BEHIND
        key = (c, x_strides, y_strides, stream, late, form)
        found = self._native.get(key)
        if found is None:
            found = self._prepare(*key, machine)
            if len(self._native) >= _KEPT:
                self._native.clear()
            self._native[key] = found
        return found

    def _prepare(
        self,
        c: Convolution,
        x_strides: tuple[int, ...],
        y_strides: tuple[int, ...],
        stream: bool,
        late: bool,
        form: str | None,
        machine: VectorMachine,
        *,
        planes: bool = False,
    ) -> tuple[Any, np.ndarray]:
        """Code with its tables, packed weights; of `planes` even where a plane is one pixel, and so the
        channels lie side by side."""
        from regweave.convolution.channels_last import LastChoice, LastConvolution, pack_last
        from regweave.convolution.channels_last.banded import BandChoice
        from regweave.convolution.channels_last.relayed import BandedConvolution
        from regweave.convolution.planes.native import NativeConvolution
        from regweave.convolution.planes.tables import pack_weights
        from regweave.convolution.separable import factors

        decision = decide(
            c,
            machine,
            x_strides,
            y_strides,
            form=form,
            stream=stream,
            late=late,
            epilogue=self.epilogue,
            threads=self.threads,
            separable=factors(self.weights) is not None,
            planes=planes,
            alike=self._alike,
        )
        c, choice = decision.convolution, decision.choice
        # of channels that share a kernel all are one
        weights, bias = self.weights[: c.filters], None if self.bias is None else self.bias[: c.filters]
        strides = decision.x_strides, decision.y_strides
        if isinstance(choice, BandChoice):
            banded = BandedConvolution(c, choice, *strides, weights, bias, self.threads)
            return banded, weights
        if isinstance(choice, LastChoice):
            order: Any = c.filters, choice.packing
            packed = self._packed.get(order)
            if packed is None:
                packed = self._packed[order] = pack_last(c, choice, weights, bias)
            return LastConvolution(c, choice, *strides, self.threads), packed
        tile = choice.tile
        order = (c.filters, choice.tiles, tile.by_column, tile.separable, tile.combined, tile.apart)
        packed = self._packed.get(order)
        if packed is None:
            packed = self._packed[order] = pack_weights(c, choice, weights, bias)
        return NativeConvolution(c, choice, machine, *strides, self.threads), packed


def _result(image: np.ndarray, shape: Sequence[int], order: str) -> np.ndarray:
    """An uninitialised result that starts at a cache line, away from where the image starts in a page.

    A load just behind a store then never looks as if it read what was stored. Rows of both may be a multiple
    of a page long: half a page is far from all of them. So may pixels whose channels lie side by side, or two
    or four of them: what lies a little before the image was stored in good time.
    """
    size = image.itemsize * prod(shape)
    try:
        memory = aligned_bytes(size + _PAGE)
        apart = _PAGE // 2 if order == "nchw" else -_PIXEL
        start = (address_of(image) + apart - address_of(memory)) % _PAGE & -_LINE
        return memory[start : start + size].view(image.dtype).reshape(shape)
    except (MemoryError, ValueError):  # more than there is, or than can be counted
        taken = f"takes {size / 1e9:.4g} GB" if size else "is empty, with sides beyond what can be counted"
        raise InputError(
            f"a result of shape {list(shape)} {taken}",
            where="x",
            expected="a result that fits the memory",
            fix="pad less, or convolve parts of the image",
        ) from None


def _paged(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether rows of image and result start a multiple of a page apart: it then matters where both begin."""
    return not (x.strides[2] % _PAGE or y.strides[2] % _PAGE)


def _strides(array: np.ndarray) -> tuple[int, ...]:
    """Strides in bytes; 4 for the elements of rows that have one, where NumPy leaves it open."""
    *outer, element = array.strides
    return (*outer, 4 if array.shape[-1] == 1 else element)


def _bias(bias: Any, filters: int) -> np.ndarray:
    vector = np.array(take(bias, "bias", halves=True)[0], np.float32)
    if vector.shape != (filters,):
        raise InputError(f"the shape is {list(vector.shape)}", where="bias", expected=f"[{filters}]")
    return vector


def _one_of(word: Any, where: str, known: Sequence[str]) -> str:
    if not isinstance(word, str) or word not in known:
        raise unknown_name(where, word, known, where=where)
    return word


def _epilogue(given: str | Elementwise | Sequence[Elementwise] | None) -> tuple[Elementwise, ...]:
    if isinstance(given, Sequence) and not isinstance(given, str):
        return tuple(op for word in given if (op := activation(word)) is not None)
    op = activation(given)
    return () if op is None else (op,)
