"""Pictures in files: what is written comes back, what others wrote is read, what cannot be says so."""

import io
import os
import struct
import zlib

import numpy as np
import pytest

from regweave import InputError, UnsupportedError
from regweave.images import Picture, contact_sheet, read_image, show_planes, write_image
from regweave.images.deep_png import read_deep_png, write_deep_png
from regweave.images.deep_tiff import write_pages

pillow = pytest.importorskip("PIL.Image")
tifffile = pytest.importorskip("tifffile")


def noise(*shape, dtype=np.uint8):
    values = np.random.default_rng(sum(shape)).random(shape)
    return values.astype(dtype) if dtype == np.float32 else (values * (np.iinfo(dtype).max + 1)).astype(dtype)


@pytest.mark.parametrize("ending", [".png", ".tif"])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("alpha", [False, True])
def test_what_is_written_comes_back(tmp_path, ending, dtype, channels, alpha):
    picture = Picture(
        noise(21, 33, channels, dtype=dtype), noise(21, 33, dtype=dtype) if alpha else None, b"a profile"
    )
    write_image(tmp_path / f"a{ending}", picture)
    back = read_image(tmp_path / f"a{ending}")
    assert back.pixels.dtype == dtype
    np.testing.assert_array_equal(back.pixels, picture.pixels)
    assert (back.alpha is None) != alpha
    if alpha:
        np.testing.assert_array_equal(back.alpha, picture.alpha)
    assert back.profile == b"a profile"
    assert back.most == np.iinfo(dtype).max
    assert os.listdir(tmp_path) == [f"a{ending}"]


def test_other_formats(tmp_path):
    smooth = np.full((16, 24, 3), (200, 100, 50), np.uint8)
    for ending in (".jpg", ".jpeg", ".webp", ".bmp"):
        write_image(tmp_path / f"a{ending}", Picture(smooth, np.full((16, 24), 9, np.uint8)))
        back = read_image(tmp_path / f"a{ending}")
        assert np.abs(back.pixels.astype(int) - smooth).max() <= 3
        assert (back.alpha is None) == (ending != ".webp")


def test_floats_are_kept_in_tiffs(tmp_path):
    for channels in (1, 3):
        picture = Picture(noise(5, 7, channels, dtype=np.float32))
        write_image(tmp_path / "a.tiff", picture)
        np.testing.assert_array_equal(read_image(tmp_path / "a.tiff").pixels, picture.pixels)
        assert picture.most == 1
    with pytest.raises(UnsupportedError, match=r"PNG holds no floats .*write a \.tif"):
        write_image(tmp_path / "a.png", Picture(noise(5, 7, 3, dtype=np.float32)))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("ending", ["jpg", "png", "tif"])
def test_pictures_are_upright(tmp_path, orientation, ending):
    upright = np.zeros((40, 56, 3), np.uint16 if ending != "jpg" else np.uint8)
    upright[:20, :28], upright[:20, 28:], upright[20:, :28] = 200, 100, 50  # quarters that differ
    stored = upright.swapaxes(0, 1) if orientation >= 5 else upright
    # the way back from what each orientation asks for
    rows, columns = {1: (1, 1), 2: (1, -1), 3: (-1, -1), 4: (-1, 1), 5: (1, 1), 6: (-1, 1), 7: (-1, -1),
                     8: (1, -1)}[orientation]  # fmt: skip
    stored = np.ascontiguousarray(stored[::rows, ::columns])
    path = tmp_path / f"a.{ending}"
    if ending == "tif":
        tifffile.imwrite(path, stored, photometric="rgb", extratags=[(274, 3, 1, orientation, True)])
    elif ending == "png":
        exif = pillow.Exif()
        exif[0x0112] = orientation
        body = exif.tobytes().removeprefix(b"Exif\0\0")
        chunk = struct.pack(">I", len(body)) + b"eXIf" + body + struct.pack(">I", zlib.crc32(b"eXIf" + body))
        data = write_deep_png(stored)
        path.write_bytes(data[:33] + chunk + data[33:])
    else:
        exif = pillow.Exif()
        exif[0x0112] = orientation
        pillow.fromarray(stored).save(path, exif=exif, quality=100, subsampling=0)
    back = read_image(path).pixels
    assert back.shape == upright.shape
    assert np.abs(back.astype(int) - upright).max() <= 3


