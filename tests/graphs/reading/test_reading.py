"""Models that can be read, and everything that a file or a graph can be instead."""

import numpy as np
import onnx
import pytest
from graph_checks import normal, parse
from onnx import TensorProto, helper

from regweave.errors import InputError, ModelError
from regweave.graphs import read_model

SMALL = "g (float[N, 4] x) => (float[N, 3] y) { y = MatMul(x, w) }"


def small(**options):
    return parse(SMALL, weights={"w": normal(4, 3)}, **options)


def test_a_file_and_a_proto_give_the_same(tmp_path):
    onnx.save(small(), tmp_path / "small.onnx")
    read, direct = read_model(tmp_path / "small.onnx"), read_model(small())
    assert read.symbols == direct.symbols
    assert read.name == "small.onnx"
    assert read.symbols["y"] == ("N", 3)
    assert read.shapes["y"] == (None, 3)
    assert read.unresolved == ("N",)


def test_the_input_is_not_changed():
    proto = small()
    before = proto.SerializeToString()
    read_model(proto, {"N": 2})
    assert proto.SerializeToString() == before


def test_nodes_get_unique_names():
    proto = parse("g (float[2] x) => (float[2] y) { a = Relu(x) b = Relu(a) y = Relu(b) }")
    proto.graph.node[2].name = "Relu#0"
    assert [node.name for node in read_model(proto).nodes] == ["Relu#0.1", "Relu#1", "Relu#0"]


def test_unsorted_nodes_are_sorted():
    proto = parse("g (float[2] x) => (float[2] y) { a = Relu(x) y = Neg(a) }")
    proto.graph.node.reverse()
    assert [node.op_type for node in read_model(proto).nodes] == ["Relu", "Neg"]


# files


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"version https://git-lfs.github.com/spec/v1\noid", "LFS"),
        (b"\x18\x00\x00\x00ORTM and more", "onnxruntime's own format"),
        (b"this is a text that somebody named .onnx", "not an ONNX model"),
        (b"PK\x03\x04 a zip archive", "not an ONNX model"),
        (b"\x00" * 200, "not an ONNX model"),
    ],
)
def test_files_that_are_no_models(tmp_path, content, words):
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=words):
        read_model(path)


def test_every_truncation_is_an_error(tmp_path):
    proto = small()
    del proto.opset_import[1:]
    data = proto.SerializeToString()
    path = tmp_path / "cut.onnx"
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(ModelError):
            read_model(path)


def test_a_folder_and_a_missing_file(tmp_path):
    with pytest.raises(ModelError, match="folder"):
        read_model(tmp_path)
    onnx.save(small(), tmp_path / "small.onnx")
    with pytest.raises(ModelError, match=r"no such file.*nearest: small\.onnx"):
        read_model(tmp_path / "smal.onnx")


# external data


def external(tmp_path):
    path = tmp_path / "big.onnx"
    onnx.save(small(), path, save_as_external_data=True, location="big.bin", size_threshold=0)
    return path


def test_external_data_is_mapped(tmp_path):
    model = read_model(external(tmp_path))
    np.testing.assert_array_equal(model.constants.value("w"), normal(4, 3))
    assert isinstance(model.constants.value("w").base, np.memmap) or isinstance(
        model.constants.value("w"), np.memmap
    )
    assert model.folder == tmp_path


def test_missing_external_data(tmp_path):
    path = external(tmp_path)
    (tmp_path / "big.bin").unlink()
    with pytest.raises(ModelError, match=r"'big\.bin' of 'w' is missing"):
        read_model(path)


def test_truncated_external_data(tmp_path):
    path = external(tmp_path)
    (tmp_path / "big.bin").write_bytes(b"1234")
    with pytest.raises(ModelError, match="truncated"):
        read_model(path)


def test_external_data_without_a_folder(tmp_path):
    proto = onnx.load(external(tmp_path), load_external_data=False)
    with pytest.raises(ModelError, match="give the path"):
        read_model(proto)


@pytest.mark.parametrize(
    ("key", "value"),
    [("location", "../outside.bin"), ("location", ""), ("length", "8"), ("offset", "-4"), ("length", "many")],
)
def test_external_data_that_lies_wrong(tmp_path, key, value):
    path = external(tmp_path)
    (tmp_path.parent / "outside.bin").write_bytes(bytes(100))
    proto = onnx.load(path, load_external_data=False)
    for entry in proto.graph.initializer[0].external_data:
        if entry.key == key:
            entry.value = value
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(ModelError, match="external data of 'w'"):
        read_model(path)


# graphs


def test_a_cycle_is_named():
    proto = parse("g (float[2] x) => (float[2] y) { a = Add(x, b) b = Relu(a) y = Relu(b) }")
    for node, name in zip(proto.graph.node, "pqr", strict=True):
        node.name = name
    with pytest.raises(ModelError, match=r"cycle: (p -> q -> p|q -> p -> q)"):
        read_model(proto)


def test_a_tensor_that_nothing_makes():
    proto = parse("g (float[2] x) => (float[2] y) { hidden = Relu(x) y = Relu(hiden) }")
    with pytest.raises(ModelError, match=r"nothing makes 'hiden'.*nearest: hidden"):
        read_model(proto)


