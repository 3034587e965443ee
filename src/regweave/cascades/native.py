"""Chains and element-wise runs as machine code: kernel loaded, constants in place, to be called by address.

    native = NativeChain(chain, machine)
    arguments = native.arguments()            the kernel's Args with the packed weights filled in
    arguments.x, arguments.y, ... = ...       see kernels/common/arguments.py
    run(native.entry, ctypes.addressof(arguments), parts, threads)

`NativeRun(structure, operands, machine)` is the same for element-wise work. Kernels depend on structure alone
and are kept, so a second chain of equal structure only packs. Only the most recent ones, though: whoever uses
an address keeps the function that it is of until the call is over. They are kept on disk too: a later process
does not even load the generators that `kernels.chain_kernel` and its like would need.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from regweave import kernels
from regweave.cascades.arrays import aligned_bytes
from regweave.devices import cpu
from regweave.kernels import ChainPlan, chain_arguments, chain_plan, packing_steps
from regweave.machines.x86 import VectorMachine
from regweave.operators import Chain, Elementwise, Operand, Signature

if TYPE_CHECKING:
    from regweave.kernels import RunStructure


@lru_cache(maxsize=64)
def _loaded_chain(signature: Signature, machine: VectorMachine) -> cpu.Function:
    return cpu.load_made(lambda: kernels.chain_kernel(signature, machine), repr(signature), machine)


@lru_cache(maxsize=256)
def _loaded_sweep(structure: RunStructure, machine: VectorMachine) -> cpu.Function:
    return cpu.load_made(lambda: kernels.sweep_kernel(structure, machine), repr(structure), machine)


@lru_cache(maxsize=64)
def loaded_gemm(epilogue: tuple[Elementwise, ...], machine: VectorMachine) -> cpu.Function:
    """The kernel `void gemm(const GemmArguments *, size_t part)`."""
    return cpu.load_made(lambda: kernels.gemm_kernel(epilogue, machine), f"gemm {epilogue!r}", machine)


@lru_cache(maxsize=4)
def loaded_packing(machine: VectorMachine) -> cpu.Function:
    """The packing kernel `void pack(const PackArguments *)`."""
    return cpu.load_made(lambda: kernels.packing_kernel(machine), "packing", machine)


class NativeChain:
    """Kernel and packed weights of a chain. Keep it alive while its addresses are in use."""

    def __init__(self, chain: Chain, machine: VectorMachine) -> None:
        self.chain = chain
        self.machine = machine
        self.plan: ChainPlan = chain_plan(chain.signature, machine)
        self.kernel = _loaded_chain(chain.signature, machine)
        self.packed = self._pack()
        self._type = chain_arguments(chain.signature)

    @property
    def entry(self) -> int:
        """The address of `void kernel(const Args *, size_t part)`."""
        return self.kernel.address

    @property
    def packed_bytes(self) -> int:
        """Size of the packed weights."""
        return sum(memory.nbytes for memory in self.packed)

    def scratch_bytes(self, parts: int = 1) -> int:
        """Scratch memory for that many parts; it must start at a multiple of 64."""
        return parts * self.plan.scratch_bytes

    def arguments(self) -> ctypes.Structure:
        """A fresh argument block that holds the packed weights; all other fields are zero."""
        arguments = self._type()
        for index, memory in enumerate(self.packed):
            arguments.weights[index] = memory.ctypes.data
        return arguments

    def _pack(self) -> tuple[np.ndarray, ...]:
        pack = loaded_packing(self.machine).typed(None, ctypes.c_void_p)
        packed = []
        for stage in packing_steps(self.chain, self.plan):
            memory = aligned_bytes(stage.size)
            for step in stage.steps:
                arguments = step.arguments(memory.ctypes.data)
                pack(ctypes.addressof(arguments))
            packed.append(memory)
        return tuple(packed)


class NativeRun:
    """Kernel and channel operands of an element-wise run. Keep it alive while its addresses are in use."""

    def __init__(self, structure: RunStructure, operands: Sequence[Operand], machine: VectorMachine) -> None:
        self.kernel = _loaded_sweep(structure, machine)
        self._type = kernels.run_arguments(structure)
        #: the operands with one element per channel, zeros behind them up to whole vectors
        self.vectors = tuple(
            _padded(operand, -(-structure.channels // machine.lanes) * machine.lanes)
            for operand in operands
            if isinstance(operand, np.ndarray)
        )

    @property
    def entry(self) -> int:
        """The address of `void kernel(const Args *, size_t part)`."""
        return self.kernel.address

    def arguments(self) -> ctypes.Structure:
        """A fresh argument block that holds the channel operands; all other fields are zero."""
        arguments = self._type()
        for index, vector in enumerate(self.vectors):
            arguments.weights[index] = vector.ctypes.data
        return arguments


def _padded(vector: np.ndarray, size: int) -> np.ndarray:
    memory = np.zeros(size, np.float32)
    memory[: vector.size] = vector
    return memory
