import numpy as np
import pytest
from tests.vision.made_raw import dng

from smlstm.vision import UnreadablePhoto, decode_photo
from smlstm.vision.pixels import decode_here


def test_a_raw_photo_is_developed():
    pytest.importorskip("rawpy")
    photo = decode_photo(dng(), at_least=64)
    assert photo.mode == "RGB"
    assert min(photo.size) >= 64
    red, green, blue = np.asarray(photo, float)[20:-20, 10:70].mean((0, 1))
    assert red > green
    assert red > blue


def test_the_limit_holds_for_raw_photos():
    pytest.importorskip("rawpy")
    with pytest.raises(UnreadablePhoto, match="over the limit"):
        decode_photo(dng(), limit_megapixels=0.01)


def test_a_damaged_raw_photo_is_refused():
    pytest.importorskip("rawpy")
    with pytest.raises(UnreadablePhoto):
        decode_photo(dng()[:2000])
    with pytest.raises(UnreadablePhoto):
        decode_photo(b"FUJIFILMCCD-RAW 0201 and nothing that follows")


def test_the_extra_is_named_where_it_is_missing(monkeypatch):
    monkeypatch.setattr("smlstm.vision.raw.import_module", lambda name: (_ for _ in ()).throw(ImportError(name)))
    with pytest.raises(UnreadablePhoto, match=r"smlstm\[raw\]"):
        decode_here("TIFF", dng(), "photo.dng", None, 100)
