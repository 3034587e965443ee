"""Reading a model: from a file or a ModelProto to a `Model`, or to one clear error.

    model = read_model("recogniser.onnx", dims={"width": 320})

What can be wrong is found here, before anything is planned: no file, an empty or truncated one, one that is
not ONNX, missing external data, operators that the operator set does not have, cycles, tensors that nothing
makes, sizes that the model cannot take. The input is never changed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from regweave.errors import InputError, ModelError
from regweave.files import nearest_beside, path_of
from regweave.graphs.reading.claims import (
    check_claims,
    check_dims,
    check_operators,
    check_outputs,
    check_text,
    dynamic_dimensions,
)
from regweave.graphs.reading.constants import Constants
from regweave.graphs.reading.external import all_tensors, check_external
from regweave.graphs.reading.inference import (
    check,
    first_line,
    infer,
    skeleton,
    types_and_shapes,
    with_kept_types,
    without_claims,
)
from regweave.graphs.reading.model import Model
from regweave.graphs.reading.order import name_nodes, sort_nodes
from regweave.graphs.shapes.dimensions import Shape, number
from regweave.graphs.shapes.symbolic import symbolic_shapes

OVERRIDABLE_FROM = 4
PROTOBUF_LIMIT = 2**31


def read_model(
    source: str | os.PathLike[str] | onnx.ModelProto, dims: Mapping[str, int] | None = None
) -> Model:
    """Read an ONNX model and infer its shapes.

    `dims` gives sizes to dynamic dimensions of the inputs, by name or as `input[axis]`; the model itself
    stays dynamic, the sizes are what plans are made for. Errors: ModelError (the file or the graph),
    InputError (`dims`).
    """
    if isinstance(source, onnx.ModelProto):
        path, proto = None, onnx.ModelProto()
        proto.CopyFrom(source)
    elif not isinstance(source, (str, os.PathLike)):
        raise InputError(
            f"{type(source).__name__} is not a model", where="model", expected="a path or an onnx.ModelProto"
        )
    else:
        path = path_of(source)
        proto = _parse(path)
    folder = None if path is None else path.resolve().parent
    check_claims(proto)
    check_text(proto)
    check_external(all_tensors(proto.graph), folder)
    proto = _inline(proto)
    name_nodes(proto.graph)
    sort_nodes(proto.graph)
    check_outputs(proto.graph)
    opset = check_operators(proto)
    sizes = check_dims(proto, dims or {})
    return _model(proto, path, folder, opset, sizes)


def read_again(model: Model, proto: onnx.ModelProto) -> Model:
    """A changed copy of a model's `proto`, with the folder and the sizes of the model. It is kept."""
    name_nodes(proto.graph)
    sort_nodes(proto.graph)
    return _model(proto, model.path, model.folder, model.opset, dict(model.dims))


def _parse(path: Path) -> onnx.ModelProto:
    if path.is_dir():
        raise ModelError(
            "a folder is not a model",
            where=str(path),
            expected="an .onnx file",
            nearest=sorted(str(file) for file in path.glob("*.onnx"))[:3],
        )
    if not path.exists():
        raise ModelError("no such file", where=str(path), nearest=nearest_beside(path, ".onnx"))
    if not path.is_file():
        raise ModelError("a device or a pipe is not a model", where=str(path), expected="an .onnx file")
    try:
        with path.open("rb") as file:
            head = file.read(64)
        if not head:
            raise ModelError("the file is empty", where=str(path), expected="an ONNX model")
        if head.startswith(b"version https://git-lfs"):
            raise ModelError(
                "the file is a Git LFS pointer, not the model", where=str(path), fix="run: git lfs pull"
            )
        if head[4:8] == b"ORTM":
            raise ModelError(
                "the file is in onnxruntime's own format",
                where=str(path),
                fix="give the .onnx it was made from",
            )
        return onnx.load_model(path, format="protobuf", load_external_data=False)
    except DecodeError as error:
        if path.stat().st_size >= PROTOBUF_LIMIT:
            raise ModelError(
                "the file is over 2 GiB, which one protobuf cannot be",
                where=str(path),
                fix="save the model with its weights as external data",
            ) from error
        raise ModelError(
            "the file is truncated or is not an ONNX model", where=str(path), fix="fetch or export it again"
        ) from error
    except OSError as error:
        raise ModelError(f"cannot be read: {error.strerror}", where=str(path)) from error


def _inline(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The model with its local functions replaced by their bodies, so that what is in them can be seen."""
    if not proto.functions:
        return proto
    from onnx import inliner

    try:
        return inliner.inline_local_functions(proto)
    except (RuntimeError, ValueError) as error:
        raise ModelError(f"the model's functions cannot be inlined: {first_line(error)}") from error


def _model(
    proto: onnx.ModelProto, path: Path | None, folder: Path | None, opset: int, sizes: dict[str, int]
) -> Model:
    graph = proto.graph
    bare = skeleton(proto, {})
    check(bare)
    inferred = infer(bare)
    known, base = types_and_shapes(inferred)
    types = with_kept_types(graph.node, known)
    overridable = {value.name for value in graph.input} if proto.ir_version >= OVERRIDABLE_FROM else set()
    fixed = {tensor.name: tensor for tensor in graph.initializer if tensor.name not in overridable}
    constants = Constants(fixed, graph.node, folder, opset)
    nodes = list(graph.node)
    given = [*(value.name for value in graph.input), *(tensor.name for tensor in graph.initializer)]

    def shapes_from(known: dict[str, Shape]) -> dict[str, Shape]:
        start = {name: known[name] for name in given if name in known}
        return symbolic_shapes(nodes, start, known, constants.integers, opset)

    symbols = shapes_from(base)
    sized = symbols
    if sizes:
        sized = shapes_from(types_and_shapes(_infer_sized(proto, bare, sizes))[1])
    places = dynamic_dimensions(proto)
    _write_value_info(proto, inferred)
    return Model(
        proto=proto,
        path=path,
        folder=folder,
        dims=sizes,
        unresolved=tuple(
            dict.fromkeys(n or p for p, n in places.items() if p not in sizes and n not in sizes)
        ),
        opset=opset,
        constants=constants,
        types=types,
        symbols=symbols,
        shapes={name: tuple(map(number, shape)) for name, shape in sized.items()},
    )


def _infer_sized(proto: onnx.ModelProto, bare: onnx.ModelProto, sizes: dict[str, int]) -> onnx.ModelProto:
    """Inference with the given sizes; an InputError if it is the sizes that do not fit the model.

    Judged without what the model claims of its tensors, which may be wrong and harmless.
    """
    fixed = skeleton(proto, sizes)
    try:
        infer(without_claims(fixed), strict=True)
    except ModelError as error:
        if _contradicts_itself(bare):
            return infer(fixed)
        named = ", ".join(f"{name}={size}" for name, size in sizes.items())
        raise InputError(f"the model cannot take these sizes: {error.what}", where=f"dims {named}") from error
    return infer(fixed)


def _contradicts_itself(bare: onnx.ModelProto) -> bool:
    """Whether strict inference fails for the model even without sizes."""
    try:
        infer(without_claims(bare), strict=True)
    except ModelError:
        return True
    return False


def _write_value_info(proto: onnx.ModelProto, inferred: onnx.ModelProto) -> None:
    """Put what was inferred for any size into the model, for whoever runs it."""
    made = {name for node in proto.graph.node for name in node.output}
    del proto.graph.value_info[:]
    proto.graph.value_info.extend(value for value in inferred.graph.value_info if value.name in made)
