"""Files that would be read wrong: signs, white as zero, alpha, pages, profiles, sizes, full disks."""

import contextlib
import errno
import os
import struct
import threading
import zlib

import numpy as np
import pytest

from regweave import InputError, UnsupportedError
from regweave.files import write_bytes
from regweave.images import (
    Picture,
    contact_sheet,
    filter_bank,
    filter_image,
    image_filter,
    image_gemm,
    operation,
    principal_matrix,
    read_image,
    show_planes,
    write_image,
)
from regweave.images.deep_png import write_deep_png
from regweave.images.mapped import map_image, mapped_output
from regweave.images.targets import FORMATS, check_holds, check_target, fitting_profile, keeps_alpha
from regweave.memory import check_memory, room

pillow = pytest.importorskip("PIL.Image")
tifffile = pytest.importorskip("tifffile")

RANDOM = np.random.default_rng(7)
GREY = RANDOM.integers(0, 65536, (9, 14), dtype=np.uint16)
#: The first pixel, and the steps, of each pass of an interlaced PNG: rows, then columns.
PASSES = ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1))


def profile(space):
    return bytes(16) + space + bytes(108)


@pytest.mark.parametrize("channels", [2, 3, 4])
def test_interlaced_pngs_of_16_bits(tmp_path, channels):
    pixels = RANDOM.integers(0, 65536, (13, 11, channels), dtype=np.uint16)
    rows = b"".join(
        b"\0" + row.astype(">u2").tobytes()
        for top, left, down, right in PASSES
        for row in pixels[top::down, left::right]
        if row.size
    )
    data = write_deep_png(pixels)
    header, packed = bytearray(data[12:29]), zlib.compress(rows)
    header[-1] = 1
    chunks = (bytes(header), b"IDAT" + packed)
    body = b"".join(struct.pack(">I", len(c) - 4) + c + struct.pack(">I", zlib.crc32(c)) for c in chunks)
    (tmp_path / "a.png").write_bytes(data[:8] + body + data[-12:])
    picture = read_image(tmp_path / "a.png")
    colours = channels - 1 if channels in (2, 4) else channels
    np.testing.assert_array_equal(picture.pixels, pixels[..., :colours])
    if colours < channels:
        np.testing.assert_array_equal(picture.alpha, pixels[..., -1])


