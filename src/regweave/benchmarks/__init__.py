"""Side by side with other libraries: the cases, the peers, the timing, the machine's own bounds.

`cases`, `convolution_cases` and `image_cases` are what is measured, `peers` lists the others (a module each)
and `our_side` is ours; `comparison` runs them in turns (`interleave`), beside the machine's `bounds`.
`models` times whole models, `scaling` large images beside small ones; `rearrangements` and `seam_kernels`
count instructions. This stands above the engine because it measures it, and nothing else in the library
imports it.
"""

from regweave.benchmarks.bounds import machine_bounds
from regweave.benchmarks.cases import CASCADES, PRODUCTS, CascadeCase, ProductCase
from regweave.benchmarks.comparison import compare, summed
from regweave.benchmarks.convolution_cases import (
    CONVOLUTIONS,
    FEW,
    LAYERS,
    SCALED,
    ConvolutionCase,
    channels_last_cases,
    model_convolutions,
    same_size_case,
)
from regweave.benchmarks.filter_cases import FILTERS, FilterCase
from regweave.benchmarks.image_cases import IMAGES, ImageCase
from regweave.benchmarks.models import MODELS, compare_models
from regweave.benchmarks.opencl_sweep import sweep_tiles
from regweave.benchmarks.peers import OPENCL_PEERS, PEER_CLASSES, MissingPeerError
from regweave.benchmarks.planning import planning_rows, time_planning
from regweave.benchmarks.rearrangement_rows import ROWS
from regweave.benchmarks.rearrangements import compare_rearrangements
from regweave.benchmarks.scaling import time_scaling
from regweave.benchmarks.seam_kernels import SEAM_CASES, compare_seams

__all__ = [
    "CASCADES",
    "CONVOLUTIONS",
    "FEW",
    "FILTERS",
    "IMAGES",
    "LAYERS",
    "MODELS",
    "OPENCL_PEERS",
    "PEER_CLASSES",
    "PRODUCTS",
    "ROWS",
    "SCALED",
    "SEAM_CASES",
    "CascadeCase",
    "ConvolutionCase",
    "FilterCase",
    "ImageCase",
    "MissingPeerError",
    "ProductCase",
    "channels_last_cases",
    "compare",
    "compare_models",
    "compare_rearrangements",
    "compare_seams",
    "machine_bounds",
    "model_convolutions",
    "planning_rows",
    "same_size_case",
    "summed",
    "sweep_tiles",
    "time_planning",
    "time_scaling",
]
