import errno
import io
import os
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageCms, ImageFile

from smlstm.errors import InputError
from smlstm.vision import UnreachablePhoto, UnreadablePhoto, decode_photo, read_photo
from smlstm.vision.pixels import _quiet


def encoded(image: Image.Image, form: str, **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, form, **options)
    return buffer.getvalue()


def assert_alike(found: Image.Image, expected: Image.Image, tolerance: float = 6.0) -> None:
    assert found.mode == "RGB"
    assert found.size == expected.size
    distance = np.abs(np.asarray(found, float) - np.asarray(expected.convert("RGB"), float)).mean()
    assert distance < tolerance


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "AVIF", "GIF", "BMP", "TIFF"])
def test_every_format_is_read_whatever_the_file_is_called(form, scene, tmp_path):
    path = tmp_path / "photo.txt"
    path.write_bytes(encoded(scene, form))
    assert_alike(read_photo(path), scene, 12.0)


def test_heic_is_read_with_the_extra(scene):
    heif = pytest.importorskip("pillow_heif")
    buffer = io.BytesIO()
    heif.from_pillow(scene).save(buffer, quality=95)
    assert_alike(decode_photo(buffer.getvalue()), scene, 12.0)


def test_heic_needs_no_global_registration(scene):
    pytest.importorskip("pillow_heif")
    assert "HEIF" not in Image.OPEN


def test_a_missing_extra_is_named(scene, monkeypatch):
    heif = pytest.importorskip("pillow_heif")
    buffer = io.BytesIO()
    heif.from_pillow(scene).save(buffer)
    monkeypatch.setattr("smlstm.vision.formats.import_module", lambda name: (_ for _ in ()).throw(ImportError(name)))
    with pytest.raises(UnreadablePhoto, match=r"smlstm\[heic\]"):
        decode_photo(buffer.getvalue())


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "TIFF", "AVIF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied(form, orientation, scene):
    stored = {1: None, 2: 0, 3: 3, 4: 1, 5: 5, 6: 2, 7: 6, 8: 4}[orientation]  # the inverse turn of each
    turned = scene if stored is None else scene.transpose(Image.Transpose(stored))
    exif = Image.Exif()
    exif[0x0112] = orientation
    assert_alike(decode_photo(encoded(turned, form, exif=exif)), scene, 12.0)


def test_a_damaged_exif_block_does_not_lose_the_photo(scene):
    data = encoded(scene, "JPEG", exif=b"Exif\x00\x00MM\x00*\xff\xff\xff\xff broken")
    assert_alike(decode_photo(data), scene)


@pytest.mark.parametrize("form", ["PNG", "TIFF"])
def test_sixteen_bits_are_scaled_not_clipped(form):
    ramp = np.linspace(0, 65535, 64, dtype=np.uint16)[None].repeat(8, 0)
    found = np.asarray(decode_photo(encoded(Image.fromarray(ramp), form)))[0, :, 0]
    assert np.abs(found - ramp[0] / 257).max() <= 1


def test_sixteen_bit_big_endian_tiff():
    ramp = np.linspace(0, 65535, 64, dtype=">u2")[None].repeat(8, 0)
    found = np.asarray(decode_photo(encoded(Image.frombytes("I;16B", (64, 8), ramp.tobytes()), "TIFF")))[0, :, 0]
    assert np.abs(found - ramp[0].astype(float) / 257).max() <= 1


def test_wide_integers_and_floats_reach_from_black_to_white():
    for samples in (
        np.linspace(-5e8, 2e9, 64).astype(np.int32),
        np.linspace(0, 1, 64).astype(np.float32),
        np.linspace(-3, 900, 64).astype(np.float32),
    ):
        found = np.asarray(decode_photo(encoded(Image.fromarray(samples[None].repeat(8, 0)), "TIFF")))[0, :, 0]
        assert found[0] == 0
        assert found[-1] == 255
        assert (np.diff(found.astype(int)) >= 0).all()


def test_floats_that_are_not_numbers_are_black():
    samples = np.full((8, 8), np.nan, np.float32)
    samples[:, 4:] = 1.0
    found = np.asarray(decode_photo(encoded(Image.fromarray(samples), "TIFF")))
    assert found[0, 0, 0] == 0
    assert found[0, -1, 0] == 255


