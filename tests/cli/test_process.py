"""The program in odd surroundings: streams that are closed, full or narrow, other locales, signals."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest

from regweave.cli import main
from regweave.cli.output import asked_width
from regweave.cli.process import Ended, ended_by_signals, mend_streams
from regweave.images.mapped import mapped_output

LAYOUT = "layout mma.m16n8k8.tf32:C"
needs_shell = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="has no /dev/full")


def run(words, **environment):
    own = {**os.environ, **environment}
    line = f"{sys.executable} -m regweave {words}"
    return subprocess.run(["sh", "-c", line], capture_output=True, env=own, timeout=120)


@contextmanager
def heeding(number, action=signal.SIG_DFL):
    """A signal has this action, whatever the tests were started with: `nohup` has processes ignore SIGHUP."""
    before = signal.signal(number, action)
    try:
        yield
    finally:
        signal.signal(number, before)


@needs_shell
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (f"{LAYOUT} > /dev/full", 2, b"cannot write the answer: No space left"),
        ("--version > /dev/full", 2, b"cannot write the answer"),
        (f"{LAYOUT} >&-", 0, b""),
        ("layout nothing 2>&-", 2, b""),
        ("machine nothing > /dev/full 2>&1", 2, b""),
    ],
)
def test_streams_that_take_nothing(words, code, said):
    done = run(words)
    assert (done.returncode, b"Traceback" in done.stderr) == (code, False)
    assert said in done.stderr


@needs_shell
def test_a_folder_that_was_removed(tmp_path):
    line = f"mkdir gone; cd gone; rmdir ../gone; {sys.executable} -m regweave {LAYOUT} --svg a.svg"
    done = subprocess.run(["sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "the folder that you are in was removed" in done.stderr
    assert "cd to another" in done.stderr


@pytest.mark.parametrize(
    ("environment", "written"),
    [
        ({"PYTHONIOENCODING": "ascii"}, b"\\xfc \xff"),
        ({"PYTHONIOENCODING": "latin-1"}, b"\xfc \xff"),
        ({"PYTHONUTF8": "1"}, "\xfc ".encode() + b"\xff"),
    ],
)
def test_letters_that_a_locale_lacks(environment, written):
    """A name that is none in the locale is written as it was given."""
    mended = "import sys; from regweave.cli.process import mend_streams; mend_streams(); "
    told = mended + r"print('\xfc \udcff', file=sys.{})"
    for stream in ("stdout", "stderr"):
        words = [sys.executable, "-c", told.format(stream)]
        done = subprocess.run(words, capture_output=True, env=environment)
        assert getattr(done, stream) == written + b"\n"


def test_closed_streams_swallow(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    mend_streams()
    print("nothing")
    sys.stdout.close()


@pytest.mark.parametrize("ending", [".npy", ".tif"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_no_half_file(tmp_path, ending, number):
    with heeding(number):
        before = signal.getsignal(number)
        with (
            pytest.raises(Ended) as caught,
            ended_by_signals(),
            mapped_output(tmp_path / f"out{ending}", (64, 64, 3), np.dtype(np.uint8)),
        ):
            os.kill(os.getpid(), number)
        assert caught.value.code == 128 + number
        assert not list(tmp_path.iterdir())
        assert signal.getsignal(number) == before


def test_ignored_signals_stay_ignored():
    with heeding(signal.SIGHUP, signal.SIG_IGN), ended_by_signals():
        os.kill(os.getpid(), signal.SIGHUP)


def test_terminating_is_143(tmp_path):
    endless = tmp_path / "endless.py"
    endless.write_text(
        "import os, signal\n\n\ndef kernel(machine):\n    os.kill(os.getpid(), signal.SIGTERM)\n"
    )
    with heeding(signal.SIGTERM):
        done = run(f"asm {endless}")
    assert (done.returncode, done.stderr) == (143, b"terminated\n")


@pytest.mark.parametrize(
    ("columns", "width"), [("", None), ("wide", None), ("-5", None), ("0", 40), ("97", 97)]
)
def test_widths_that_are_believed(monkeypatch, columns, width):
    monkeypatch.setenv("COLUMNS", columns)
    assert asked_width() == width


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["filter", "x.png"], "--kernel is missing"),
        (["layout"], "NAME is missing"),
        (["layout", "a", "b"], "more words than expected: 'b'"),
        (["filter", "x.png", "--kernel", "box3", "-o", "y.png", "--stride", "1_0"], "'1_0'"),
        (["filter", "x.png", "--kernel", "box3", "-o", "y.png", "--stride", "0x2"], "'0x2'"),
    ],
)
def test_words_that_are_missing_or_too_many(words, said, capfd):
    assert main(words) == 2
    assert said in capfd.readouterr().err


def test_a_list_of_verbs_that_is_cut_ends_with_dots(capfd):
    assert main(["con"]) == 2
    said = capfd.readouterr().err.splitlines()[0]
    assert 'Did you mean "conv"?' in said
    assert said.endswith("...")


def test_a_file_that_is_not_there_names_those_that_are(tmp_path, capfd):
    (tmp_path / "mine.csv").write_text("lane,register,part,row,column\n")
    assert main(["layout", str(tmp_path / "mime.csv")]) == 2
    assert "nearest:  mine.csv" in capfd.readouterr().err


LOADING = """
import sys

class Interrupting:
    def find_spec(self, name, *others):
        if name == "cyclopts":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupting())
from regweave.__main__ import main
sys.exit(main())
"""


@pytest.mark.parametrize("closed", ["", "import sys; sys.stderr = None"])
def test_an_interrupt_while_the_program_loads(closed):
    done = subprocess.run([sys.executable, "-c", closed + LOADING], capture_output=True, timeout=120)
    assert done.returncode == 130
    assert (done.stdout, done.stderr) == (b"", b"" if closed else b"interrupted\n")