def test_signed_numbers_are_no_brightness(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", np.full((4, 5), -3, np.int8))
    with pytest.raises(InputError, match="signed numbers"):
        read_image(tmp_path / "a.tif")
    tifffile.imwrite(tmp_path / "b.tif", np.full((4, 5), -3, np.int16))
    with pytest.raises(InputError, match="numbers below 0"):
        read_image(tmp_path / "b.tif")


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_white_may_be_zero(tmp_path, dtype):
    stored = GREY.astype(dtype)
    tifffile.imwrite(tmp_path / "a.tif", stored, photometric="miniswhite")
    assert map_image(tmp_path / "a.tif") is None
    np.testing.assert_array_equal(read_image(tmp_path / "a.tif").pixels[..., 0], np.iinfo(dtype).max - stored)


def test_colours_that_were_multiplied_by_alpha(tmp_path):
    alpha = np.array([[65535, 32768, 0, 1]], np.uint16)
    seen = np.array([[[60000, 30000, 7]] * 4], np.uint16)
    stored = np.rint(seen * (alpha[..., None] / 65535)).astype(np.uint16)
    stored[0, 3] = 5  # more than the alpha leaves
    tifffile.imwrite(
        tmp_path / "a.tif",
        np.concatenate([stored, alpha[..., None]], axis=2),
        photometric="rgb",
        extrasamples=["assocalpha"],
    )
    picture = read_image(tmp_path / "a.tif")
    np.testing.assert_array_equal(picture.alpha, alpha)
    assert np.abs(picture.pixels[0, :2].astype(int) - seen[0, :2]).max() <= 1
    assert picture.pixels[0, 2:, 0].tolist() == [0, 65535]


def test_pages_are_counted(tmp_path):
    pages = RANDOM.integers(0, 256, (5, 20, 30), dtype=np.uint8)
    tifffile.imwrite(tmp_path / "stack.tif", pages)
    assert read_image(tmp_path / "stack.tif").pages == 5
    mapped = map_image(tmp_path / "stack.tif")
    assert mapped.pages == 5
    np.testing.assert_array_equal(mapped.pixels[..., 0], pages[0])
    with tifffile.TiffWriter(tmp_path / "pyramid.tif") as writer:
        writer.write(pages[0])
        writer.write(pages[0, ::2, ::2], subfiletype=1)
    assert read_image(tmp_path / "pyramid.tif").pages == 1
    frames = [pillow.fromarray(page) for page in pages]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    assert read_image(tmp_path / "a.gif").pages == 5
    frames[0].save(tmp_path / "a.png")
    assert read_image(tmp_path / "a.png").pages == 1


def test_a_profile_goes_only_to_pictures_of_its_channels(tmp_path):
    colours = RANDOM.integers(0, 256, (6, 7, 3), dtype=np.uint8)
    pillow.fromarray(colours).convert("CMYK").save(tmp_path / "a.jpg", icc_profile=profile(b"CMYK"))
    write_image(tmp_path / "a.png", read_image(tmp_path / "a.jpg"))
    assert read_image(tmp_path / "a.png").profile is None
    for space, channels, kept in (
        (b"RGB ", 3, True),
        (b"RGB ", 1, False),
        (b"GRAY", 1, True),
        (b"GRAY", 3, False),
        (b"odd.", 1, True),
    ):
        assert (fitting_profile(profile(space), channels) is not None) == kept
    assert fitting_profile(None, 3) is None
    # through a mapped file, too
    write_image(tmp_path / "plain.tif", Picture(colours, None, profile(b"RGB ")))
    mapped = map_image(tmp_path / "plain.tif")
    assert mapped.profile == profile(b"RGB ")
    with mapped_output(tmp_path / "b.tif", colours.shape, colours.dtype, mapped.profile) as out:
        out[...] = mapped.pixels
    assert read_image(tmp_path / "b.tif").profile == profile(b"RGB ")


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5])
def test_tiffs_of_any_number_of_channels(tmp_path, channels):
    image = RANDOM.integers(0, 256, (6, 5, channels), dtype=np.uint8)
    with mapped_output(tmp_path / "a.tif", image.shape, image.dtype) as out:
        filter_image(image, image_filter("box1"), out=out)
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "a.tif").reshape(image.shape), image)


def test_what_formats_hold():
    check_holds("a.png", np.dtype(np.uint16), 3)
    check_holds("a.tif", np.dtype(np.float32), 7)
    check_holds("a.npy", np.dtype(np.float32), 7)
    with pytest.raises(InputError, match=r"WEBP holds 8 bits .*a\.webp.*write a \.png or \.tif"):
        check_holds("a.webp", np.dtype(np.uint16), 3)
    with pytest.raises(UnsupportedError, match="PNG holds no floats"):
        check_holds("a.png", np.dtype(np.float32), 1)
    with pytest.raises(InputError, match=r"JPEG holds 1 or 3 channels, the image has 4.*\.npy or \.tif"):
        check_holds("a.jpg", np.dtype(np.uint8), 4)
    assert [ending for ending in (*FORMATS, ".npy") if keeps_alpha("a" + ending)] == [
        ".png",
        ".tif",
        ".tiff",
        ".webp",
    ]
    assert check_target("a.JPG") == "JPEG"
    assert check_target("a.npy") == "NPY"


def test_arrays_are_written_like_pictures(tmp_path):
    write_image(tmp_path / "a.npy", Picture(GREY[..., None]))
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), GREY)


def test_pictures_beyond_pillows_limit_are_read(tmp_path, monkeypatch):
    write_image(tmp_path / "a.png", Picture(GREY[..., None]))
    monkeypatch.setattr(pillow, "MAX_IMAGE_PIXELS", 10)
    assert read_image(tmp_path / "a.png").pixels.shape == (9, 14, 1)
    assert pillow.MAX_IMAGE_PIXELS == 10