def test_what_pillow_makes_of_other_kinds(tmp_path):
    colours = noise(10, 12, 3)
    pillow.fromarray(colours).quantize(8).save(tmp_path / "palette.png")
    assert read_image(tmp_path / "palette.png").pixels.shape == (10, 12, 3)
    pillow.fromarray(colours).convert("CMYK").save(tmp_path / "cmyk.jpg", quality=95)
    assert read_image(tmp_path / "cmyk.jpg").pixels.shape == (10, 12, 3)
    pillow.fromarray(colours[..., 0]).convert("1").save(tmp_path / "bits.png")
    bits = read_image(tmp_path / "bits.png").pixels
    assert set(np.unique(bits)) == {0, 255}
    pillow.fromarray(colours).quantize(8).save(tmp_path / "clear.png", transparency=0)
    clear = read_image(tmp_path / "clear.png").alpha
    assert clear is not None
    assert set(np.unique(clear)) == {0, 255}
    pillow.fromarray(noise(10, 12, dtype=np.uint16).astype(np.int32)).save(tmp_path / "wide.tif")
    np.testing.assert_array_equal(
        read_image(tmp_path / "wide.tif").pixels[..., 0], noise(10, 12, dtype=np.uint16)
    )
    pillow.fromarray(np.full((3, 3), 70000, np.int32)).save(tmp_path / "wider.tif")
    with pytest.raises(InputError, match="numbers below 0 or beyond 65535"):
        read_image(tmp_path / "wider.tif")


def predicted(kind, left, above, corner):
    """PNG's predictions, one byte at a time."""
    if kind == 4:
        guess = left + above - corner
        distances = [(abs(guess - x), i, x) for i, x in enumerate((left, above, corner))]
        return min(distances)[2]
    return (0, left, above, (left + above) // 2)[kind]


@pytest.mark.parametrize("kinds", [(0,), (1,), (2,), (3,), (4,), (4, 1, 3, 0, 2)])
@pytest.mark.parametrize("channels", [2, 3, 4])
def test_every_filter_of_png_is_taken_back(kinds, channels):
    pixels = noise(7, 5, channels, dtype=np.uint16)
    size = 2 * channels
    raw = pixels.astype(">u2").view(np.uint8).reshape(7, -1).astype(int)
    body = bytearray()
    for y in range(7):
        kind = kinds[y % len(kinds)]
        body.append(kind)
        for i in range(raw.shape[1]):
            left = raw[y, i - size] if i >= size else 0
            above = raw[y - 1, i] if y else 0
            corner = raw[y - 1, i - size] if y and i >= size else 0
            body.append((raw[y, i] - predicted(kind, left, above, corner)) % 256)
    data = write_deep_png(pixels)
    start = data.index(b"IDAT") - 4
    packed = zlib.compress(bytes(body))
    chunk = (
        struct.pack(">I", len(packed)) + b"IDAT" + packed + struct.pack(">I", zlib.crc32(b"IDAT" + packed))
    )
    np.testing.assert_array_equal(read_deep_png(data[:start] + chunk + data[-12:], pillow), pixels)


def test_deep_pngs_that_are_damaged(tmp_path):
    data = write_deep_png(noise(6, 6, 3, dtype=np.uint16))
    assert read_deep_png(b"GIF89a", pillow) is None
    cases = {
        "cut": (data[:-30], "truncated"),
        "filter": (replaced(data, b"\7" + bytes(36) + bytes(5 * 37)), "unrecognized data stream"),
        "short": (replaced(data, bytes(40)), "cannot be read"),
    }
    for name, (damaged, said) in cases.items():
        (tmp_path / f"{name}.png").write_bytes(damaged)
        with pytest.raises(InputError, match=rf"{said}.*{name}\.png"):
            read_image(tmp_path / f"{name}.png")


def replaced(data, rows):
    start, packed = data.index(b"IDAT") - 4, zlib.compress(rows)
    return data[:start] + struct.pack(">I", len(packed)) + b"IDAT" + packed + bytes(4) + data[-12:]


def test_tiffs_of_planes_and_of_what_no_picture_is(tmp_path):
    planes = noise(3, 20, 30, dtype=np.uint16)
    tifffile.imwrite(tmp_path / "planes.tif", planes, photometric="rgb", planarconfig="separate")
    np.testing.assert_array_equal(read_image(tmp_path / "planes.tif").pixels, planes.transpose(1, 2, 0))
    tifffile.imwrite(tmp_path / "double.tif", np.zeros((4, 4, 3)), photometric="rgb")
    with pytest.raises(InputError, match="a TIFF of float64 pixels"):
        read_image(tmp_path / "double.tif")
    (tmp_path / "cut.tif").write_bytes(b"II*\0 nothing")
    with pytest.raises(InputError, match=r"cut\.tif"):
        read_image(tmp_path / "cut.tif")
    pages = tifffile.TiffFile(io.BytesIO(write_pages([noise(3, 4), noise(5, 6, 3)]))).pages
    assert [page.shape for page in pages] == [(3, 4), (5, 6, 3)]


def test_files_that_are_none_of_them(tmp_path):
    (tmp_path / "text.png").write_text("no picture")
    with pytest.raises(InputError, match=r"no picture that can be read .*text\.png.*expected PNG"):
        read_image(tmp_path / "text.png")
    write_image(tmp_path / "photo.jpg", Picture(noise(40, 40, 3)))
    with pytest.raises(InputError, match=r"no such file .*nearest: photo\.jpg"):
        read_image(tmp_path / "photo.jpeg")
    whole = (tmp_path / "photo.jpg").read_bytes()
    (tmp_path / "cut.jpg").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="cannot be read"):
        read_image(tmp_path / "cut.jpg")


