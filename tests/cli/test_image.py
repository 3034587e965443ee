"""`regweave image`: files in, files out, one document, complaints."""

import json
import os

import numpy as np
import pytest

from regweave.cli import main

pytest.importorskip("PIL")
pytest.importorskip("tifffile")
from regweave.images import Picture, read_image, write_image


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pixels = np.random.default_rng(1).integers(0, 256, (24, 36, 3), dtype=np.uint8)
    write_image("photo.png", Picture(pixels, np.full((24, 36), 77, np.uint8)))
    return pixels


def run(capfd, *words):
    code = main(["image", *words])
    return code, capfd.readouterr()


def test_a_colour_operation(folder, capfd):
    code, said = run(capfd, "photo.png", "--op", "invert", "-o", "out.png")
    assert code == 0
    assert "invert: 36 x 24 pixels" in said.out
    assert "written to out.png" in said.out
    back = read_image("out.png")
    np.testing.assert_array_equal(back.pixels, 255 - folder)
    assert (back.alpha == 77).all()


def test_the_document(folder, capfd):
    code, said = run(
        capfd,
        "photo.png",
        "--op",
        "grey",
        "-o",
        "out.jpg",
        "--machine",
        "gfx942",
        "--precision",
        "f16",
        "--json",
    )
    assert code == 0
    document = json.loads(said.out)
    assert document["files"] == ["out.jpg"]
    assert (document["width"], document["height"], document["channels"], document["bits"]) == (36, 24, 3, 8)
    assert (document["alpha"], document["results"]) == (True, 1)
    assert (document["machine"], document["device"]) == ("gfx942", "emulator (gfx942)")
    assert set(document["seconds"]) == {"read", "product", "write"}
    assert "no alpha: it was left out" in said.err


def test_the_ways_to_write_planes(folder, capfd):
    assert run(capfd, "photo.png", "--op", "gabor", "-o", "sheet.png")[0] == 0
    assert read_image("sheet.png").pixels.shape[2] == 1
    assert run(capfd, "photo.png", "--op", "gabor", "-o", "plane-{}.png")[0] == 0
    assert len([name for name in os.listdir() if name.startswith("plane-")]) == 8
    assert run(capfd, "photo.png", "--op", "dct8", "--stride", "8", "-o", "numbers.npy")[0] == 0
    numbers = np.load("numbers.npy")
    assert numbers.shape == (3, 5, 64)
    import tifffile

    assert run(capfd, "photo.png", "--op", "dct8", "--stride", "8", "-o", "numbers.tif")[0] == 0
    np.testing.assert_array_equal(tifffile.imread("numbers.tif"), numbers.transpose(2, 0, 1))


def test_a_matrix_of_ones_own(folder, capfd):
    with open("mine.txt", "w") as file:
        file.write("0 0 1 0\n0 1 0 10\n")
    assert run(capfd, "photo.png", "--op", "mine.txt", "-o", "two.npy")[0] == 0
    np.testing.assert_array_equal(np.load("two.npy"), folder[..., 2:0:-1] + np.float32([0, 10]))


def test_mapped_files_and_their_pages(folder, capfd):
    import tifffile

    np.save("photo.npy", folder)
    assert run(capfd, "photo.npy", "--op", "invert", "-o", "out.png")[0] == 0
    np.testing.assert_array_equal(read_image("out.png").pixels, 255 - folder)
    tifffile.imwrite("two.tif", np.stack([folder, folder]), photometric="rgb")
    code, said = run(capfd, "two.tif", "--op", "grey", "-o", "out.png", "--json")
    assert code == 0
    assert "two.tif has 2 pages: the first was taken" in said.err
    assert json.loads(said.out)["pages"] == 2


def test_principal_components_are_planes(folder, capfd):
    assert run(capfd, "photo.png", "--op", "pca", "-o", "parts-{}.png")[0] == 0
    assert sorted(name for name in os.listdir() if "parts" in name) == [f"parts-{n}.png" for n in range(3)]


def test_grey_pictures_are_three_equal_colours(folder, capfd):
    write_image("grey.png", Picture(folder[..., :1]))
    assert run(capfd, "grey.png", "--op", "grey", "-o", "same.png")[0] == 0
    np.testing.assert_array_equal(read_image("same.png").pixels, folder[..., :1])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("photo.png", "--op", "sepai", "-o", "a.png"), "unknown operation 'sepai'"),
        (("foto.png", "--op", "sepia", "-o", "a.png"), "no such file"),
        (("photo.png", "--op", "sepia", "-o", "no/a.png"), "the folder 'no' does not exist"),
        (("photo.png", "--op", "dct8", "-o", "no/a.npy"), "the folder 'no' does not exist"),
        (("photo.png", "--op", "sepia", "-o", "a.gif"), "unknown format '.gif'"),
        (("photo.png", "--op", "sepia", "-o", "a-{}.png"), "makes one picture"),
        (("photo.png", "--op", "sepia", "-o", "a.png", "--stride", "2"), "a stride of 2 for single pixels"),
        (("photo.png", "--op", "sepia", "-o", "a.png", "--machine", "gfx907"), "unknown machine 'gfx907'"),
        (("deep.npy", "--op", "sepia", "-o", "a.jpg"), "JPEG holds 8 bits per channel, the picture has 16"),
        (("photo.png", "--op", "wide.npy", "-o", "a.png"), "has 7 columns, the picture 3 channels"),
    ],
)
def test_complaints(folder, capfd, words, said):
    np.save("wide.npy", np.zeros((1, 7)))
    np.save("deep.npy", folder.astype(np.uint16))
    before = sorted(os.listdir())
    code, streams = run(capfd, *words)
    assert code == 2
    assert said in streams.err
    assert sorted(os.listdir()) == before
