"""Native operators inside onnxruntime: values, shapes, threads, faults and lifetimes."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
from onnx import TensorProto, helper

from regweave.devices import cpu
from regweave.devices.onnxruntime import (
    Extra,
    NativeOperator,
    NativeSession,
    Pitch,
    unsupported_reason,
)
from regweave.errors import DeviceError
from regweave.operators import Rest, Same

pytestmark = pytest.mark.skipif(unsupported_reason() is not None, reason=str(unsupported_reason()))

K = 4
FIELDS = ("x", "y", "x_pitch", "y_pitch", "count", "batch", "parts", "scratch", "extra")

# y = x + extra on count * batch * K floats, divided into parts of elements.
# The scratch is written, so that a missing or short one shows.
ADD = """
.globl add_floats
add_floats:
    movq 56(%rdi), %rax
    testq %rax, %rax
    jz   4f
    movq %rsi, %rcx
    shlq $6, %rcx
    movq %rsi, 56(%rax,%rcx)
4:  movq 32(%rdi), %r8
    imulq 40(%rdi), %r8
    shlq $2, %r8
    movq 48(%rdi), %r9
    movq %r8, %rax
    imulq %rsi, %rax
    xorl %edx, %edx
    divq %r9
    movq %rax, %r10
    incq %rsi
    movq %r8, %rax
    imulq %rsi, %rax
    xorl %edx, %edx
    divq %r9
    movq %rax, %r11
    movq (%rdi), %rax
    movq 8(%rdi), %rdx
    movq 64(%rdi), %rcx
1:  cmpq %r11, %r10
    jae  2f
    movss (%rax,%r10,4), %xmm0
    addss (%rcx,%r10,4), %xmm0
    movss %xmm0, (%rdx,%r10,4)
    incq %r10
    jmp  1b
