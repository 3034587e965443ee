"""Every piece of every real model computes what its nodes compute; and the chains that are known to be there."""

import time

import numpy as np
import pytest

from regweave.graphs import find_candidates, find_pieces, read_model
from regweave.graphs.samples import SAMPLES, sample_model

from graph_checks import all_pieces, verify_pieces

pytestmark = pytest.mark.models

REC_DIMS = {"DynamicDimension.0": 1, "DynamicDimension.1": 320}


@pytest.mark.parametrize("name", SAMPLES)
def test_pieces_compute_what_their_nodes_do(name):
    pieces = verify_pieces(read_model(sample_model(name)))
    assert pieces