def test_what_memory_cannot_hold(tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"an array of 1048576 x 1048576 x 64 takes .* GB; expected at most"):
        room((1 << 20, 1 << 20, 64), np.float32)
    assert room((2, 3), np.uint16).shape == (2, 3)
    check_memory("little", 1)
    write_image(tmp_path / "a.png", Picture(GREY[..., None]))
    monkeypatch.setattr(os, "sysconf", lambda name: 24)  # 576 bytes
    with pytest.raises(InputError, match=r"a picture of 14 x 9 pixels takes .*a\.png.*not read whole"):
        read_image(tmp_path / "a.png")
    with pytest.raises(InputError, match="take a larger stride"):
        filter_bank(GREY, np.ones((2, 3, 3)))


def test_a_full_disk_is_found_before_work(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    (tmp_path / "a.npy").write_text("before")
    with (
        pytest.raises(OSError, match="No space left on device") as error,
        mapped_output(tmp_path / "a.npy", (4, 4, 1), np.dtype(np.uint8)),
    ):
        pass
    assert error.value.filename == str(tmp_path / "a.npy")
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left on device") as error:
        write_bytes(tmp_path / "a.npy", b"after")
    assert error.value.filename == str(tmp_path / "a.npy")
    assert (tmp_path / "a.npy").read_text() == "before"
    assert os.listdir(tmp_path) == ["a.npy"]


def test_numbers_that_are_none(tmp_path):
    rows = RANDOM.normal(size=(50, 3)).astype(np.float32)
    holes = np.concatenate([rows, np.full((4, 3), np.nan, np.float32)])
    np.testing.assert_array_equal(principal_matrix(holes), principal_matrix(rows))
    with pytest.raises(InputError, match="no row of finite numbers"):
        principal_matrix(holes[50:])
    plane = np.array([[[1.0], [-2.0], [np.nan], [np.inf]]], np.float32)
    assert show_planes(plane)[0, 0].tolist() == [191, 0, 128, 128]
    (tmp_path / "k.txt").write_text("1e300 1\n")
    with pytest.raises(InputError, match="finite numbers of f32"):
        image_filter(tmp_path / "k.txt")


def damaged(data):
    """Some of a file's bytes, or all with some changed, in many ways."""
    changed = np.random.default_rng(len(data))
    for size in (0, 1, 2, 4, 5, 8, 9, 16, 30, len(data) // 2, len(data) - 1):
        yield data[:size]
    for _ in range(40):
        own = bytearray(data)
        for place in changed.integers(0, min(len(own), 300), 3):
            own[place] = changed.integers(256)
        for place in changed.integers(0, len(own), 3):
            own[place] = changed.integers(256)
        yield bytes(own)


@pytest.mark.parametrize(
    "kind", ["flat.tif", "packed.tif", "deep.tif", "a.png", "deep.png", "a.jpg", "a.gif", "a.npy"]
)
def test_damaged_files_are_read_or_refused(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(os, "sysconf", lambda name: 1 << 12)  # sizes that damage made are too large soon
    path = tmp_path / kind
    bits = np.uint16 if kind.startswith("deep") else np.uint8
    pixels = RANDOM.integers(0, 256, (20, 30, 3)).astype(bits)
    if kind == "packed.tif":
        tifffile.imwrite(path, pixels, photometric="rgb", compression="zlib")
    elif kind == "a.gif":
        pillow.fromarray(pixels).save(path)
    else:
        write_image(path, Picture(pixels))
    for data in damaged(path.read_bytes()):
        path.write_bytes(data)
        for read in (read_image, map_image):
            with contextlib.suppress(InputError, UnsupportedError):
                read(path)


def test_a_pipe_and_a_device(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe.png")
    write_image(tmp_path / "a.png", Picture(GREY[..., None]))
    data = (tmp_path / "a.png").read_bytes()
    writer = threading.Thread(target=(tmp_path / "pipe.png").write_bytes, args=(data,))
    writer.start()
    assert map_image(tmp_path / "pipe.png") is None
    np.testing.assert_array_equal(read_image(tmp_path / "pipe.png").pixels[..., 0], GREY)
    writer.join()
    monkeypatch.setattr("regweave.images.files._MOST_STREAMED", 1 << 16)
    with pytest.raises(InputError, match="an endless picture"):
        read_image("/dev/zero")


def test_arrays_in_the_other_byte_order(tmp_path):
    for kind in (np.uint16, np.float32):
        np.save(tmp_path / "a.npy", GREY.astype(np.dtype(kind).newbyteorder()))
        pixels = map_image(tmp_path / "a.npy").pixels
        assert pixels.dtype == kind
        np.testing.assert_array_equal(pixels[..., 0], GREY)


def test_the_longest_names(tmp_path):
    for letter in ("x", "\xfc"):
        name = letter * (250 // len(letter.encode()))
        write_image(tmp_path / f"{name}.png", Picture(GREY[..., None]))
        with mapped_output(tmp_path / f"{name}.npy", (*GREY.shape, 1), GREY.dtype) as out:
            out[..., 0] = GREY
    assert len(list(tmp_path.iterdir())) == 4


def test_targets_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "a.png").mkdir()
    (tmp_path / "note").write_text("no folder")
    with pytest.raises(InputError, match="a folder, not a file"):
        check_target(tmp_path / "a.png")
    with pytest.raises(InputError, match="does not exist") as caught:
        check_target(tmp_path / "nate" / "b.png")
    assert "note" not in caught.value.nearest
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(InputError, match="cannot be written to"):
        check_target(tmp_path / "b.png")


def test_texts_begin_with_a_mark(tmp_path):
    (tmp_path / "k.txt").write_text("\ufeff1 2 3\n4 5 6\n")
    np.testing.assert_array_equal(image_filter(tmp_path / "k.txt").kernels[0], [[1, 2, 3], [4, 5, 6]])


def test_a_disk_that_is_read_only(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system", "hidden")

    monkeypatch.setattr("pathlib.Path.unlink", refuse)
    monkeypatch.setattr("builtins.open", refuse)
    monkeypatch.setattr("regweave.images.mapped._made", refuse)
    for write in (
        lambda path: write_bytes(path, b"text"),
        lambda path: mapped_output(path, (2, 2, 1), np.dtype(np.uint8)).__enter__(),
    ):
        with pytest.raises(OSError, match="Read-only") as error:
            write(tmp_path / "a.npy")
        assert error.value.filename == str(tmp_path / "a.npy")


ODD = [0, 1.5, object(), {}, [], b"x", np.array([]), np.zeros((2, 2)), float("nan"), "w\xfcst\udc80"]


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: type(odd).__name__)
def test_what_is_of_no_kind_that_is_taken(tmp_path, odd):
    image = np.zeros((4, 5, 3), np.uint8)
    calls = {
        "filter": lambda: filter_image(image, odd),
        "border": lambda: filter_image(image, "box3", border=odd),
        "progress": lambda: filter_image(image, "box3", progress=odd),
        "filtered": lambda: filter_image(odd, "box3"),
        "matrix": lambda: image_gemm(image, odd),
        "machine": lambda: image_gemm(image, [[1, 1, 1]], machine=odd),
        "result": lambda: image_gemm(image, [[1, 1, 1]], result=odd),
        "told": lambda: image_gemm(image, [[1, 1, 1]], progress=odd),
        "picture": lambda: write_image(tmp_path / "a.png", odd),
        "alpha": lambda: Picture(image, odd),
        "operation": lambda: operation(odd),
        "components": lambda: principal_matrix(image, odd),
        "sheet": lambda: contact_sheet(odd),
    }
    if not isinstance(odd, bytes):
        calls["profile"] = lambda: Picture(image, None, odd)
    for call in calls.values():
        with pytest.raises(InputError):
            call()
    assert not list(tmp_path.iterdir())


def test_a_filter_may_be_named():
    image = RANDOM.integers(0, 256, (6, 7, 3), dtype=np.uint8)
    np.testing.assert_array_equal(
        filter_image(image, "gaussian3"), filter_image(image, image_filter("gaussian3"))
    )
