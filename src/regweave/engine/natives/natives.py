"""From a piece of a model to the native operator that runs it inside onnxruntime.

A piece of an image model comes in two variants that compute the same: *plain* ([batch, C, P], as the model
says) and *blocked* (as onnxruntime keeps images between convolutions). Which one is wanted is known only
after the layout pass, so a variant is built when it is asked for, and kept:

    natives = Natives(threads=1, block=16)
    natives.operator(piece, "Region0", blocked=True)
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from regweave.engine.natives.blocked_images import join_native, mean_native
from regweave.engine.natives.counted import chain_native, gate_native, run_native
from regweave.engine.natives.depthwise import can_run_depthwise, depthwise_operator
from regweave.engine.natives.enlarged import Enlarged, enlarging_operator
from regweave.engine.natives.native import Native
from regweave.engine.regions.preparing import convolution_layer
from regweave.engine.regions.regional import convolution_operator, region_operator
from regweave.graphs import Piece
from regweave.machines.x86 import VectorMachine


@dataclass(eq=False)
class Natives:
    """Builds and keeps native operators for one number of threads; `block` is onnxruntime's, 0 for none."""

    machine: VectorMachine
    threads: int
    block: int
    _built: dict[tuple[str, bool, Enlarged | None], Native] = field(default_factory=dict)
    _by_eight: set[str] = field(default_factory=set)

    def can_block(self, piece: Piece) -> bool:
        """Whether a piece has a blocked variant: images in, images of the same size out; or a depthwise
        convolution."""
        if not self.block or self.block % self.machine.lanes:
            return False
        if piece.kind == "convolution":
            return self.block == self.machine.lanes and can_run_depthwise(piece, self.machine)
        if not piece.keeps_image or piece.kind == "region":
            return False
        if piece.kind == "elementwise":
            return _is_flat(piece) or (piece.channel_axis == 1 and self.block == self.machine.lanes)
        # One pixel per image: pieces say rows then, and a block of channels is a part of a row.
        return piece.channel_axis == 1 or _is_one_pixel(piece)

    def build(
        self, piece: Piece, name: str, *, blocked: bool = False, enlarged: Enlarged | None = None
    ) -> Native:
        """The operator of op type `name` for a piece, with an input that it enlarges if it is said which.
        UnsupportedError where no kernel can be made."""
        key = (piece.name, blocked, enlarged)
        if key not in self._built:
            self._built[key] = (
                self._made(piece, blocked)
                if enlarged is None
                else Native(*enlarging_operator(piece, enlarged, self.machine, self.threads))
            )
        native = self._built[key]
        return replace(native, operator=replace(native.operator, name=name))

    def by_eight(self, piece: Piece, *, blocked: bool) -> bool:
        """Multiply a chain by eight from now on (see `chains.seven`); False if that changes nothing."""
        native = self._built.get((piece.name, blocked, None))
        if native is None or native.plan is None or not any(native.plan.seven):
            return False
        self._by_eight.add(piece.name)
        del self._built[piece.name, blocked, None]
        return True

    def _made(self, piece: Piece, blocked: bool) -> Native:
        block = self.block if blocked else 0
        if piece.kind == "elementwise":
            return run_native(piece, self.machine, self.threads, block)
        if piece.kind == "region":
            return self._region(piece)
        if piece.kind == "convolution":
            if blocked:
                return Native(*depthwise_operator(piece, self.machine, self.threads))
            return self._convolution(piece)
        seven = piece.name not in self._by_eight
        return chain_native(piece, self.machine, self.threads, block, seven=seven)

    def _convolution(self, piece: Piece) -> Native:
        """On plain images; the tables of each size are made when onnxruntime first meets it."""
        layer = convolution_layer(piece, self.machine, self.threads)
        shape = piece.input_shape
        assert shape is not None, "their sizes are known"
        sizes = tuple(1 if size is None else size for size in shape)
        operator = convolution_operator(piece, layer, self.machine, self.threads)
        return Native(operator, layer.dense(sizes).kernel)

    def _region(self, piece: Piece) -> Native:
        """Several pieces on plain images; shown as the kernel of the last one."""
        region = piece.region
        assert region is not None, "the caller asks for regions only"
        last = next(m.work for m in reversed(region.members) if isinstance(m.work, Piece))
        operator = region_operator(piece, self.machine, self.threads)
        return Native(operator, self._made(last, blocked=False).kernel)

    def gate(self, channels: int, name: str) -> Native:
        """x [batch, C, ...] times a gate [batch, C, 1, 1], both blocked; `channels` counts padded ones."""
        native = gate_native(channels, self.machine, self.threads)
        return replace(native, operator=replace(native.operator, name=name))

    def mean(self, channels: int, name: str) -> Native:
        """The mean of each plane of a blocked image; `channels` counts padded ones."""
        return mean_native(channels, self.machine, self.threads, name)

    def join(self, channels: tuple[int, ...], name: str) -> Native:
        """Blocked images of these numbers of channels joined along them."""
        return join_native(channels, self.machine, self.threads, self.block, name)


def _is_flat(piece: Piece) -> bool:
    return piece.run is not None and not piece.run.channels and not piece.gates


def _is_one_pixel(piece: Piece) -> bool:
    shape = piece.input_shape
    return shape is not None and len(shape) == 4 and shape[2:] == (1, 1) and shape[1] == piece.widths[0]
