"""What the pieces of a region compute with: kernels and packed weights, for all sizes of image."""

from __future__ import annotations

import ctypes

from regweave.cascades.native import NativeChain, NativeRun
from regweave.convolution import Conv2d
from regweave.engine.regions.preparing import convolution_layer
from regweave.graphs import Piece
from regweave.graphs.pieces.members import Region
from regweave.kernels.convolution import ConvArguments
from regweave.kernels.planes.loops import PlaneArguments
from regweave.kernels.sweeps import RunStructure
from regweave.machines.x86 import VectorMachine


class Layers:
    """Of the pieces of one region, for one machine and number of threads."""

    def __init__(self, region: Region, machine: VectorMachine, threads: int) -> None:
        """Errors: UnsupportedError where a product or a run has no kernel."""
        self.machine, self.threads = machine, threads
        self._convolutions: dict[tuple, Conv2d] = {}
        self._others: dict[str, NativeChain | NativeRun] = {}
        for member in region.members:
            if isinstance(member.work, Piece) and member.work.window is None:
                self._others[member.output] = self._made(member.work)

    def convolution(
        self, piece: Piece, padding: tuple[int, ...] | None, dilations: tuple[int, int] | None = None
    ) -> Conv2d:
        """A piece's convolution, with `padding` and `dilations` in place of its own."""
        key = piece.output, padding, dilations
        if key not in self._convolutions:
            self._convolutions[key] = convolution_layer(piece, self.machine, self.threads, padding, dilations)
        return self._convolutions[key]

    def other(self, piece: Piece) -> NativeChain | NativeRun:
        """A piece's products or element-wise run."""
        return self._others[piece.output]

    @property
    def arguments_size(self) -> int:
        """The most bytes that the arguments of a kernel take."""
        kinds = [ConvArguments, PlaneArguments, *(type(found.arguments()) for found in self._others.values())]
        return max(map(ctypes.sizeof, kinds))

    @property
    def scratch_bytes(self) -> int:
        """What the parts of the largest product need."""
        chains = [found for found in self._others.values() if isinstance(found, NativeChain)]
        return max((chain.scratch_bytes(self.threads) for chain in chains), default=0)

    def _made(self, piece: Piece) -> NativeChain | NativeRun:
        if piece.chain is not None:
            return NativeChain(piece.chain, self.machine)
        run = piece.run
        assert run is not None, "all other pieces are element-wise"
        shape = piece.input_shape
        assert shape is not None, "images have one"
        channels = shape[1]
        assert channels is not None, "and a number of channels"
        structure = RunStructure(run.ops, run.signature.extras, "planes", channels, piece.gates)
        return NativeRun(structure, run.operands, self.machine)
