"""What is told while something takes long, where no terminal shows it."""

from __future__ import annotations

import io
import time

from regweave.cli import output


def told(monkeypatch, act, quiet: float = 0.05, still: float = 60.0) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(output, "QUIET_SECONDS", quiet)
    monkeypatch.setattr(output, "STILL_SECONDS", still)
    log = output.Log(lines.append)
    act(log.say, lines)
    log.end()
    return lines


def waited(lines: list[str], count: int) -> None:
    """Until so many lines are there."""
    for _ in range(500):
        if len(lines) >= count:
            return
        time.sleep(0.01)


def test_the_last_of_several_words_at_once_is_told_when_it_lasts(monkeypatch):
    def act(say, lines):
        for word in ("one", "two", "three"):
            say(word)
        waited(lines, 2)

    assert told(monkeypatch, act) == ["one", "three"]


def test_what_lasts_long_is_told_again_with_its_seconds(monkeypatch):
    def act(say, lines):
        say("measuring")
        waited(lines, 3)

    first, *again = told(monkeypatch, act, still=0.01)
    assert first == "measuring"
    assert set(again) == {"measuring, 0 s"}


def test_nothing_is_told_of_what_is_over(monkeypatch):
    assert told(monkeypatch, lambda say, lines: (say("one"), say("two")), quiet=60.0) == ["one"]
    assert told(monkeypatch, lambda say, lines: None) == []


def test_what_a_terminal_would_obey_is_shown():
    stream = io.StringIO()
    console = output.PipeConsole(file=stream, force_terminal=True, width=80, highlight=False)
    console.print("name \x1b[31m\x9b2J\x07\ttab\nline", style="bold", markup=False)
    shown = stream.getvalue()
    assert "name \\x1b[31m\\x9b2J" in shown
    assert shown.endswith("line\x1b[0m\n")
    assert shown.startswith("\x1b[1m")  # the console's own words still are obeyed
