"""`regweave filter`: pictures in, pictures out, mapped files, complaints."""

import json
import os

import numpy as np
import pytest

from regweave.cli import main

pytest.importorskip("PIL")
pytest.importorskip("tifffile")
from regweave.images import Picture, filter_image, image_filter, read_image, write_image


@pytest.fixture
def photo(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pixels = np.random.default_rng(1).integers(0, 256, (24, 35, 3), dtype=np.uint8)
    write_image("photo.png", Picture(pixels, pixels[..., 0]))
    return pixels


def run(capfd, *words):
    code = main(["filter", *words])
    return code, capfd.readouterr()


def test_a_picture(photo, capfd):
    code, said = run(capfd, "photo.png", "--kernel", "unsharp", "--stride", "2", "-o", "out.png")
    assert code == 0
    assert "unsharp: 35 x 24 pixels" in said.out
    back = read_image("out.png")
    np.testing.assert_array_equal(back.pixels, filter_image(photo, image_filter("unsharp"), stride=2))
    np.testing.assert_array_equal(back.alpha, photo[::2, ::2, 0])
    code, said = run(capfd, "photo.png", "--kernel", "unsharp", "-o", "out.jpg")
    assert "no alpha" in said.err


def test_mapped_files_and_the_document(photo, capfd):
    np.save("sky.npy", photo)
    code, said = run(capfd, "sky.npy", "--kernel", "sobel", "-o", "edges.tif", "--border", "zero", "--json")
    assert code == 0
    document = json.loads(said.out)
    assert document["mapped"] is True
    assert (document["width"], document["height"], document["channels"], document["bits"]) == (35, 24, 3, 8)
    assert (document["kernel"], document["border"], document["files"]) == ("sobel", "zero", ["edges.tif"])
    wanted = filter_image(photo, image_filter("sobel"), border="zero")
    np.testing.assert_array_equal(read_image("edges.tif").pixels, wanted)
    assert run(capfd, "edges.tif", "--kernel", "box3", "-o", "soft.png")[0] == 0
    np.testing.assert_array_equal(read_image("soft.png").pixels, filter_image(wanted, image_filter("box3")))
    assert run(capfd, "photo.png", "--kernel", "box3", "-o", "soft.npy")[0] == 0
    np.testing.assert_array_equal(np.load("soft.npy"), filter_image(photo, image_filter("box3")))


def test_that_further_pages_were_left_out_is_said(photo, capfd):
    import tifffile

    tifffile.imwrite("stack.tif", np.stack([photo] * 5)[..., 0])
    code, said = run(capfd, "stack.tif", "--kernel", "box3", "-o", "out.png", "--json")
    assert code == 0
    assert "stack.tif has 5 pages: the first was taken" in said.err
    assert json.loads(said.out)["pages"] == 5


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("photo.png", "--kernel", "sobl", "-o", "a.png"), "unknown filter 'sobl'"),
        (("photo.pgn", "--kernel", "sobel", "-o", "a.png"), "no such file"),
        (("deep.npy", "--kernel", "sobel", "-o", "a.jpg"), "JPEG holds 8 bits per channel"),
        (("five.npy", "--kernel", "sobel", "-o", "a.png"), "PNG holds 1 or 3 channels, the image has 5"),
        (("missing.npy", "--kernel", "sobel", "-o", "a.png"), "no such file"),
        (("photo.png", "--kernel", "sobel", "-o", "no/a.npy"), "the folder 'no' does not exist"),
        (("photo.png", "--kernel", "sobel", "-o", "a.pgn"), "unknown format '.pgn'"),
        (("photo.png", "--kernel", "sobel", "-o", "a.png", "--border", "none"), "unknown border 'none'"),
        (("photo.png", "--kernel", "sobel", "-o", "a.png", "--stride", "0"), "a stride of 0"),
        (("photo.png", "--kernel", "sobel", "-o", "a.tif", "--stride", "0"), "a stride of 0"),
        (("sky.npy", "--kernel", "sobel", "-o", "a.npy", "--stride", "0"), "a stride of 0"),
    ],
)
def test_complaints(photo, capfd, words, said):
    np.save("sky.npy", photo)
    np.save("deep.npy", photo.astype(np.uint16))
    np.save("five.npy", np.repeat(photo[..., :1], 5, axis=2))
    before = sorted(os.listdir())
    code, streams = run(capfd, *words)
    assert code == 2
    assert said in streams.err
    assert sorted(os.listdir()) == before