2:  ret
"""


class Arguments(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_void_p) for name in FIELDS)


ROWS = (Same(0), K)


def operator(name="Add4", axis=None, output=ROWS, parts=1, scratch=64, **changes) -> NativeOperator:
    library = cpu.load_text(ADD, ("add_floats",))
    settings = {
        "kernel": library.address("add_floats"),
        "arguments": Arguments(),
        "channels_in": K,
        "channels_out": K,
        "x_pitch": Pitch(0, 4 * K),
        "y_pitch": Pitch(4, 0),
        "places": {name: name for name in FIELDS},
        "extras": (Extra(Arguments.extra.offset, K),),
        "keep": (library,),
    } | changes
    return NativeOperator(name, axis=axis, output=output, parts=parts, scratch=scratch, **settings)


def model(op_type="Add4", rank=2, result=None):
    shape = [None] * rank
    graph = helper.make_graph(
        [
            helper.make_node(op_type, ["x", "e"], ["s"], domain="regweave"),
            helper.make_node("Relu", ["s"], ["y"]),
        ],
        "one",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xe"],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * (result or rank))],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("regweave", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def pair(*shape):
    random = np.random.default_rng(sum(shape))
    return {name: random.standard_normal(shape, dtype=np.float32) for name in "xe"}


def relu_sum(feeds):
    return np.maximum(feeds["x"] + feeds["e"], 0)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("rows", [0, 1, 2, 3, 1001])
def test_rows_of_any_number(threads, rows):
    session = NativeSession(model(), [operator(parts=2 * threads - 1)], threads=threads)
    feeds = pair(rows, K)
    np.testing.assert_array_equal(session.run(None, feeds)[0], relu_sum(feeds))


def test_one_session_takes_any_sizes_in_turn():
    session = NativeSession(model(), [operator(parts=3)], threads=2)
    for rows in (5, 0, 700, 1, 64):
        feeds = pair(rows, K)
        np.testing.assert_array_equal(session.run(None, feeds)[0], relu_sum(feeds))


@pytest.mark.parametrize("shape", [(3, K, 5, 7), (1, K, 1, 1), (2, K, 0, 3), (0, K, 2, 2)])
def test_images_with_channels_second(shape):
    images = operator(axis=1, output=(Same(0), K, Same(2), Same(3)))
    session = NativeSession(model(rank=4), [images])
    feeds = pair(*shape)
    np.testing.assert_array_equal(session.run(None, feeds)[0], relu_sum(feeds))


def test_an_output_of_another_rank_and_one_dimension_that_follows():
    flat = operator(output=(Same(1), Rest()))
    session = NativeSession(model(rank=3, result=2), [flat])
    feeds = pair(3, 5, K)
    np.testing.assert_array_equal(session.run(None, feeds)[0], relu_sum(feeds).reshape(5, -1))


@pytest.mark.parametrize(
    ("settings", "x", "e"),
    [
        ({}, (3, 5), (3, 5)),  # elements that are no whole rows
        ({}, (3, K), (2, K)),  # another input too small
        ({"axis": 1, "output": (Same(0), K)}, (3, 5), (3, 5)),  # other channels
        ({"axis": 2, "output": (Same(0), K)}, (3, K), (3, K)),  # no such dimension
        ({"output": (Same(0), 5)}, (3, K), (3, K)),  # an output that does not hold the elements
        ({"output": (Same(2), K)}, (3, K), (3, K)),
        ({"output": (Rest(), 5)}, (3, K), (3, K)),
    ],
)
def test_shapes_that_were_not_planned_are_errors_not_crashes(settings, x, e):
    session = NativeSession(model(), [operator(**settings)])
    feeds = {"x": np.zeros(x, np.float32), "e": np.zeros(e, np.float32)}
    with pytest.raises(DeviceError, match="not as planned"):
        session.run(None, feeds)


def test_too_many_dimensions_are_an_error():
    session = NativeSession(model(rank=9), [operator()])
    with pytest.raises(DeviceError, match="not as planned"):
        session.run(None, pair(*[1] * 8, K))


def test_an_operator_that_is_missing_is_onnxruntimes_error():
    with pytest.raises(DeviceError, match="Other"):
        NativeSession(model("Other"), [operator()])


def test_two_sessions_with_operators_of_one_name_do_not_mix():
    first = NativeSession(model(), [operator()])
    second = NativeSession(model(rank=4), [operator(axis=1, output=(Same(0), K, Same(2), Same(3)))])
    a, b = pair(2, K), pair(2, K, 3, 3)
    np.testing.assert_array_equal(first.run(None, a)[0], relu_sum(a))
    del first
    gc.collect()
    np.testing.assert_array_equal(second.run(None, b)[0], relu_sum(b))


def test_sessions_run_and_die_on_several_threads_at_once():
    faults = []

    def work(seed):
        try:
            for rows in range(20):
                session = NativeSession(model(), [operator(parts=2)], threads=1 + rows % 2)
                feeds = pair(rows + seed, K)
                np.testing.assert_array_equal(session.run(None, feeds)[0], relu_sum(feeds))
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults


def test_one_session_runs_on_several_threads_at_once():
    session = NativeSession(model(), [operator(parts=2)], threads=2)
    faults = []

    def work(seed):
        for rows in range(50):
            feeds = pair(rows + 100 * seed, K)
            if not np.array_equal(session.run(None, feeds)[0], relu_sum(feeds)):
                faults.append((seed, rows))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults


def test_a_forked_process_runs_with_one_thread_and_is_told_about_more():
    session = NativeSession(model(), [operator()])
    several = NativeSession(model(), [operator()], threads=2)
    feeds = pair(3, K)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            good = np.array_equal(session.run(None, feeds)[0], relu_sum(feeds))
            try:
                several.run(None, feeds)
            except DeviceError as error:
                code = 0 if good and "process" in str(error) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_session_may_live_until_the_interpreter_ends():
    program = f"""
    import sys
    sys.path.insert(0, {str(os.path.dirname(__file__))!r})
    import test_native_operators as t
    held = t.NativeSession(t.model(), [t.operator(parts=2)], threads=2)
    sys.held = held
    cycle = [held]; cycle.append(cycle)
    print(held.run(None, t.pair(3, t.K))[0].shape)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "(3, 4)", "")
