"""Ready matrices and those in files."""

import numpy as np
import pytest

from regweave import InputError
from regweave.images import image_gemm, operation, operation_names, principal_matrix


def test_every_ready_operation():
    for name in operation_names():
        ready = operation(name)
        assert ready.name == name
        assert ready.matrix.dtype == np.float32
        assert ready.bank == (name in ("gabor", "dct8"))
        assert ready.colours == (name not in ("gabor", "dct8", "pca"))


def test_what_they_do_to_colours():
    white = np.ones(3)
    for name in ("grey", "grey709"):
        np.testing.assert_allclose(operation(name).matrix @ white, 1, atol=1e-6)
    forth, back = operation("ycbcr").for_range(255), operation("rgb").for_range(255)
    colour = np.array([12.0, 200, 77])
    middle = forth[:, :3] @ colour + forth[:, 3]
    np.testing.assert_allclose(middle[0], 0.299 * 12 + 0.587 * 200 + 0.114 * 77, rtol=1e-5)
    np.testing.assert_allclose(back[:, :3] @ middle + back[:, 3], colour, rtol=1e-4)
    inverted = operation("invert").for_range(65535)
    np.testing.assert_allclose(inverted[:, :3] @ colour + inverted[:, 3], 65535 - colour)
    assert (operation("swap").matrix @ colour).tolist() == [77, 200, 12]


def test_banks():
    basis = operation("dct8").matrix.reshape(64, 64).astype(np.float64)
    np.testing.assert_allclose(basis @ basis.T, np.eye(64), atol=1e-6)
    np.testing.assert_allclose(basis[0], 1 / 8, rtol=1e-6)
    gabor = operation("gabor").matrix
    np.testing.assert_allclose(gabor.sum(axis=(1, 2)), 0, atol=1e-6)
    np.testing.assert_allclose(np.abs(gabor).sum(axis=(1, 2)), 1, rtol=1e-5)
    np.testing.assert_allclose(gabor[4], gabor[0].T, atol=1e-7)  # 90 degrees


def test_matrices_in_files(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(6).reshape(2, 3))
    np.testing.assert_array_equal(operation(tmp_path / "a.npy").matrix, [[0, 1, 2], [3, 4, 5]])
    (tmp_path / "a.txt").write_text("# grey, and the difference\n0.3 0.6, 0.1\n\n1; -1; 0  # that\n")
    read = operation(str(tmp_path / "a.txt"))
    np.testing.assert_allclose(read.matrix, [[0.3, 0.6, 0.1], [1, -1, 0]])
    assert read.for_range(255) is read.matrix
    assert not read.bank


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 2\n3\n", r"1 numbers .*line 2.*2 as before"),
        ("1 x\n", "'1 x' is no row of numbers"),
        ("# nothing\n", "no matrix"),
        ("1 nan\n", "not all elements are finite"),
    ],
)
def test_texts_that_are_no_matrix(tmp_path, text, said):
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(InputError, match=said):
        operation(tmp_path / "a.txt")


def test_files_that_are_no_matrix(tmp_path):
    with pytest.raises(InputError, match=r"unknown operation 'gray'.*nearest: grey"):
        operation("gray")
    (tmp_path / "a.npy").write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"no matrix: it does not begin as one .*a\.npy"):
        operation(tmp_path / "a.npy")
    np.save(tmp_path / "words.npy", np.array(["a"]))
    with pytest.raises(InputError, match="elements of type"):
        operation(tmp_path / "words.npy")
    np.save(tmp_path / "row.npy", np.zeros(3))
    with pytest.raises(InputError, match="a matrix of shape"):
        operation(tmp_path / "row.npy")
    with pytest.raises(FileNotFoundError):
        operation(tmp_path / "missing.npy")


def test_principal_components():
    rng = np.random.default_rng(9)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    rows = (rng.normal(size=(40, 50, 3)) * (9, 3, 1)) @ turn.T + (5, 6, 7)
    matrix = principal_matrix(rows)
    projected = image_gemm(rows, matrix).pixels.reshape(-1, 3).astype(np.float64)
    np.testing.assert_allclose(projected.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(np.corrcoef(projected.T), np.eye(3), atol=1e-4)
    np.testing.assert_allclose(projected.std(axis=0), (9, 3, 1), rtol=0.1)
    assert (np.abs(np.diag(matrix[:, :3] @ turn)) > 0.9).all()
    np.testing.assert_array_equal(principal_matrix(rows, 1), matrix[:1])
    fitted = operation("pca").fitted(rows)
    np.testing.assert_array_equal(fitted.matrix, matrix)
    assert principal_matrix(np.zeros((4, 1))).shape == (1, 2)
