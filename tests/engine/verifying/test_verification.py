"""Errors of results against a reference, whatever their size and whatever is not finite in them."""

from __future__ import annotations

import numpy as np
import pytest

from regweave.engine.report import Accuracy
from regweave.engine.verifying.verification import ULPS, accuracy, compare_outputs, judge
from regweave.errors import VerificationError


@pytest.mark.parametrize("at_once", [3, 1 << 18])
def test_errors_are_the_largest_of_all_parts(at_once, monkeypatch):
    monkeypatch.setattr("regweave.engine.verifying.verification.AT_ONCE", at_once)
    reference = np.array([[1.0, -8.0, 0.0, np.nan], [np.inf, 2.0, 4.0, 1e-9]])
    found = np.array([[1.0, -8.0, 0.004, 0.0], [1.0, 2.0, 3.0, 0.0]], np.float32)
    result = accuracy(found, reference)
    assert result.max_abs_error == 1.0
    # of at least a thousandth of the largest
    assert result.max_rel_error == pytest.approx(0.004 / 0.008, rel=1e-6)
    assert np.isnan(accuracy(np.where(found == 2, np.nan, found), reference).max_abs_error)


def test_nothing_finite_has_no_error():
    for shape in ((0, 3), (2,), ()):
        assert accuracy(np.zeros(shape), np.full(shape, np.nan)) == Accuracy(0.0, 0.0)


@pytest.mark.parametrize(
    ("ours", "words"),
    [
        (np.array([1.0, 2.0, 3.1], np.float32), "output 0 differs.*0.1"),
        (np.array([1.0, 2.0, np.nan], np.float32), "other NaNs"),
        (np.array([[1.0, 2.0, 3.0]], np.float32), "another shape"),
        (np.array([1, 2, 4]), "output 0 differs"),
    ],
)
def test_outputs_that_no_rounding_explains(ours, words):
    with pytest.raises(VerificationError, match=words):
        compare_outputs([ours], [np.array([1.0, 2.0, 3.0], np.float32)])


def test_each_product_may_add_a_few_units_in_the_last_place():
    def off(by: float) -> np.ndarray:
        return np.array([1.0, by - 0.5])

    reference, ours, theirs = off(0), off(2.5 * ULPS), off(ULPS)
    assert not judge(reference, ours, theirs).passed
    assert not judge(reference, ours, theirs, products=2).passed
    assert judge(reference, ours, theirs, products=3).passed
    assert judge(reference, off(1.9 * ULPS), theirs).passed
    assert not judge(reference, off(np.nan), theirs, products=3).passed
