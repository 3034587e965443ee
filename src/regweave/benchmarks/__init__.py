"""Side by side with other libraries: the cases, the peers, the timing, the machine's own bounds.

This stands above the engine because it measures it, and nothing else in the library imports it.
"""

from regweave.benchmarks.bounds import machine_bounds
from regweave.benchmarks.cases import CASCADES, PRODUCTS, CascadeCase, ProductCase
from regweave.benchmarks.comparison import compare
from regweave.benchmarks.models import MODELS, compare_models
from regweave.benchmarks.peers import PEER_CLASSES, MissingPeerError

__all__ = [
    "CASCADES",
    "MODELS",
    "PEER_CLASSES",
    "PRODUCTS",
    "CascadeCase",
    "MissingPeerError",
    "ProductCase",
    "compare",
    "compare_models",
    "machine_bounds",
]