def test_targets_that_cannot_be(tmp_path):
    picture = Picture(noise(4, 4, 3))
    (tmp_path / "results").mkdir()
    (tmp_path / "result0").symlink_to("result0")  # round in circles
    for name, said in {
        "a.pgn": "unknown format '.pgn'.*nearest: .png",
        "a": "a file name without a format",
        "result/a.png": "folder .* does not exist.*nearest: results",
    }.items():
        with pytest.raises(InputError, match=said):
            write_image(tmp_path / name, picture)
    with pytest.raises(InputError, match=r"JPEG holds 8 bits per channel, the picture has 16.*write a \.png"):
        write_image(tmp_path / "a.jpg", Picture(noise(4, 4, 3, dtype=np.uint16)))
    assert sorted(os.listdir(tmp_path)) == ["result0", "results"]


def test_pictures_check_themselves():
    with pytest.raises(InputError, match="pixels of shape"):
        Picture(noise(4, 4, 2))
    with pytest.raises(InputError, match="alpha of shape"):
        Picture(noise(4, 4, 3), noise(4, 5))


def test_without_the_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "PIL.Image", None)
    with pytest.raises(UnsupportedError, match=r"pillow, which is not installed.*regweave\[images\]"):
        read_image(tmp_path / "a.png")


def test_planes_as_pictures():
    responses = np.zeros((4, 6, 3), np.float32)
    responses[0, 0] = -2, 5, 0
    responses[1, 1, 0] = 1
    shown = show_planes(responses)
    assert shown[:, 0, 0].tolist() == [0, 255, 0]
    assert (shown[0, 1, 1], shown[0, 2, 2]) == (191, 128)
    sheet = contact_sheet(show_planes(np.zeros((10, 10, 5), np.float32)))
    assert sheet.shape == (3 * 14 - 4, 2 * 14 - 4)
    assert (sheet[10:14] == 255).all()
    with pytest.raises(InputError, match="the shape is"):
        show_planes(responses[0])
