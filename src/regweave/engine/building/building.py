"""From a choice of pieces to a session: replace, let onnxruntime optimise, keep images blocked, open.

    model --replace_pieces--> one node per piece        (custom operators; plain images)
          --onnxruntime-->    convolutions blocked, reorders around everything else
          --block_images-->   pieces and element-wise work join the blocked images
          --NativeSession-->  ready to run

Kernels are built at the end, when it is known which variant of a piece is wanted; for onnxruntime's optimiser
an operator that only has a name is enough.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from regweave.devices import cpu
from regweave.devices.onnxruntime import (
    DOMAIN,
    RANK,
    Extra,
    NativeOperator,
    NativeSession,
    Pitch,
    SizedOperator,
)
from regweave.engine.building.blocking import GATE, JOIN, MEAN, Facts, block_images
from regweave.engine.building.blocking import Native as NativeForm
from regweave.engine.building.blocking.rewriting import blocked_name
from regweave.engine.building.joining import Joined, join
from regweave.engine.building.optimiser import Workshop
from regweave.engine.building.stand_ins import Known, with_stand_ins
from regweave.engine.natives.enlarged import Enlarged, fold_enlargements
from regweave.engine.natives.moving import only_moves
from regweave.engine.natives.native import PLACES, Native
from regweave.engine.natives.natives import Natives
from regweave.graphs import Model, Piece, replace_pieces
from regweave.graphs.reading.external import is_external, mapped
from regweave.kernels.common.arguments import arguments_type

BLOCKED = "Blocked"
"""What the op type of a piece's blocked variant ends in."""


@dataclass(frozen=True, eq=False)
class Build:
    """`model` with pieces in it, not opened yet. `pieces` maps op types to the pieces that they run; those in
    `enlarged`, by their names, are given an input that they enlarge. `joined` are operators made of several,
    by op types."""

    model: Model
    proto: onnx.ModelProto
    natives: Mapping[str, Native]
    pieces: Mapping[str, Piece]
    enlarged: Mapping[str, Enlarged]
    joined: Mapping[str, Joined] = field(default_factory=dict)

    @property
    def blocked(self) -> frozenset[str]:
        """Names of the pieces that run in their blocked variant."""
        return frozenset(piece.name for name, piece in self.pieces.items() if name + BLOCKED in self.natives)

    @property
    def operators(self) -> tuple[NativeOperator | SizedOperator, ...]:
        """The native operators to register: those that the model has nodes of."""
        there = {node.op_type for node in self.proto.graph.node if node.domain == DOMAIN}
        alone = [native.operator for name, native in self.natives.items() if name in there]
        return (*alone, *(found.operator for found in self.joined.values()))

    def open(self, shop: Workshop, threads: int, profile: Path | None = None) -> NativeSession:
        """A session that runs it."""
        return shop.open(self.proto, self.operators, threads=threads, profile=profile)


def build(
    model: Model, pieces: Sequence[Piece], natives: Natives, shop: Workshop, *, block: bool = True
) -> Build:
    """The model with `pieces` run natively; with `block`, images stay blocked where that is cheaper."""
    by_name = {f"Region{index}": piece for index, piece in enumerate(pieces)}
    proto = replace_pieces(model, pieces)
    op_types = {f"regweave/{piece.name}": name for name, piece in by_name.items()}
    for node in proto.graph.node:
        if node.domain == DOMAIN:
            node.op_type = op_types[node.name]
    stubs = [_stub(name, 1 + len(piece.extra_inputs)) for name, piece in by_name.items()]
    optimised = shop.optimise(proto, stubs, natives.threads)
    if block and natives.block:
        optimised = block_images(optimised, facts_of(model, optimised, by_name, natives))
    runs = {name + BLOCKED: piece for name, piece in by_name.items() if piece.kind == "elementwise"}
    small: dict[str, Enlarged] = {}
    if natives.block == natives.machine.lanes:
        optimised, small = fold_enlargements(optimised, runs, natives.block)
    wanted = {node.op_type for node in optimised.graph.node if node.domain == DOMAIN}
    made = {name: _native(name, by_name, natives, small.get(name)) for name in sorted(wanted)}
    return Build(model, optimised, made, by_name, {runs[name].name: found for name, found in small.items()})


