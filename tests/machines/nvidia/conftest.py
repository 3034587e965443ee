"""Kernels around single instructions, compiled without a GPU, and their SASS."""

import re
import subprocess

import pytest

from regweave.layouts import element_type

# what a value needs in inline assembly: C type and constraint
_OPERANDS = {"f32": ("float", "f"), "f64": ("double", "d")}
_PACKED = ("unsigned", "r")
_LINE = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Za-z0-9_.]*)")


def _operand(layout):
    """(C type, constraint, values per lane) of a fragment."""
    kind, constraint = _OPERANDS.get(layout.dtype, _PACKED)
    return kind, constraint, layout.registers // element_type(layout.dtype).registers


def _instruction_kernel(entry, function):
    """A kernel that loads operands, executes `entry` once and stores its result."""
    inputs, text, number = [], {}, 0
    d_type, d_constraint, count = _operand(entry.fragments["D"])
    outside = entry.mnemonic.startswith("wgmma")
    for operand in "DAB" if outside else "DABC":
        if operand not in entry.fragments:
            continue
        kind, constraint, size = _operand(entry.fragments[operand])
        text[operand] = "{" + ", ".join(f"%{number + at}" for at in range(size)) + "}"
        number += size
        if operand != "D":
            inputs += [
                f'"{constraint}"((({kind} *){operand.lower()})[{at} * 128 + threadIdx.x])'
                for at in range(size)
            ]
    if outside:
        # b in memory by descriptor, then: scale of d, signs of a and b, b transposed (16-bit types only)
        inputs.append('"l"(descriptor)')
        floats = ", 1, 1" if entry.fragments["D"].dtype != "s32" else ""
        turned = ", 0" if entry.fragments["A"].dtype in ("f16", "bf16") else ""
        tail = f"%{number}, p{floats}{turned}"
        body = f"{{.reg .pred p; setp.ne.b32 p, 1, 0; {entry.mnemonic} {text['D']}, {text['A']}, {tail};}}"
    else:
        scales = ""
        if "block_scale" in entry.mnemonic:
            inputs += ['"r"(scales[threadIdx.x])', '"r"(scales[threadIdx.x + 32])']
            scales = f", {{%{number}}}, {{0, 0}}, {{%{number + 1}}}, {{0, 0}}"
        body = f"{entry.mnemonic} {', '.join(text.values())}{scales};"
    modifier = "+" if outside else "="
    outputs = ", ".join(f'"{modifier}{d_constraint}"(r[{at}])' for at in range(count))
    stores = " ".join(f"d[{at} * 128 + threadIdx.x] = r[{at}];" for at in range(count))
    loads = " ".join(f"r[{at}] = d[{at} * 128 + threadIdx.x];" for at in range(count))
    # wgmma wants its registers settled before and its result awaited
    before, after = (
        ('asm volatile("wgmma.fence.sync.aligned;");',
         'asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;");')
        if outside else ("", "")
    )  # fmt: skip
    return f"""
extern "C" __global__ void {function}(void *a, void *b, void *c, {d_type} *d, unsigned *scales,
                                      unsigned long long descriptor) {{
    {d_type} r[{count}]; {loads if outside else ""}
    {before} asm volatile("{body}" : {outputs} : {", ".join(inputs)}); {after}
    {stores}
}}"""


def _movement_kernel(mnemonic, registers, function):
    """A kernel around a load, store or move of matrices, named by its mnemonic."""
    values = "{" + ", ".join(f"%{at}" for at in range(registers)) + "}"
    opcode = mnemonic.partition(".")[0]
    forms = {
        "movmatrix": f"{mnemonic} %0, %1;",
        "stmatrix": f"{mnemonic} [%{registers}], {values};",
        "ldmatrix": f"{mnemonic} {values}, [%{registers}];",
    }
    if opcode == "tcgen05":
        offset = ", 4" if "16x32bx2" in mnemonic else ""
        address = f"[%{registers}]{offset}"
        forms[opcode] = (
            f"{mnemonic} {values}, {address};" if ".ld." in mnemonic else f"{mnemonic} {address}, {values};"
        )
    outputs = ", ".join(f'"+r"(r[{at}])' for at in range(registers))
    return f"""
extern "C" __global__ void {function}(unsigned *x) {{
    unsigned r[{registers}];
    for (int i = 0; i < {registers}; ++i) r[i] = x[32 * i + threadIdx.x];
    asm volatile("{forms[opcode]}" : {outputs} : "r"(x[threadIdx.x]) : "memory");
    for (int i = 0; i < {registers}; ++i) x[32 * i + threadIdx.x] = r[i];
}}"""


@pytest.fixture(scope="session")
def instruction_kernel():
    """A function: a matrix instruction and a name -> a kernel that executes it once."""
    return _instruction_kernel


@pytest.fixture(scope="session")
def movement_kernel():
    """A function: the mnemonic of a load, store or move, its registers and a name -> a kernel."""
    return _movement_kernel


@pytest.fixture(scope="session")
def sass(tmp_path_factory):
    """A function: CUDA C++ and a target -> {kernel: its opcodes}, None if the compiler refuses the code."""
    core = pytest.importorskip("cuda.core", reason="needs the extra cuda: pip install 'regweave[cuda]'")
    from cuda.pathfinder import find_nvidia_binary_utility

    disassembler = find_nvidia_binary_utility("nvdisasm")
    if disassembler is None:
        pytest.skip("needs nvdisasm, which the extra cuda installs")
    path = tmp_path_factory.mktemp("sass") / "kernel.cubin"

    def compiled(code, target):
        try:
            binary = core.Program(code, "c++", core.ProgramOptions(arch=target)).compile("cubin").code
        except Exception as error:
            if "ptxas" in str(error):
                return None
            raise  # a fault of the code around the instruction
        path.write_bytes(binary)
        run = subprocess.run([disassembler, "-c", str(path)], capture_output=True, text=True, check=True)
        kernels = re.split(r"^\s*\.section\s+\.text\.(\w+)", run.stdout, flags=re.MULTILINE)
        return {name: _LINE.findall(body) for name, body in zip(kernels[1::2], kernels[2::2], strict=True)}

    return compiled
