"""The program as a person or a script meets it: help, streams, exit codes."""

import json
import os
import shutil
import signal
import subprocess
import sys
import types
from pathlib import Path

import pytest

from regweave.cli import app as program
from regweave.cli import main
from regweave.cli.failures import exit_code_of
from regweave.cli.process import Ended
from regweave.errors import (
    AssemblyError,
    DeviceError,
    InputError,
    ModelError,
    RegisterError,
    RegweaveError,
    UnsupportedError,
    VerificationError,
)

VERBS = ("fuse", "rearrange", "bench", "doctor")


def use_verb(monkeypatch, action):
    """Make `regweave doctor` do `action`."""
    module = types.ModuleType("regweave.cli.doctor")

    def doctor_command(*, json: bool = False):
        return action()

    module.doctor_command = doctor_command
    monkeypatch.setitem(sys.modules, "regweave.cli.doctor", module)


def fails_with(error):
    def action():
        raise error

    return action


def test_help_lists_the_verbs(capfd):
    assert main(["--help"]) == 0
    out = capfd.readouterr().out
    assert all(verb in out for verb in VERBS)
    assert "Exit codes" in out


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_examples(verb, capfd):
    assert main([verb, "--help"]) == 0
    out = capfd.readouterr().out
    assert f"Usage: regweave {verb}" in out
    assert f"regweave {verb}" in out.split("Examples:")[1]
    assert "--json" in out


def test_version(capfd):
    assert main(["--version"]) == 0
    assert capfd.readouterr().out.strip() == program.__version__


@pytest.mark.parametrize(
    "words",
    [
        ["fuse"],
        ["nope"],
        ["fuse", "model.onnx", "--threads", "two"],
        ["fuse", "model.onnx", "--no-such-flag"],
        ["bench"],
        ["bench", "convs"],
        ["rearrange", "mma.m16n8k8.tf32:C"],
        ["doctor", "surplus"],
        ["bench", "gemm", "--threads", "1.5"],
        ["filter", "photo.png", "--kernel", "box3", "-o", "out.png", "--threads", "2.0"],
        ["layout", "mma.m16n8k8.tf32:C", "--where", "9", "2.5"],
    ],
)
def test_wrong_words_are_bad_input(words, capfd):
    assert main(words) == 2
    streams = capfd.readouterr()
    assert streams.out == ""
    assert "error: " in streams.err
    assert "--help" in streams.err
    assert "Traceback" not in streams.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fuse", ""], "a file's name is empty"),
        (["filter", "photo.png", "--kernel", "box3", "-o", ""], "-o: a file's name is empty"),
        (["layout", "mma.m16n8k8.tf32:C", "--where", "1.5", "0"], "--where: '1.5' is not a whole number"),
    ],
)
def test_words_that_are_no_values(words, said, capfd):
    assert main(words) == 2
    assert said in capfd.readouterr().err


def test_a_mistyped_verb_gets_a_suggestion(capfd):
    assert main(["fusse", "model.onnx"]) == 2
    assert "fuse" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (VerificationError, 1),
        (InputError, 2),
        (ModelError, 2),
        (UnsupportedError, 3),
        (DeviceError, 3),
        (AssemblyError, 3),
        (RegisterError, 3),
        (RegweaveError, 3),
    ],
)
def test_exit_codes(kind, code):
    assert exit_code_of(kind("x")) == code


def test_an_error_says_all_it_knows(monkeypatch, capfd):
    error = InputError(
        "unknown machine 'sm_81'",
        where="--machine",
        expected="a machine",
        nearest=("sm_80", "sm_89"),
        fix="give one of them",
    )
    use_verb(monkeypatch, fails_with(error))
    assert main(["doctor"]) == 2
    streams = capfd.readouterr()
    assert streams.out == ""
    for words in ("unknown machine 'sm_81'", "--machine", "a machine", "sm_80, sm_89", "give one of them"):
        assert words in streams.err
    assert "Traceback" not in streams.err


def test_an_endless_text_is_shown_without_its_middle(monkeypatch, capfd):
    text = "what is wrong: " + "9" * 100_000
    use_verb(monkeypatch, fails_with(InputError(text)))
    assert main(["doctor", "--json"]) == 2
    out, err = capfd.readouterr()
    assert len(err) < 2000
    assert "what is wrong: 999" in err
    assert json.loads(out)["error"]["what"] == text