def test_an_output_that_nothing_makes():
    proto = parse("g (float[2] x) => (float[2] y) { a = Relu(x) }")
    with pytest.raises(ModelError, match="nothing makes the output 'y'"):
        read_model(proto)


def test_no_outputs():
    proto = parse("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    del proto.graph.output[:]
    with pytest.raises(ModelError, match="no outputs"):
        read_model(proto)


def test_a_tensor_made_twice():
    proto = parse("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    proto.graph.node.append(helper.make_node("Neg", ["x"], ["y"]))
    with pytest.raises(ModelError, match="made twice"):
        read_model(proto)


@pytest.mark.parametrize(
    ("opset", "words"),
    [(999, "operator set 999"), (0, "operator set 0 does not exist"), (-1, "operator set -1")],
)
def test_wrong_operator_sets(opset, words):
    proto = small()
    proto.opset_import[0].version = opset
    with pytest.raises(ModelError, match=words):
        read_model(proto)


def test_an_operator_that_does_not_exist():
    proto = parse("g (float[2] x) => (float[2] y) { y = Reluu(x) }")
    with pytest.raises(ModelError, match=r"no operator 'Reluu'.*nearest:.*Relu"):
        read_model(proto)


def test_an_operator_that_is_too_new():
    with pytest.raises(ModelError, match="operator set 13 has no operator 'Gelu'"):
        read_model(parse("g (float[2] x) => (float[2] y) { y = Gelu(x) }", opset=13))


def test_a_domain_that_is_not_imported():
    proto = parse("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    proto.graph.node[0].domain = "com.microsof"
    with pytest.raises(ModelError, match=r"imports no operator set 'com\.microsof'.*nearest: com\.microsoft"):
        read_model(proto)


def test_attributes_that_onnx_rejects():
    proto = parse("g (float[2] x) => (float[2] y) { y = LeakyRelu <beta = 1.0> (x) }")
    with pytest.raises(ModelError, match="not valid ONNX"):
        read_model(proto)


def test_weights_that_do_not_fit_their_shape():
    proto = small()
    proto.graph.initializer[0].raw_data = b"123"
    with pytest.raises(ModelError):
        read_model(proto).constants.value("w")


def test_local_functions_are_inlined():
    text = """
        <ir_version: 8, opset_import: ["" : 17, "local" : 1]>
        g (float[N, 4] x) => (float[N, 4] y) { y = local.twice(x) }
        <domain: "local", opset_import: ["" : 17]>
        twice (a) => (c) { b = Relu(a) c = Relu(b) }
    """
    model = read_model(onnx.parser.parse_model(text))
    assert [node.op_type for node in model.nodes] == ["Relu", "Relu"]


def test_more_than_two_gibibytes_in_memory():
    proto = parse("g (float[N, 4] x) => (float[N, 4] y) { y = Relu(x) }")
    huge = proto.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[4, 300_000_000])
    huge.data_location = TensorProto.DEFAULT
    assert read_model(proto).symbols["w"] == (4, 300_000_000)


# sizes


def test_sizes_by_name_and_by_place():
    for dims in ({"N": 7}, {"x[0]": 7}):
        model = read_model(small(), dims)
        assert model.shapes["y"] == (7, 3)
        assert model.symbols["y"] == ("N", 3)
        assert model.unresolved == ()


def test_anonymous_sizes_are_each_their_own():
    proto = parse('g (float["?", "?"] x) => (float[A, B] y) { y = Relu(x) }')
    first, second = read_model(proto).symbols["y"]
    assert first != second
    model = read_model(proto, {"x[0]": 2, "x[1]": 3})
    assert model.shapes["y"] == (2, 3)
    assert read_model(proto).unresolved == ("x[0]", "x[1]")


def test_negative_sizes_are_dynamic():
    proto = parse("g (float[N, 4] x) => (float[N, 4] y) { y = Relu(x) }")
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1
    assert read_model(proto, {"x[0]": 5}).shapes["y"] == (5, 4)


@pytest.mark.parametrize(
    ("dims", "words"),
    [
        ({"M": 4}, "no dynamic dimension 'M'.*expected one of N, x"),
        ({"n": 4}, "no dynamic dimension 'n'"),
        ({"N": -1}, "the size of 'N' is -1"),
        ({"N": 2.5}, "the size of 'N' is 2.5"),
        ({"N": True}, "the size of 'N' is True"),
        ({"x[1]": 4}, "no dynamic dimension"),
        ({"x[0]": 4, "N": 5}, "'x.0.' and 'N' are one dimension, 'N', but have the sizes 4 and 5"),
    ],
)
def test_wrong_sizes(dims, words):
    with pytest.raises(InputError, match=words):
        read_model(small(), dims)


def test_sizes_that_the_model_cannot_take():
    proto = parse("g (float[N, A] x) => (float[N, 3] y) { y = MatMul(x, w) }", weights={"w": normal(4, 3)})
    with pytest.raises(InputError, match="cannot take these sizes"):
        read_model(proto, {"A": 5})
    assert read_model(proto, {"A": 4}).shapes["y"] == (None, 3)


def test_a_size_of_zero_is_a_size():
    assert read_model(small(), {"N": 0}).shapes["y"] == (0, 3)
