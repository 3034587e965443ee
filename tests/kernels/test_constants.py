"""Operators with many constants: registers do not run out, whatever the tile leaves over."""

from __future__ import annotations

import itertools

import pytest

from regweave.errors import UnsupportedError
from regweave.kernels import RunStructure, chain_kernel, gemm_kernel, sweep_kernel
from regweave.machines.x86 import AVX2, AVX512, VectorMachine
from regweave.operators import (
    AddScalar,
    ChannelMul,
    Clip,
    Elementwise,
    Gelu,
    HardSigmoid,
    HardSwish,
    MulScalar,
    Relu,
    Sigmoid,
    Signature,
    Tanh,
    TensorAdd,
)

CHEAP = (Clip(-1, 1), Clip(2, 3), HardSigmoid(), HardSwish(), Relu(), MulScalar(-2), AddScalar(0.25))
LONG = (
    Gelu(),
    Tanh(),
    Clip(-1, 1),
    HardSwish(),
    Gelu("tanh"),
    Clip(2, 3),
    Sigmoid(),
    Clip(4, 5),
    ChannelMul(),
)
MANY = [*itertools.product(CHEAP[:4], CHEAP), (Clip(-1, 1), MulScalar(-2), AddScalar(0.25)), LONG]


@pytest.mark.parametrize("machine", [AVX2, AVX512], ids=lambda machine: machine.name)
@pytest.mark.parametrize("order", ["rows", "pixels", "blocked"])
def test_epilogues(machine: VectorMachine, order: str) -> None:
    block = machine.lanes if order == "blocked" else 0
    for ops in MANY:  # 47 columns: whole vectors, and one in part, whose mask takes a register too
        chain_kernel(Signature(order, (3, 47), (ops,), ((None,) * len(ops),), block), machine)  # type: ignore[arg-type]
        gemm_kernel(ops, machine)


@pytest.mark.parametrize("machine", [AVX2, AVX512], ids=lambda machine: machine.name)
@pytest.mark.parametrize("form", ["rows", "planes", "blocks"])
def test_sweeps(machine: VectorMachine, form: str) -> None:
    def structure(tensors: int, vectors: int) -> RunStructure:
        ops: tuple[Elementwise, ...] = (TensorAdd(),) * tensors + (ChannelMul(),) * vectors + LONG[:-1]
        extras = (*range(tensors), *(None for _ in ops[tensors:]))
        return RunStructure(ops, extras, form, 32)  # type: ignore[arg-type]

    for tensors in range(6):
        sweep_kernel(structure(tensors, 5 - tensors), machine)
        with pytest.raises(UnsupportedError, match="6 operands"):
            sweep_kernel(structure(tensors, 6 - tensors), machine)
