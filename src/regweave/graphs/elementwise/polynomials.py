"""Expressions of one unknown as polynomials over the unknown and functions of it: a normal form.

Exporters write the same activation in many orders, (x * 0.5) * (erf(x / 1.414) + 1) or x * (0.5 + 0.5 *
erf(...)). As polynomials in x and in the atom erf(0.707 x) all of them are

    0.5 * x + 0.5 * x * erf(0.707 x)

so that recognizing an activation is comparing a handful of coefficients, not matching shapes of graphs. A
polynomial maps monomials to coefficients; a monomial is a sorted tuple of generators, repeats allowed; a
generator is "x" or an `Atom`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

MAX_TERMS = 12
MAX_DEGREE = 6


@dataclass(frozen=True)
class Atom:
    """A function of a polynomial in x: name, parameters, and the argument's coefficients c0, c1, ..."""

    name: str
    parameters: tuple[float, ...]
    argument: tuple[float, ...]


Generator = str | Atom
Monomial = tuple[Generator, ...]
X: Monomial = ("x",)


class Polynomial(NamedTuple):
    """Monomials and their coefficients, none of them zero."""

    terms: Mapping[Monomial, float]

    @staticmethod
    def constant(value: float) -> Polynomial:
        return Polynomial({(): value} if value else {})

    @staticmethod
    def unknown() -> Polynomial:
        return Polynomial({X: 1.0})

    def atom(self, name: str, *parameters: float) -> Polynomial | None:
        """`name(self)`, or None if this polynomial is not in x alone."""
        argument = self.in_x()
        return None if argument is None else Polynomial({(Atom(name, parameters, argument),): 1.0})

    def in_x(self) -> tuple[float, ...] | None:
        """Coefficients (c0, c1, ...) if this is a polynomial in x alone, else None."""
        if any(generator != "x" for monomial in self.terms for generator in monomial):
            return None
        degree = max(map(len, self.terms), default=0)
        return tuple(self.terms.get(X * power, 0.0) for power in range(degree + 1))

    def plus(self, other: Polynomial) -> Polynomial | None:
        sums = dict(self.terms)
        for monomial, factor in other.terms.items():
            sums[monomial] = sums.get(monomial, 0.0) + factor
        return _bounded(sums)

    def times(self, other: Polynomial) -> Polynomial | None:
        sums: dict[Monomial, float] = {}
        for left, a in self.terms.items():
            for right, b in other.terms.items():
                monomial = tuple(sorted((*left, *right), key=repr))
                sums[monomial] = sums.get(monomial, 0.0) + a * b
        return _bounded(sums)

    def scaled(self, factor: float) -> Polynomial:
        return Polynomial({monomial: factor * value for monomial, value in self.terms.items() if factor})

    def split(self) -> tuple[tuple[float, ...], Atom, tuple[float, ...]] | None:
        """(p, A, q) with this polynomial = p(x) + q(x) * A for its only atom A, or None."""
        atoms = {
            generator for monomial in self.terms for generator in monomial if isinstance(generator, Atom)
        }
        if len(atoms) != 1:
            return None
        (atom,) = atoms
        parts: tuple[dict[Monomial, float], dict[Monomial, float]] = ({}, {})
        for monomial, factor in self.terms.items():
            uses = monomial.count(atom)
            if uses > 1:
                return None
            parts[uses][tuple(g for g in monomial if g == "x")] = factor
        plain, factors = (Polynomial(part).in_x() for part in parts)
        return None if plain is None or factors is None else (plain, atom, factors)


def _bounded(sums: dict[Monomial, float]) -> Polynomial | None:
    """The polynomial without zero terms; None where it has grown past any activation."""
    terms = {monomial: factor for monomial, factor in sums.items() if factor}
    too_big = len(terms) > MAX_TERMS or any(len(monomial) > MAX_DEGREE for monomial in terms)
    return None if too_big else Polynomial(terms)
