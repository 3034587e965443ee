"""A model that has been read: its nodes in order, who makes and who reads each tensor, types and shapes.

Two kinds of shape stand side by side, because two questions are asked. *Is this always so?* (may a residual
be added in registers?) is answered by `symbols`, where what varies is a symbol. *How big is it?* is
answered by `shapes`, for the dimensions that the caller gave.

    model = read_model("recogniser.onnx", dims={"width": 320})
    model.symbols["conv"] == ("batch", 96, 12, "size(width,k3,s2,p1+1,d1)")
    model.shapes["conv"] == (None, 96, 12, 160)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import onnx

from regweave.graphs.attributes import outer_reads
from regweave.graphs.reading.constants import Constants
from regweave.graphs.shapes.dimensions import Shape

FLOAT = onnx.TensorProto.FLOAT


@dataclass(frozen=True, eq=False)
class Model:
    """A model ready for analysis; treat everything in it as read-only.

    `proto` is the whole model: every node has a unique name, nodes are in an order that can run,
    model-local functions are inlined, types and shapes that were inferred for any size are in its
    value_info. Data that lay in other files still does: `folder` says where. `dims` are the sizes that the
    caller gave, `unresolved` the dynamic dimensions of the inputs that have none. `types` are ONNX element
    types.
    """

    proto: onnx.ModelProto
    path: Path | None
    folder: Path | None
    dims: Mapping[str, int]
    unresolved: tuple[str, ...]
    opset: int
    constants: Constants
    types: Mapping[str, int]
    symbols: Mapping[str, Shape]
    shapes: Mapping[str, tuple[int | None, ...]]

    @property
    def name(self) -> str:
        """The file's name, or the graph's where there is no file."""
        return self.path.name if self.path is not None else (self.proto.graph.name or "model")

    @cached_property
    def nodes(self) -> tuple[onnx.NodeProto, ...]:
        """All nodes of the main graph, in an order that can run."""
        return tuple(self.proto.graph.node)

    @cached_property
    def positions(self) -> dict[str, int]:
        """Node name -> index in `nodes`."""
        return {node.name: index for index, node in enumerate(self.nodes)}

    @cached_property
    def makers(self) -> dict[str, int]:
        """Tensor -> index of the node that makes it; graph inputs and initializers have none."""
        return {name: index for index, node in enumerate(self.nodes) for name in node.output if name}

    @cached_property
    def readers(self) -> dict[str, tuple[int, ...]]:
        """Tensor -> indices of the nodes that read it, each once; subgraphs count for their node."""
        found: dict[str, list[int]] = {}
        for index, node in enumerate(self.nodes):
            for name in outer_reads(node):
                found.setdefault(name, []).append(index)
        return {name: tuple(indices) for name, indices in found.items()}

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Graph inputs that are not initializers."""
        given = {tensor.name for tensor in self.proto.graph.initializer}
        return tuple(value.name for value in self.proto.graph.input if value.name not in given)

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """Graph outputs."""
        return tuple(value.name for value in self.proto.graph.output)

    def type_name(self, tensor: str) -> str:
        """The element type of a tensor for a person: `float16`, or `unknown`."""
        code = self.types.get(tensor)
        return "unknown" if code is None else onnx.TensorProto.DataType.Name(code).lower()

    def is_float32(self, tensor: str) -> bool:
        """Whether a tensor is known to be float32."""
        return self.types.get(tensor) == FLOAT
