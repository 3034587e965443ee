"""What a model says of itself, checked: operator sets, operators, outputs, and the sizes that it is given."""

from __future__ import annotations

from collections.abc import Mapping

import onnx
from google.protobuf.message import Message

from regweave.errors import InputError, ModelError, nearest_names
from regweave.graphs.reading.inference import is_anonymous, is_dynamic

DEFAULT_DOMAINS = ("", "ai.onnx")
DAMAGED = "the file is damaged: fetch or export it again"
LARGEST = 2**31 - 1
"""Of a dimension: beyond it onnxruntime's own kernels count in too few bits."""
ELEMENT_TYPES = frozenset(onnx.TensorProto.DataType.values())


def check_claims(proto: onnx.ModelProto) -> None:
    """What every ONNX model says of itself; other protobufs and texts that happen to parse do not."""
    if not proto.HasField("graph") or proto.ir_version < 1:
        raise ModelError(
            "not an ONNX model: it has no graph or no IR version", fix="fetch or export it again"
        )
    if not proto.opset_import:
        raise ModelError(
            "the model names no operator set: the file is truncated or not ONNX",
            fix="fetch or export it again",
        )


def check_text(proto: onnx.ModelProto) -> None:
    """Every name and text is UTF-8 and every element type exists, or ModelError: the file is damaged."""
    queue: list[tuple[Message, str]] = [(proto, "the model")]
    while queue:
        message, where = queue.pop()
        for field, value in message.ListFields():
            inside = f"{where}, {field.name}"
            if field.type == field.TYPE_STRING:
                for text in (value,) if isinstance(value, (str, bytes)) else value:
                    if not isinstance(text, str):
                        raise ModelError(f"{bytes(text)!r} is not text", where=inside, fix=DAMAGED)
            elif field.type == field.TYPE_MESSAGE:
                queue.extend((part, inside) for part in ((value,) if isinstance(value, Message) else value))
            elif field.name in ("data_type", "elem_type") and value not in ELEMENT_TYPES:
                raise ModelError(f"element type {value} does not exist", where=inside, fix=DAMAGED)


def check_outputs(graph: onnx.GraphProto) -> None:
    made = {name for node in graph.node for name in node.output} | {value.name for value in graph.input}
    made |= {tensor.name for tensor in graph.initializer}
    if not graph.output:
        raise ModelError(
            "the graph has no outputs", fix="the file is damaged or was cut out of a larger model"
        )
    for value in graph.output:
        if value.name not in made:
            raise ModelError(
                f"nothing makes the output '{value.name}'", nearest=nearest_names(value.name, made)
            )


def check_operators(proto: onnx.ModelProto) -> int:
    """The version of the default operator set; ModelError for versions and operators that do not exist."""
    versions = {entry.domain: entry.version for entry in proto.opset_import}
    newest = onnx.defs.onnx_opset_version()
    opset = versions.get("", versions.get("ai.onnx", 0))
    if opset > newest:
        raise ModelError(
            f"the model uses operator set {opset}",
            expected=f"at most {newest}, the newest that the installed onnx knows",
            fix="update onnx, or export the model with an older operator set",
        )
    for node in proto.graph.node:
        if node.domain not in DEFAULT_DOMAINS:
            if node.domain not in versions:
                raise ModelError(
                    f"the model imports no operator set '{node.domain}'",
                    where=f"node '{node.name}'",
                    nearest=nearest_names(node.domain, versions),
                )
            continue
        if opset < 1:
            imported = versions.keys() & set(DEFAULT_DOMAINS)
            raise ModelError(
                f"operator set {opset} does not exist" if imported else "no default operator set is imported",
                where=f"node '{node.name}'",
                expected=f"a version from 1 to {newest}",
            )
        if not _exists(node.op_type, opset):
            names = {schema.name for schema in onnx.defs.get_all_schemas()}
            raise ModelError(
                f"operator set {opset} has no operator '{node.op_type}'",
                where=f"node '{node.name}'",
                nearest=nearest_names(node.op_type, names),
            )
    return opset


def _exists(op_type: str, opset: int) -> bool:
    try:
        onnx.defs.get_schema(op_type, opset, "")
    except onnx.defs.SchemaError:
        return False
    return True


def dynamic_dimensions(proto: onnx.ModelProto) -> dict[str, str]:
    """Dynamic dimensions of the real inputs: `input[axis]` -> the dimension's own name, or "" for none."""
    weights = {tensor.name for tensor in proto.graph.initializer}
    return {
        f"{value.name}[{axis}]": "" if is_anonymous(dim) else dim.dim_param
        for value in proto.graph.input
        if value.name not in weights
        for axis, dim in enumerate(value.type.tensor_type.shape.dim)
        if is_dynamic(dim)
    }


def check_dims(proto: onnx.ModelProto, dims: Mapping[str, int]) -> dict[str, int]:
    if not isinstance(dims, Mapping):
        raise InputError(f"{dims!r} is not a mapping of names to sizes", where="dims", fix='write {"N": 4}')
    places = dynamic_dimensions(proto)
    named = {name for name in places.values() if name}
    for name, size in dims.items():
        if name not in named and name not in places:
            raise InputError(
                f"the model has no dynamic dimension '{name}'",
                where="dims",
                expected="one of " + ", ".join([*sorted(named), *places])
                if places
                else "none: all sizes are fixed",
                nearest=nearest_names(name, [*named, *places]),
            )
        if isinstance(size, bool) or not hasattr(size, "__index__") or not 0 <= size <= LARGEST:
            raise InputError(
                f"the size of '{name}' is {size!r}",
                where="dims",
                expected=f"a whole number from 0 to {LARGEST}",
            )
    given: dict[str, str] = {}
    for key, size in dims.items():
        name = places.get(key) or key
        first = given.setdefault(name, key)
        if dims[first] != size:
            raise InputError(
                f"'{first}' and '{key}' are one dimension, '{name}', "
                f"but have the sizes {dims[first]} and {size}",
                where="dims",
                expected="one size",
                fix=f"leave out '{first}' or '{key}'",
            )
    return {name: int(size) for name, size in dims.items()}
