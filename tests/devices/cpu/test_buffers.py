"""Aligned memory."""

import numpy as np
import pytest

from regweave.devices.cpu import aligned_empty, is_aligned
from regweave.errors import InputError


@pytest.mark.parametrize("align", [1, 32, 64, 4096])
@pytest.mark.parametrize("shape", [0, 3, (2, 5), (4, 0, 2), ()])
def test_arrays_start_where_they_should(shape, align):
    array = aligned_empty(shape, np.float64, align=align)
    assert array.shape == np.empty(shape).shape
    assert array.dtype == np.float64
    assert array.flags.c_contiguous
    assert is_aligned(array, align)
    array[...] = 1


def test_misalignment_is_seen_and_odd_alignments_refused():
    assert not is_aligned(aligned_empty(17)[1:])
    with pytest.raises(InputError, match="power of two"):
        aligned_empty(1, align=48)
