"""Results of channels last: activation, then vectors to memory, the last one of a pixel maybe masked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from regweave.assembly.variables import Memory, Variable
from regweave.kernels.channels_last.tiles import DenseTile, DepthTile
from regweave.kernels.common.epilogue import Epilogue
from regweave.kernels.common.workspace import Workspace
from regweave.kernels.convolution.results import activate_memory, no_operand, to_memory
from regweave.kernels.functions.activations import activate_all
from regweave.kernels.functions.buildermath import BuilderMath
from regweave.operators import Elementwise

Results = Mapping[tuple[int, int], Variable]
#: Vector registers that cheap activations take beside the results: a result, a constant.
_WORKING = 2


def activated(
    w: Workspace, epilogue: Sequence[Elementwise], acc: Results
) -> tuple[Results, dict[tuple[int, int], Memory]]:
    """The results after the epilogue: in registers, or, of a costly one, in the memory that is given too."""
    if not epilogue:
        return acc, {}
    epilogue = tuple(epilogue)
    spare = len(w.b.machine.register_class("vector").registers) - len(acc) - _WORKING
    if Epilogue(epilogue, by_vector=False).direct and spare >= 1:
        math = BuilderMath(w.b, shared=spare)
        return {key: activate_all(math, epilogue, value, no_operand) for key, value in acc.items()}, {}
    memory, size = to_memory(w, acc), w.geometry.vector_bytes
    activate_memory(w, epilogue, memory, len(acc))
    return acc, {key: memory + number * size for number, key in enumerate(acc)}


class ResultStore:
    """Stores results, through the mask at slot `mask` where asked, past the caches if the tile says so."""

    def __init__(
        self, w: Workspace, tile: DenseTile | DepthTile, memory: Mapping[tuple[int, int], Memory]
    ) -> None:
        self.w, self.memory, self.mask = w, memory, None
        self.plain = "store_stream" if tile.stream else "store"
        if tile.masked:
            self.mask = load_slot_mask(w)

    def __call__(self, place: Memory, acc: Results, key: tuple[int, int], *, masked: bool) -> None:
        """Result `key` to its place."""
        b, value = self.w.b, acc[key]
        if key in self.memory:
            value = b.vector("value")
            b.emit("load", value, self.memory[key])
        if masked:
            b.emit("store_masked", place, value, self.mask)
        else:
            b.emit(self.plain, place, value)


def load_slot_mask(w: Workspace) -> Variable:
    """The mask that slot `mask` is the address of."""
    at, mask = w.b.general("mask_at"), w.b.mask("mask")
    w.b.emit("mov", at, w.slot("mask"))
    w.b.emit("load_mask", mask, w.b.at(at))
    return mask
