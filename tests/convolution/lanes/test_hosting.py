"""Programs in C around a plan's OpenCL kernels: compiled without remarks, run on the processor."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from regweave import InputError, UnsupportedError
from regweave.cli import main
from regweave.convolution import plan_conv
from regweave.devices.opencl.runtime import runtime_library, vendors_folder

HEADERS = Path(__file__).parent / "headers"
COMPILER = shutil.which("cc")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Compile and run a program: (exit code, what it says)."""
    library = runtime_library()
    folder = None if library is None else library.parent
    if COMPILER is None or folder is None or not (folder / "libOpenCL.so").exists():
        pytest.skip("needs a C compiler and the extra opencl")
    names = {"OCL_ICD_VENDORS": str(vendors_folder(library)), "LD_LIBRARY_PATH": str(folder)}

    def compiled(text):
        place = tmp_path_factory.mktemp("host")
        (place / "conv.c").write_text(text)
        command = [COMPILER, "-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{HEADERS}", "conv.c"]
        subprocess.run(
            [*command, f"-L{folder}", "-lOpenCL", "-lm", f"-Wl,-rpath-link,{folder}"], cwd=place, check=True
        )
        done = subprocess.run(
            ["./a.out"], cwd=place, env=os.environ | names, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout + done.stderr

    return compiled


PLANS = {
    "a phone's": ((1, 3, 40, 60), (16, 3, 3, 3), 1, 1, 1, 1, "f32", "bifrost-g76"),
    "halves": ((2, 3, 40, 61), (5, 3, 7, 7), 2, 3, 1, 1, "f16", "valhall"),
    "groups": ((2, 8, 50, 61), (6, 4, 3, 2), (2, 1), (1, 0, 2, 1), 2, 2, "f32", "opencl-cpu"),
    "strips": ((1, 2, 1100, 1000), (3, 2, 3, 3), 2, 1, 1, 1, "f32", "gfx90a", "polyphase"),
}


@pytest.mark.parametrize("name", PLANS)
def test_a_program_tests_its_kernels(name, run):
    *words, machine = PLANS[name][:8]
    plan = plan_conv(*words, machine=machine, form=next(iter(PLANS[name][8:]), None))
    assert (plan.strips > 1) == (name == "strips")
    code, said = run(plan.emit("host"))
    assert code == 0, said
    error = float(re.search(r"2000 results compared, largest error (\S+);", said)[1])
    assert error < (1e-6 if plan.dtype == "f32" else 1e-3)


def test_a_wrong_kernel_fails(run):
    text = plan_conv((1, 3, 40, 60), (16, 3, 3, 3), 1, 1, machine="bifrost-g76").emit("host")
    changed = re.sub(r"(fma\(.*), v\d+\)", r"\1, 0.0f)", text, count=1)
    assert changed != text
    code, said = run(changed)
    assert code == 1
    assert "largest error" in said
    code, said = run(text.replace("get_group_id(0)", "get_grup_id(0)"))
    assert code == 1
    assert "get_grup_id" in said


def test_the_verb_prints_one(capfd):
    words = ["conv", "--shape", "1x3x40x60", "--kernel", "8x3x3x3"]
    assert main([*words, "--machine", "adreno", "--emit", "host"]) == 0
    assert "static void pack_weights" in capfd.readouterr().out
    assert main([*words, "--emit", "host"]) == 3
    assert "regweave.conv2d runs on this processor" in capfd.readouterr().err


def test_what_cannot_be_written_is_an_error():
    plan = plan_conv((1, 3, 40, 60), (8, 3, 3, 3), machine="adreno")
    with pytest.raises(InputError, match="one of cuda, hip, opencl, host"):
        plan.emit("x86")
    with pytest.raises(UnsupportedError, match="no lane-level kernels"):
        plan_conv((1, 3, 40, 60), (8, 3, 3, 3)).emit("host")
