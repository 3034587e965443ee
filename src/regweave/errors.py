"""Every error that regweave raises on purpose, and how each one reads.

    RegweaveError                      anything below; catch this to catch them all
    |-- InputError (ValueError)        what the caller gave is wrong: a shape, a dtype, a name, a value
    |   `-- ModelError                 a model file that cannot be read, or is not what it claims
    |-- UnsupportedError               valid, but not something that this build or machine can do
    |-- AssemblyError                  a template, operand or assembled line is wrong
    |   `-- RegisterError              registers ran out, or two demands on one register conflict
    |-- DeviceError                    a device is missing, or refused to load or run a kernel
    |   `-- KernelError                a kernel that ran did what it must not: an access out of bounds, a race
    `-- VerificationError              a result or a plan failed its own proof: nothing was handed out

An error says what is wrong, where, what was expected, the nearest valid name, and the fix:

    >>> str(InputError("unknown machine 'sm_81'", where="--machine",
    ...                nearest=("sm_80", "sm_89"), fix="give one of them"))
    "unknown machine 'sm_81' (at --machine); nearest: sm_80, sm_89; give one of them"

The parts are kept as attributes so that `--json` and a notebook can show them apart.
"""

from __future__ import annotations

from collections.abc import Iterable

# characters of a name that a message quotes
_MOST_SHOWN = 200


class RegweaveError(Exception):
    """Base of all errors raised on purpose.

    `what` is the fault; `where` the place (a flag, a node, a line); `expected` what would have been
    right; `nearest` valid names close to the given one; `fix` what to do.
    """

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        expected: str | None = None,
        nearest: Iterable[str] = (),
        fix: str | None = None,
    ) -> None:
        self.what = what
        self.where = where
        self.expected = expected
        self.nearest = tuple(nearest)
        self.fix = fix
        super().__init__(self._sentence())

    def _sentence(self) -> str:
        parts = [self.what if self.where is None else f"{self.what} (at {self.where})"]
        if self.expected is not None:
            parts.append(f"expected {self.expected}")
        if self.nearest:
            parts.append("nearest: " + ", ".join(self.nearest))
        if self.fix is not None:
            parts.append(self.fix)
        return "; ".join(parts)


class InputError(RegweaveError, ValueError):
    """What the caller gave is wrong."""


class ModelError(InputError):
    """A model that cannot be read, or is not what it claims to be."""


class UnsupportedError(RegweaveError):
    """Valid, but not something that this build or this machine can do."""


class AssemblyError(RegweaveError):
    """A template, an operand or an assembled line is wrong."""


class RegisterError(AssemblyError):
    """Registers ran out, or two demands on the same register conflict."""


class DeviceError(RegweaveError):
    """A device is missing, or refused to load or to run a kernel."""


class KernelError(DeviceError):
    """A kernel that ran did what it must not: an access out of bounds, a race, an unwritten register."""


class VerificationError(RegweaveError):
    """A result or a plan failed its proof; nothing was handed out."""


def nearest_names(name: str, valid: Iterable[str], *, most: int = 3, alike: float = 0.4) -> tuple[str, ...]:
    """The valid names closest to `name`, best first; empty when none is close.

    `alike`, from 0 to 1, is how much of two names must agree; capitals count as small letters.
    """
    import difflib

    known: dict[str, str] = {}
    for entry in valid:
        known.setdefault(entry.casefold(), entry)
    found = difflib.get_close_matches(str(name).casefold(), list(known), n=most, cutoff=alike)
    return tuple(known[entry] for entry in found)


def shown_name(name: object) -> str:
    """A name as messages quote it: of one that nobody could have meant, the beginning."""
    text = repr(name)
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN // 2]}... ({len(text)} characters)"


def unknown_name(what: str, name: object, known: Iterable[str], *, where: str | None = None) -> InputError:
    """The error to raise for a name that is none of those that are known: "unknown `what` ..."."""
    names = [*known]
    return InputError(
        f"unknown {what} {shown_name(name)}",
        where=where,
        expected="one of " + ", ".join(names),
        nearest=nearest_names(str(name), names),
    )