@pytest.mark.parametrize("mode", ["1", "L", "P"])
@pytest.mark.parametrize("form", ["PNG", "GIF", "TIFF", "BMP"])
def test_greyscale_and_palettes(mode, form, scene):
    image = scene.convert(mode)
    assert_alike(decode_photo(encoded(image, form)), image, 1.0)


def test_cmyk_jpeg(scene):
    assert_alike(decode_photo(encoded(scene.convert("CMYK"), "JPEG", quality=95)), scene)


def test_lab_tiff(scene):
    lab = ImageCms.profileToProfile(
        scene, ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB"), outputMode="LAB"
    )
    assert_alike(decode_photo(encoded(lab, "TIFF")), scene)


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
@pytest.mark.parametrize("form", ["PNG", "WEBP"])
def test_alpha_is_laid_over_white(mode, form):
    if (mode, form) == ("LA", "WEBP"):
        pytest.skip("WebP has no grey with alpha")
    image = Image.new("RGBA", (16, 16), (0, 0, 0, 0)).convert(mode)
    image.paste(Image.new("RGBA", (8, 16), (10, 10, 10, 255)).convert(mode), (0, 0))
    found = np.asarray(decode_photo(encoded(image, form, **({"lossless": True} if form == "WEBP" else {}))))
    assert (found[:, :8] == 10).all()
    assert (found[:, 8:] == 255).all()


@pytest.mark.parametrize("transparency", [1, bytes([255, 0])])
def test_a_transparent_palette_entry_is_white(transparency):
    image = Image.new("P", (16, 16), 0)
    image.putpalette([10, 20, 30, 40, 50, 60])
    image.paste(1, (8, 0, 16, 16))
    found = np.asarray(decode_photo(encoded(image, "PNG", transparency=transparency)))
    assert (found[:, :8] == (10, 20, 30)).all()
    assert (found[:, 8:] == 255).all()


def test_a_transparent_colour_of_an_rgb_png_is_white():
    image = Image.new("RGB", (8, 8), (1, 2, 3))
    assert (np.asarray(decode_photo(encoded(image, "PNG", transparency=(1, 2, 3)))) == 255).all()


@pytest.mark.parametrize("form", ["GIF", "PNG", "WEBP", "TIFF", "AVIF"])
def test_an_animation_gives_its_first_frame(form, scene):
    other = Image.new("RGB", scene.size, (255, 0, 255))
    data = encoded(scene, form, save_all=True, append_images=[other] * 3)
    assert_alike(decode_photo(data), scene, 12.0)


def test_a_large_jpeg_is_decoded_at_a_fraction_of_its_size_but_not_below_what_is_wanted():
    image = Image.effect_noise((1600, 1200), 40).convert("RGB")
    data = encoded(image, "JPEG")
    assert decode_photo(data).size == (1600, 1200)
    assert decode_photo(data, at_least=100).size == (400, 300)
    assert min(decode_photo(data, at_least=224).size) >= 448


def test_the_limit_is_checked_before_pixels_and_names_its_flag(tmp_path):
    path = tmp_path / "large.png"
    path.write_bytes(encoded(Image.new("1", (4000, 3000)), "PNG"))
    with pytest.raises(UnreadablePhoto, match="4000 x 3000 pixels are over the limit of 10 megapixels") as caught:
        read_photo(path, limit_megapixels=10)
    assert "--limit-megapixels" in str(caught.value)
    assert str(path) in str(caught.value)
    assert read_photo(path, limit_megapixels=12).size == (4000, 3000)


def test_the_limit_holds_without_decoding_a_pixel(monkeypatch):
    monkeypatch.setattr(ImageFile.ImageFile, "load", lambda self: pytest.fail("pixels were decoded"))
    for form in ("JPEG", "PNG", "GIF", "BMP", "TIFF"):
        with pytest.raises(UnreadablePhoto, match="over the limit"):
            decode_photo(encoded_without_load(form), limit_megapixels=0.001)


def encoded_without_load(form: str) -> bytes:
    buffer = io.BytesIO()
    Image.new("L", (64, 64)).save(buffer, form)
    return buffer.getvalue()


@pytest.mark.parametrize("size", [(9500, 9500), (20000, 20000)])
def test_pillows_own_limit_neither_warns_nor_leaks(size):
    data = encoded(Image.new("1", size), "PNG")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if size[0] ** 2 > 100e6:
            with pytest.raises(UnreadablePhoto, match="over the limit of 100 megapixels"):
                decode_photo(data)
        else:
            assert decode_photo(data).size == size


