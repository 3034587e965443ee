"""Ways to look at generated code without a GPU: run its text on all lanes, or compile it and count."""

import re

import numpy as np
import pytest

from regweave.devices import cuda, hip


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


@pytest.fixture(scope="session")
def inspect_cuda():
    """A function from a text, a target and kernels' names to their listings; skips without the compiler."""
    return _inspector(cuda)


@pytest.fixture(scope="session")
def inspect_hip():
    """The same for HIP C++."""
    return _inspector(hip)


def _inspector(device):
    reason = device.unsupported_reason()
    if reason is not None:
        pytest.skip(reason)

    def inspect(text, target, *names):
        listings = device.inspect(text, target, *(names or ("trial",)))
        return listings if len(listings) > 1 else listings[0]

    return inspect