def test_an_error_is_one_json_document(monkeypatch, capfd):
    use_verb(monkeypatch, fails_with(UnsupportedError("no [bold]f16[/bold] here", nearest=("f32",))))
    assert main(["doctor", "--json"]) == 3
    streams = capfd.readouterr()
    document = json.loads(streams.out)
    assert document["exit_code"] == 3
    assert document["error"]["kind"] == "UnsupportedError"
    assert document["error"]["nearest"] == ["f32"]
    assert "no [bold]f16[/bold] here" in streams.err


def test_a_parse_error_is_one_json_document_too(capfd):
    assert main(["fuse", "--json"]) == 2
    assert json.loads(capfd.readouterr().out)["error"]["kind"] == "InputError"


def test_a_file_that_cannot_be_written_is_bad_input(monkeypatch, capfd):
    use_verb(monkeypatch, lambda: Path("/no/such/folder/file").write_text(""))
    assert main(["doctor"]) == 2
    told = capfd.readouterr().err
    assert "the folder '/no/such/folder' does not exist" in told
    assert "/no/such/folder/file" in told
    assert "make it first" in told


def test_interrupting_is_130(monkeypatch, capfd):
    use_verb(monkeypatch, fails_with(KeyboardInterrupt()))
    assert main(["doctor"]) == 130
    assert "interrupted" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("signalled", "code", "word"),
    [(KeyboardInterrupt(), 130, "interrupted"), (Ended(signal.SIGTERM), 143, "terminated")],
)
def test_a_signal_while_a_class_is_made_is_one(signalled, code, word, monkeypatch, capfd):
    class Signalled:
        def __set_name__(self, owner, name):
            raise signalled

    def verb():
        type("Made", (), {"value": Signalled()})  # Python makes a RuntimeError of it until 3.11

    use_verb(monkeypatch, verb)
    assert main(["doctor"]) == code
    assert capfd.readouterr().err == f"{word}\n"


def test_a_bug_keeps_its_traceback(monkeypatch):
    for error in (ZeroDivisionError, RuntimeError):
        use_verb(monkeypatch, fails_with(error()))
        with pytest.raises(error):
            main(["doctor"])


def test_a_reader_that_leaves_early_is_no_error():
    read_end, write_end = os.pipe()
    os.close(read_end)
    run = subprocess.run(
        [sys.executable, "-m", "regweave", "--help"], stdout=write_end, stderr=subprocess.PIPE, text=True
    )
    os.close(write_end)
    assert run.returncode == 0
    assert run.stderr == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
def test_completion_can_be_installed(tmp_path, shell):
    environment = {**os.environ, "HOME": str(tmp_path), "SHELL": "/bin/bash"}
    command = [sys.executable, "-m", "regweave", "--install-completion", "--shell", shell]
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    scripts = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any("regweave" in path.read_text("utf-8") for path in scripts)


# what bash makes of a line that is completed at its end
COMPLETE = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}; COMPREPLY=()
[[ $(complete -p regweave) =~ -F\\ ([^ ]+) ]]
${BASH_REMATCH[1]} regweave "${COMP_WORDS[-1]}" "${COMP_WORDS[-2]}"
echo "${COMPREPLY[@]}"
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="has no bash")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["layout", "mma.m16n8k8.tf32", ":"], "A B C D"),
        (["layout", "mma.m16n8k8.tf32", ":", "C"], "C"),
        (["rearrange", "mma.m16n8k8.tf32", ":", "C", "mma.m16n8k8.tf32", ":"], "A B C D"),
        (["rearrange", "mma.m16n8k8.tf32", ":", "C", "--machine", "gfx94"], "gfx942"),
        (["conv", "--machine", "bifrost-g7"], "bifrost-g71 bifrost-g72 bifrost-g76"),
        (["machine", "sm_9"], "sm_90a"),
    ],
)
def test_bash_completes_names_with_colons(tmp_path, monkeypatch, words, expected):
    monkeypatch.setenv("HOME", str(tmp_path))
    installed = tmp_path / "regweave"
    installed.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m regweave "$@"\n')
    installed.chmod(0o755)
    script = tmp_path / "script"
    assert main(["--install-completion", "--shell", "bash", "--output", str(script)]) == 0
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    command = ["bash", "-c", COMPLETE, "bash", str(script), "regweave", *words]
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (run.stdout.strip(), run.stderr) == (expected, "")
