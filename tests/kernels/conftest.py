"""Running kernels on memory that ends, or starts, at a page which must not be touched.

    run = kernels(AVX512)
    y = run.chain(chain, x)              # every tensor, the packed weights and the scratch memory are fenced
    y = run.chain(chain, x, at="start")  # the same, with the forbidden page before the first element

A read or write out of bounds ends the process: that is the test.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import pytest

from regweave.devices import cpu
from regweave.kernels import (
    GemmArguments,
    PackStep,
    chain_arguments,
    chain_kernel,
    chain_plan,
    gemm_kernel,
    gemm_packing,
    packing_kernel,
    packing_steps,
)
from regweave.machines.x86 import AVX2, AVX512, VectorMachine
from regweave.machines.x86.features import supports
from regweave.operators import Chain, Elementwise, Order, Stage
from regweave.operators.chain import to_blocks

_PAGE = mmap.PAGESIZE
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


class Fenced:
    """Float32 arrays between two forbidden pages; `at` says which of the two they touch."""

    def __init__(self, at: str) -> None:
        self.at = at
        self._maps: list[tuple[mmap.mmap, np.ndarray]] = []

    def empty(self, shape: Sequence[int]) -> np.ndarray:
        """An array full of NaN."""
        size = 4 * int(np.prod(shape))
        inner = -(-max(size, 1) // _PAGE) * _PAGE
        region = mmap.mmap(-1, inner + 2 * _PAGE)
        raw = np.frombuffer(region, np.uint8)
        for start in (0, _PAGE + inner):
            assert _libc.mprotect(raw.ctypes.data + start, _PAGE, 0) == 0
        start = _PAGE if self.at == "start" else _PAGE + inner - size
        array = raw[start : start + size].view(np.float32).reshape(shape)
        array[...] = np.nan
        self._maps.append((region, raw))
        return array

    def copy(self, source: np.ndarray) -> np.ndarray:
        """A copy of an array."""
        array = self.empty(source.shape)
        array[...] = source
        return array


class Kernels:
    """Builds, packs and runs kernels of one machine; everything loaded is kept."""

    def __init__(self, machine: VectorMachine) -> None:
        self.machine = machine
        self._loaded: dict[object, tuple[cpu.Function, Callable[..., None]]] = {}

    def _function(
        self, key: object, listing: Callable[[], object], *arguments: object
    ) -> Callable[..., None]:
        if key not in self._loaded:
            function = cpu.load(listing())  # type: ignore[arg-type]
            call = ctypes.CFUNCTYPE(None, *arguments)(function.address)  # type: ignore[arg-type]
            self._loaded[key] = (function, call)
        return self._loaded[key][1]

    def pack(self, steps: Sequence[PackStep], to: int, matrices: Fenced | None = None) -> None:
        """Make the copies; their matrices are fenced as well if `matrices` is given."""
        pack = self._function("pack", lambda: packing_kernel(self.machine), ctypes.c_void_p)
        for step in steps:
            if matrices is not None and step.matrix.flags.c_contiguous:
                step = PackStep(step.offset, matrices.copy(step.matrix), step.width, step.panel_step)
            arguments = step.arguments(to)
            pack(ctypes.addressof(arguments))

    def chain(
        self,
        chain: Chain,
        x: np.ndarray,
        extras: Sequence[np.ndarray] = (),
        *,
        parts: int = 1,
        at: str = "end",
        flags: int = 0,
        onto: int | None = None,
    ) -> np.ndarray:
        """The kernel's result, every part run; `onto`: the extra input whose memory gets it."""
        fence = Fenced(at)
        plan = chain_plan(chain.signature, self.machine)
        kernel = self._function(
            chain.signature,
            lambda: chain_kernel(chain.signature, self.machine),
            ctypes.c_void_p,
            ctypes.c_size_t,
        )
        x = fence.copy(x)
        y = fence.empty(result_shape(chain, x))
        arguments = chain_arguments(chain.signature)()
        arguments.x, arguments.y = x.ctypes.data, y.ctypes.data
        row_axis = 0 if chain.order == "rows" else 1
        arguments.x_pitch, arguments.y_pitch = x.strides[row_axis], y.strides[row_axis]
        arguments.rows = x.shape[0] if chain.order == "rows" else x.shape[2]
        arguments.batch = 1 if chain.order == "rows" else x.shape[0]
        arguments.parts, arguments.flags = parts, flags
        kept = [fence.copy(extra) for extra in extras]
        for index, extra in enumerate(kept):
            arguments.extras[index] = extra.ctypes.data
        if onto is not None:
            y = kept[onto]
            arguments.y = y.ctypes.data
        for index, stage in enumerate(packing_steps(chain, plan)):
            memory = fence.empty((stage.size // 4,))
            self.pack(stage.steps, memory.ctypes.data, fence)
            assert not np.isnan(memory).any() or any(np.isnan(s.weight).any() for s in chain.stages)
            arguments.weights[index] = memory.ctypes.data
        scratch = fence.empty((plan.scratch_bytes * parts // 4,))
        arguments.scratch = scratch.ctypes.data
        for part in range(parts):
            kernel(ctypes.addressof(arguments), part)
        return y.copy()

    def gemm(
        self,
        a: np.ndarray,
        b: np.ndarray,
        epilogue: tuple[Elementwise, ...] = (),
        operands: tuple[np.ndarray, ...] = (),
        extras: Sequence[np.ndarray] = (),
        *,
        parts: int = 1,
        at: str = "end",
    ) -> np.ndarray:
        """epilogue(a @ b)."""
        fence = Fenced(at)
        kernel = self._function(
            ("gemm", epilogue), lambda: gemm_kernel(epilogue, self.machine), ctypes.c_void_p, ctypes.c_size_t
        )
        size, shares = gemm_packing(b, operands, self.machine, parts)
        packed = fence.empty((size // 4,))
        for steps in shares:
            self.pack(steps, packed.ctypes.data)
        a, kept = fence.copy(a), [fence.copy(extra) for extra in extras]
        c = fence.empty((a.shape[0], b.shape[1]))
        arguments = GemmArguments(
            a.ctypes.data, c.ctypes.data, packed.ctypes.data, a.strides[0], c.strides[0], *a.shape[:1]
        )
        arguments.n, arguments.k, arguments.parts = b.shape[1], a.shape[1], parts
        for index, extra in enumerate(kept):
            arguments.extras[index], arguments.extra_pitch = extra.ctypes.data, extra.strides[0]
        for part in range(parts):
            kernel(ctypes.addressof(arguments), part)
        return c.copy()


def result_shape(chain: Chain, x: np.ndarray) -> tuple[int, ...]:
    """The shape of the chain's result."""
    n = chain.widths[-1]
    if chain.order == "rows":
        return (x.shape[0], n)
    if chain.order == "pixels":
        return (x.shape[0], n, x.shape[2])
    return (x.shape[0], -(-n // chain.block), x.shape[2], chain.block)


_KERNELS = {machine.name: Kernels(machine) for machine in (AVX512, AVX2)}


@pytest.fixture(params=list(_KERNELS))
def kernels(request: pytest.FixtureRequest) -> Kernels:
    """The kernels of each machine that this processor can be."""
    run = _KERNELS[request.param]
    if not supports(run.machine):
        pytest.skip(f"this processor is no {run.machine.name}")
    return run


@pytest.fixture
def all_kernels() -> list[Kernels]:
    """The kernels of all machines that this processor can be."""
    return [run for run in _KERNELS.values() if supports(run.machine)]


@pytest.fixture
def random() -> np.random.Generator:
    """The same numbers in every run."""
    return np.random.default_rng(20)


@pytest.fixture
def make_chain(random: np.random.Generator) -> Callable[..., Chain]:
    """make(widths, epilogue, order, block): random weights, extra inputs 0, 1, ... in order."""

    def make(
        widths: Sequence[int], epilogue: tuple[Elementwise, ...] = (), order: Order = "rows", block: int = 0
    ) -> Chain:
        stages, extra = [], 0
        for k, n in pairwise(widths):
            operands: list[np.ndarray | int | None] = []
            for op in epilogue:
                operands.append(random.standard_normal(n, np.float32) if op.operand == "channel" else None)
                if op.operand == "tensor":
                    operands[-1], extra = extra, extra + 1
            weight = (random.standard_normal((k, n)) / np.sqrt(k)).astype(np.float32)
            stages.append(Stage(weight, epilogue, tuple(operands)))
        return Chain(tuple(stages), order, block)

    return make


@pytest.fixture
def inputs(random: np.random.Generator) -> Callable[..., tuple[np.ndarray, list[np.ndarray]]]:
    """inputs(chain, m) or inputs(chain, pixels, batch): x and the extra inputs."""

    def tensors(chain: Chain, count: int, batch: int = 1) -> tuple[np.ndarray, list[np.ndarray]]:
        def tensor(width: int) -> np.ndarray:
            if chain.order == "rows":
                return random.standard_normal((count, width), np.float32)
            planes = random.standard_normal((batch, width, count), np.float32)
            return planes if chain.order == "pixels" else to_blocks(planes, chain.block).astype(np.float32)

        return tensor(chain.widths[0]), [tensor(n) for n in chain.extra_widths]

    return tensors