def joined(made: Build, natives: Natives, folder: Path, *, products: bool = True) -> Build:
    """What was built, with native operators that nothing foreign separates as one, and native ones in the
    place of onnxruntime's between them where there are such: of its convolutions only with `products`. Those
    that would join nothing but moves of elements have none.

    `folder` is where the weights of its optimised model lie.
    """
    tensors = {tensor.name: tensor for tensor in made.proto.graph.initializer}

    def constant(name: str) -> np.ndarray | None:
        tensor = tensors.get(name)
        if tensor is None:
            return None
        return mapped(tensor, folder) if is_external(tensor) else numpy_helper.to_array(tensor)

    def rank(name: str) -> int | None:
        if name.endswith(blocked_name("")):
            return RANK
        shape = made.model.symbols.get(name)
        return len(shape) if shape is not None else len(tensors[name].dims) if name in tensors else None

    known, alone = Known(made.model, constant), frozenset[str]()
    while True:
        proto, new = with_stand_ins(made.proto, known, natives, products=products, without=alone)
        there = {**made.natives, **new}
        results = {node.op_type: node.output[0] for node in proto.graph.node if node.op_type in new}
        proto, found = join(proto, {name: native.operator for name, native in there.items()}, rank)
        moves = {name for name, native in new.items() if only_moves(native.kernel)}
        idle = {name for one in found.values() if moves.issuperset(one.members) for name in one.members}
        useless = {results[node.op_type] for node in proto.graph.node if node.op_type in new}
        useless |= {results[name] for name in idle}
        if not useless:
            return replace(made, proto=proto, natives=there, joined=found)
        alone |= useless


def facts_of(
    model: Model, optimised: onnx.ModelProto, pieces: Mapping[str, Piece], natives: Natives
) -> Facts:
    """What the layout pass needs to know."""
    forms = {
        name: NativeForm(name + BLOCKED, tuple(range(1 + len(piece.extra_inputs))))
        for name, piece in pieces.items()
        if natives.can_block(piece)
    }
    return Facts(
        shapes=model.symbols,
        constants={tensor.name: tensor for tensor in optimised.graph.initializer},
        natives=forms,
        block=natives.block,
        gates=natives.block == natives.machine.lanes,
        sizes=model.shapes,
    )


def _native(name: str, pieces: Mapping[str, Piece], natives: Natives, enlarged: Enlarged | None) -> Native:
    if name.startswith(JOIN):
        return natives.join(tuple(map(int, name.removeprefix(JOIN).split("x"))), name)
    if name.startswith(GATE):
        return natives.gate(int(name.removeprefix(GATE)), name)
    if name.startswith(MEAN):
        return natives.mean(int(name.removeprefix(MEAN)), name)
    piece, blocked = pieces[name.removesuffix(BLOCKED)], name.endswith(BLOCKED)
    return natives.build(piece, name, blocked=blocked, enlarged=enlarged)


def _stub(name: str, inputs: int) -> NativeOperator:
    """An operator with a name and inputs but nothing to do, for a session that never runs."""
    kind = arguments_type(MOST_EXTRAS, 0)
    code = _nothing()
    return NativeOperator(
        name,
        kernel=code.address("rw_nothing"),
        arguments=kind(),
        axis=None,
        channels_in=1,
        channels_out=1,
        x_pitch=Pitch(),
        y_pitch=Pitch(),
        places=PLACES,
        output=(),
        extras=tuple(Extra(_place(kind, index)) for index in range(inputs - 1)),
        keep=(code,),
    )


MOST_EXTRAS = 15


def _place(kind: type[ctypes.Structure], index: int) -> int:
    return kind.extras.offset + 8 * index  # type: ignore[attr-defined]


@lru_cache(maxsize=1)
def _nothing() -> cpu.Library:
    return cpu.load_text(".globl rw_nothing\nrw_nothing: ret\n", ("rw_nothing",))
