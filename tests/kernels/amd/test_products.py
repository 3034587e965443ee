"""Products of blocks: what their descriptions promise, their registers, and what LLVM reads in the object."""

import re

import numpy as np
import pytest

from regweave import UnsupportedError
from regweave.devices.hip import assemble, check_object
from regweave.devices.hip.compiler import unsupported_reason as no_assembler
from regweave.devices.hip.disassembler import unsupported_reason
from regweave.errors import InputError
from regweave.kernels.amd import BlockProduct, block_product, lds_conflicts, product_kernel
from regweave.kernels.amd.product import CHUNK, ROW_BYTES
from regweave.kernels.amd.tables import MultiplyStep
from regweave.kernels.sequence import Schedule

MACHINES, DTYPES = ("gfx906", "gfx90a", "gfx942"), ("f32", "f16", "i8")
CASES = [(m, d, n) for m in MACHINES for d in DTYPES for n in (128, 3)] + [("gfx906", "i8", 32)]


@pytest.mark.parametrize(("machine", "dtype", "columns"), CASES)
def test_lds_has_no_conflicts_and_every_chunk_once(machine, dtype, columns):
    product = block_product(machine, dtype, columns=columns)
    assert lds_conflicts(product) == 0
    for operand in "AB":
        row, chunk = np.mgrid[: product.staged_rows(operand), : ROW_BYTES // CHUNK]
        places = product.place(operand, row, chunk).ravel()
        assert sorted(places) == list(range(0, product.staged_rows(operand) * ROW_BYTES, CHUNK))


def test_without_the_xor_there_would_be_conflicts(monkeypatch):
    monkeypatch.setattr(BlockProduct, "xored", lambda self, operand: False)
    assert lds_conflicts(block_product("gfx942", "f16", columns=128)) > 0


@pytest.mark.parametrize(("machine", "dtype", "columns"), CASES)
def test_registers_and_the_inner_loop(machine, dtype, columns):
    product = block_product(machine, dtype, columns=columns)
    kernel = product_kernel(product)
    alignment = 2 if machine != "gfx906" else 1
    for name, used in kernel.used.items():
        assert used <= -(-kernel.bound[name] // alignment) * alignment, name
    assert kernel.occupancy == 2
    assert kernel.demands.lds_bytes == product.lds_bytes
    labels = kernel.program.labels
    assert not [i for i in kernel.gaps if labels["blocks"] <= i < labels["done"]], "no s_nop in the loop"
    loop = kernel.inner_loop()
    assert loop is not None
    assert loop["nops"] == 0
    if machine == "gfx906" and columns == 128:
        assert loop["fma_share"] >= 0.9
        assert kernel.used["vector"] == 128


@pytest.mark.parametrize(("machine", "dtype", "columns"), CASES)
def test_the_next_blocks_are_loaded_while_these_are_multiplied(machine, dtype, columns):
    product = block_product(machine, dtype, columns=columns)
    lines = [line.strip() for line in product_kernel(product).body()]
    start = next(i for i, line in enumerate(lines) if line.endswith("blocks:"))
    end = max(i for i, line in enumerate(lines) if line.startswith("s_branch") and line.endswith("blocks"))
    products, under_way, over, rounds = 0, [], [], []
    touched = {"ds_read": set(), "ds_write": set()}
    for line in lines[start:end]:
        wait = re.search(r"vmcnt\((\d+)\)", line)
        if line.startswith(("v_fmac", "v_dot", "v_mfma")):
            products += 1
        elif line.startswith("buffer_load"):
            under_way.append(products)
        elif wait:
            arrived = len(under_way) - int(wait[1])
            over += [products - issued for issued in under_way[:arrived]]
            under_way = under_way[arrived:]
        elif line.startswith("ds_"):
            offset = int((re.search(r"offset:(\d+)", line) or [0, 0])[1])
            touched[line.partition("_b128")[0]].add(offset // product.buffer_bytes)
        elif line == "s_barrier":
            rounds.append((touched["ds_read"], touched["ds_write"]))
            touched = {"ds_read": set(), "ds_write": set()}
    assert rounds == [({0}, {1}), ({1}, {0})], "what is read is not what is written"
    # half a block of products at least: lanes machines load A and B one after the other
    assert len(over) == 2 * sum(product.loads(operand) for operand in "AB")
    assert min(over) >= products // (2 if product.step.matrix else 4)


@pytest.mark.skipif(no_assembler() is not None, reason=str(no_assembler()))
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_object_says_what_the_text_says(machine, dtype):
    kernel = product_kernel(block_product(machine, dtype, columns=128))
    agreement = check_object(kernel, assemble(kernel.text, kernel.machine.target_id))
    assert agreement.counts.lds_bytes == kernel.demands.lds_bytes
    if unsupported_reason(machine):
        pytest.skip(str(unsupported_reason(machine)))
    assert agreement.instructions == sum(not line.endswith(":") for line in kernel.body())


def test_what_is_refused():
    with pytest.raises(UnsupportedError, match="nearest: gfx90a, gfx906"):
        block_product("gfx90", "f32", columns=3)
    with pytest.raises(UnsupportedError, match="expected f32 or f16 or i8"):
        block_product("gfx906", "f64", columns=3)
    with pytest.raises(InputError, match="four waves"):
        BlockProduct("gfx906", "f32", (2, 1), (8, 8))
    with pytest.raises(InputError, match="bytes of LDS"):
        BlockProduct("gfx906", "f32", (4, 1), (32, 8))
    with pytest.raises(InputError, match="lanes of a wave"):
        MultiplyStep("v_fmac_f32", "", 1, 8, 4, matrix=False)
    with pytest.raises(InputError, match="has the shape"):
        MultiplyStep("v_mfma_f32_32x32x2_f32", "", 2, 32, 32, matrix=True)
    with pytest.raises(InputError, match="loads before stages"):
        Schedule(2, 4, load=(0, 3), stage=(1, 2))
    with pytest.raises(InputError, match="overwrites"):
        Schedule(1, 2, load=(0, 0), stage=(0, 1))
