"""Side by side with other libraries: the cases, the peers, the timing, the machine's own bounds.

This stands above the engine because it measures it, and nothing else in the library imports it.
"""

from regweave.benchmarks.bounds import machine_bounds
from regweave.benchmarks.cases import CASCADES, PRODUCTS, CascadeCase, ProductCase
from regweave.benchmarks.comparison import compare
from regweave.benchmarks.peers import PEER_CLASSES, MissingPeerError

__all__ = [
    "CASCADES",
    "PEER_CLASSES",
    "PRODUCTS",
    "CascadeCase",
    "MissingPeerError",
    "ProductCase",
    "compare",
    "machine_bounds",
]