def test_a_gif_that_grows_past_the_limit_on_reading():
    data = bytearray(encoded(Image.new("L", (16, 16)), "GIF"))
    frame = data.index(b"\x2c", 13)
    data[frame + 5 : frame + 9] = b"\xff\xff\xff\xff"  # a frame of 65535 x 65535 on a canvas of 16 x 16
    with pytest.raises(UnreadablePhoto, match="over the limit"):
        decode_photo(bytes(data))


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "AVIF", "GIF", "BMP", "TIFF"])
def test_a_truncated_file_is_refused(form, tmp_path):
    noise = Image.effect_noise((200, 150), 60).convert("RGB")
    path = tmp_path / f"cut.{form.lower()}"
    data = encoded(noise, form)
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(UnreadablePhoto) as caught:
        read_photo(path)
    assert str(caught.value).startswith(f"cannot read photo {path}: ")
    assert caught.value.path == str(path)
    assert caught.value.reason


def test_refusals_say_what_is_wrong(tmp_path):
    empty, text, page = tmp_path / "empty.jpg", tmp_path / "text.jpg", tmp_path / "page.png"
    empty.touch()
    text.write_text("this is not a photo\n" * 50)
    page.write_text("<!DOCTYPE html><title>404</title>")
    for path, reason in (
        (empty, "the file is empty"),
        (text, "not in a format that is read here"),
        (page, "not in a format that is read here"),
        (tmp_path, "not a regular file"),
    ):
        with pytest.raises(UnreadablePhoto, match=reason) as caught:
            read_photo(path)
        assert isinstance(caught.value, InputError)
        # What stands in a photo's place now says nothing about the photo.
        assert isinstance(caught.value, UnreachablePhoto) == (path == tmp_path)
        assert str(path) in str(caught.value)


@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES, errno.ESTALE, errno.ENOENT])
def test_what_the_disk_says_is_not_held_against_the_photo(code, tmp_path, scene, monkeypatch):
    path = tmp_path / "photo.png"
    path.write_bytes(encoded(scene, "PNG"))

    def failing(name, *_, **__):
        raise OSError(code, os.strerror(code), str(name))

    with monkeypatch.context() as patch:
        patch.setattr("smlstm.vision.reading.open", failing, raising=False)
        with pytest.raises(UnreachablePhoto):
            read_photo(path)
    assert_alike(read_photo(path), scene)


def test_a_photo_that_is_not_there_is_not_reachable(tmp_path):
    with pytest.raises(UnreachablePhoto, match="there is no such file"):
        read_photo(tmp_path / "absent.jpg")


def test_a_path_that_no_system_takes_is_refused():
    with pytest.raises(UnreadablePhoto):
        read_photo("a\0b.jpg")


def test_a_pipe_does_not_hang(tmp_path):
    pipe = tmp_path / "pipe.jpg"
    os.mkfifo(pipe)
    with pytest.raises(UnreadablePhoto, match="not a regular file"):
        read_photo(pipe)


def test_postscript_and_other_formats_of_pillow_stay_closed(scene):
    for form in ("EPS", "PPM", "ICO", "TGA", "PDF"):
        with pytest.raises(UnreadablePhoto, match="not in a format"):
            decode_photo(encoded(scene, form))


def test_a_file_far_larger_than_any_photo_within_the_limit_is_refused(tmp_path):
    path = tmp_path / "sparse.webp"
    path.write_bytes(b"RIFF\xff\xff\xff\xffWEBPVP8X")
    os.truncate(path, 2 * 10**9)
    with pytest.raises(UnreadablePhoto, match=r"2000 MB.*--limit-megapixels"):
        read_photo(path)


def test_the_warning_filters_are_as_before_after_many_threads_decoded(scene):
    data = encoded(scene, "PNG")
    before = list(warnings.filters)
    threads = [threading.Thread(target=lambda: [decode_photo(data) for _ in range(50)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert warnings.filters == before
    with _quiet(), _quiet():
        pass
    assert warnings.filters == before


def test_real_photos_are_read_as_pillow_reads_them(real_photos: list[Path]):
    for path in real_photos:
        with Image.open(path) as image:
            assert np.array_equal(np.asarray(read_photo(path)), np.asarray(image.convert("RGB")))
