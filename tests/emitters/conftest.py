"""Two ways to look at CUDA C++ without a GPU: run its text on all lanes, or compile it and read the SASS."""

import re
import subprocess
from collections import Counter

import numpy as np
import pytest

# asm("{ ... cvt.rn.f16.f32 l, %1; ... }" : "=r"(v2) : "f"(s0), "f"(s1));
_PACKING = r"asm\(.*cvt\.rn\.(b?f16)\.f32 l, %1;.*\"=r\"\((\w+)\).*\((\w+)\).*\((\w+)\)\);"


@pytest.fixture(scope="session")
def run_text():
    """A function that runs an emitted device function on `[lanes, words]` and returns `[lanes, words]`.

    It reads the text, not the program: every line becomes one NumPy statement on all lanes at once.
    """
    return _run_text


def _run_text(code, words):
    lanes = words.shape[0]
    names = {
        "lane": np.arange(lanes, dtype=np.uint32),
        "source": list(np.ascontiguousarray(words.T)),
        "__float_as_uint": lambda value: value,
        "__uint_as_float": lambda value: value,
        "__funnelshift_r": lambda low, high, by: (low >> (by & 31)) | (high << ((32 - by) & 31)),
        "__shfl_sync": lambda mask, value, index, width: value[
            np.arange(lanes) // width * width + index % width
        ],
        "where": np.where,
        "word": np.uint32,
    }
    stored = {}
    body = code.split("{\n", 1)[1].rsplit("}", 1)[0]
    for line in (text.strip() for text in body.splitlines()):
        if match := re.fullmatch(r"const \w+ (\w+) = (.*);", line):
            names[match[1]] = _value(match[2], names)
        elif match := re.fullmatch(r"destination\[(\d+)\] = (.*);", line):
            stored[int(match[1])] = _value(match[2], names)
        elif match := re.fullmatch(
            r"asm\(.*cvt\.rn\.(b?f16)\.f32 l, %1;.*\"=r\"\((\w+)\).*\((\w+)\).*\((\w+)\)\);", line
        ):
            names[match[2]] = _packed(match[1], names[match[3]], names[match[4]])
        else:
            assert line.startswith(('asm("mov.u32 %0, %%laneid;"', "unsigned ")), line
    return np.stack([stored[index] for index in range(len(stored))], axis=1).astype(np.uint32)


def _value(text, names):
    text = re.sub(r"\b(0x[0-9a-f]+|\d+)u\b", r"word(\1)", text)
    if match := re.fullmatch(r"(\w+) \? (.*) : (.*)", text):
        text = f"where({match[1]}, {match[2]}, {match[3]})"
    return eval(text, {"__builtins__": {}}, names)


def _packed(kind, low, high):
    if kind == "f16":
        halves = [
            word.view(np.float32).astype(np.float16).view(np.uint16).astype(np.uint32) for word in (low, high)
        ]
    else:
        halves = [word >> np.uint32(16) for word in (low, high)]  # for values that need no rounding
    return halves[0] | halves[1] << np.uint32(16)


class Sass:
    """Instructions of a compiled kernel: mnemonics in order, and how often each base name occurs."""

    def __init__(self, listing):
        pattern = r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)([^;]*);"
        found = [(match[1], match[2]) for match in re.finditer(pattern, listing)]
        self.instructions = [(name, rest) for name, rest in found if name not in ("NOP", "BRA")]
        self.count = Counter(name for name, _ in self.instructions)

    def __len__(self):
        return len(self.instructions)


@pytest.fixture(scope="session")
def compile_kernel():
    """A function that compiles a kernel for a target and returns its `Sass`; skips without the compiler."""
    core = pytest.importorskip("cuda.core", reason="needs the extra cuda: pip install 'regweave[cuda]'")
    from cuda.pathfinder import find_nvidia_binary_utility

    disassembler = find_nvidia_binary_utility("nvdisasm")
    if disassembler is None:
        pytest.skip("needs nvdisasm, which the extra cuda installs")

    def compiled(code, target, folder):
        cubin = core.Program(code, "c++", core.ProgramOptions(arch=target)).compile("cubin")
        path = folder / f"{target}.cubin"
        path.write_bytes(cubin.code)
        run = subprocess.run([disassembler, "-c", str(path)], capture_output=True, text=True, check=True)
        return Sass(run.stdout)

    return compiled
