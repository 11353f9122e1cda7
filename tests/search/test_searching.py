import io
from datetime import datetime

import numpy as np
import pytest
import torch
from PIL import Image, ImageFile

from smlstm.errors import InputError
from smlstm.matching.batch import ImageFeatures
from smlstm.search import Filter, Library
from smlstm.search.nearest import exact
from smlstm.search.query import Term, log_probability, parse_term
from smlstm.vision.photo_header import About, about_photo
from tests.search.made import CALIBRATION, draw, jpeg

RED = "a red circle above a blue square"


def features_of(library: Library, paths) -> ImageFeatures:
    return ImageFeatures.from_numpy(*library.photo_reader.read(paths))


def test_results_are_those_of_the_models_themselves(library, photos):
    library.index(photos)
    paths = sorted(photos.iterdir())
    features = features_of(library, paths)
    with torch.inference_mode():
        reranker = library.pair.reranker
        scores = reranker.score(reranker.encode_images(features), reranker.encode_sentences([RED]))[:, 0]
        shortlist = library.pair.shortlist
        cosines = shortlist.score(shortlist.encode_images(features), shortlist.encode_sentences([RED]))[:, 0]
    found = library.search(RED)
    order = [paths.index(match.path) for match in found]
    assert order == scores.argsort(descending=True).tolist()
    for match, place in zip(found, order, strict=True):
        assert match.scores[0] == pytest.approx(float(scores[place]), abs=2e-3)
        assert match.probability == pytest.approx(CALIBRATION.probability(match.scores[0], RED))
        assert match.similarity == pytest.approx(float(cosines[place]), abs=2e-3)


def test_the_shortlist_bounds_what_is_looked_at_closely(library, photos):
    library.index(photos)
    by_vector = library.search(RED, shortlist=0)
    assert all(match.probability is None for match in by_vector)
    assert {match.path for match in library.search(RED, k=2, shortlist=3)} < {match.path for match in by_vector[:3]}
    assert len(library.search(RED, k=5, shortlist=3)) == 5


def test_parts_of_a_shortlist_have_no_photo_twice_or_never(library, photos):
    library.index(photos)
    parts = [library.search(RED, shortlist=6, part=part) for part in ((0, 2), (2, 5), (5, 6), (6, 9))]
    assert [len(part) for part in parts] == [2, 3, 1, 0] and all(part.searched == 6 for part in parts)
    least = [min(match.similarity for match in part) for part in parts[:3]]
    assert least == sorted(least, reverse=True)
    assert {match.path for part in parts for match in part} == {match.path for match in library.search(RED)}


def test_a_floor_can_leave_nothing(library, photos):
    library.index(photos)
    all_of_them = library.search(RED)
    middle = all_of_them[2].probability
    assert [match.path for match in library.search(RED, minimum=middle)] == [match.path for match in all_of_them[:3]]
    nothing = library.search(RED, minimum=1.0)
    assert len(nothing) == 0 and nothing.searched == 6


def test_filters_by_date_folder_and_path(library, tmp_path):
    photos = tmp_path / "photos"
    (photos / "trip").mkdir(parents=True)
    (photos / "trip" / "Old.jpg").write_bytes(jpeg("2019:07:01 12:00:00", "red"))
    (photos / "new.jpg").write_bytes(jpeg("2024:05:01 10:00:00", "blue"))
    (photos / "undated.jpg").write_bytes(jpeg(None, "green"))  # by the file's own time: today
    library.index(photos)

    def names(**fields) -> set[str]:
        return {match.path.name for match in library.search(RED, chosen=Filter(**fields))}

    assert names() == {"Old.jpg", "new.jpg", "undated.jpg"}
    assert names(since=datetime(2024, 5, 1)) == {"new.jpg", "undated.jpg"}
    assert names(until=datetime(2024, 5, 1)) == {"Old.jpg"}
    assert names(since=datetime(2024, 5, 1), until=datetime(2024, 5, 2)) == {"new.jpg"}
    assert names(folders=(str(photos / "trip"),)) == {"Old.jpg"}
    assert names(folders=(str(photos / "tri"),)) == set()
    assert names(paths=("old.j",)) == {"Old.jpg"}
    assert names(paths=("trip/*",)) == {"Old.jpg"}
    assert names(paths=("*.jpg",)) == {"Old.jpg", "new.jpg", "undated.jpg"}
    assert names(paths=("n?w.jpg", "old.j")) == {"Old.jpg", "new.jpg"}
    assert names(paths=("ew.jp*",)) == set()


def test_a_filtered_copy_stands_for_its_photo(library, tmp_path):
    for name in ("a", "b"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        (tmp_path / "photos" / name / "x.jpg").write_bytes(jpeg())
    library.index(tmp_path / "photos")
    (match,) = library.search(RED, chosen=Filter(paths=("/b/",)))
    assert match.path == tmp_path / "photos" / "b" / "x.jpg" and match.copies == ()


def test_similar_photos_of_the_library_need_no_cnn_and_others_do(library, photos, tmp_path, pair):
    library.index(photos)
    again = Library(library.folder, model=pair, runtime="torch")
    first = again.search(similar=photos / "002.png")
    assert first[0].path == photos / "002.png" and first[0].similarity == pytest.approx(1, abs=1e-2)
    assert first[0].probability is None
    assert "extractor" not in again.photo_reader.__dict__
    stranger = draw(tmp_path / "elsewhere", 1, seed=77)[0]
    assert len(again.search(similar=stranger)) == 6
    assert "extractor" in again.photo_reader.__dict__
    # With a sentence: of the most similar ones, those that fit it best.
    assert {match.path for match in again.search(RED, similar=photos / "002.png", k=2, shortlist=3)} < {
        match.path for match in first[:3]
    }


def test_minus_and_weights_change_the_order_as_defined(library, photos):
    library.index(photos)
    alone = {match.path: match.probability for match in library.search(RED)}
    stars = {match.path: match.probability for match in library.search("two yellow stars")}
    found = library.search(RED, plus=["0.5:two yellow stars"])
    expected = {path: alone[path] * stars[path] ** 0.5 for path in alone}
    assert [match.path for match in found] == sorted(expected, key=expected.__getitem__, reverse=True)
    assert found[0].probability == pytest.approx(expected[found[0].path], rel=1e-3)
    found = library.search(RED, minus=["two yellow stars"])
    assert found[0].probability == pytest.approx(alone[found[0].path] * (1 - stars[found[0].path]), rel=1e-3)


def test_certain_misses_cost_nothing():
    odds = torch.tensor([[0.0, -50.0], [0.0, 50.0]], dtype=torch.float64)
    logs = log_probability([Term("a"), Term("b", -1)], odds)
    assert logs[0].exp() == pytest.approx(0.5) and logs[1] == pytest.approx(-50, abs=1)


@pytest.mark.parametrize(
    ("text", "sentence", "weight"),
    [("a dog", "a dog", 1), ("2:a dog", "a dog", 2), (" .5 : a dog", "a dog", 0.5), ("at 7:30", "at 7:30", 1)],
)
def test_terms_are_read(text, sentence, weight):
    assert parse_term(text) == Term(sentence, weight)


@pytest.mark.parametrize("text", ["", "...", "2:", "0:a dog", "1000:a dog"])
def test_terms_without_words_or_with_odd_weights_are_refused(text):
    with pytest.raises(InputError, match="has no words|weight"):
        parse_term(text)


def test_unknown_words_are_told(library, photos):
    library.index(photos)
    assert library.search("a red zebra").unknown == ("zebra",)


def test_misspelt_words_are_read_as_what_was_meant(library, photos):
    library.index(photos)
    typed, meant = library.search("a red cirlce"), library.search("a red circle")
    assert typed.read_as == {"cirlce": "circle"} and typed.unknown == () and meant.read_as == {}
    assert typed.matches == meant.matches


def test_nothing_asked_for_is_refused(library, photos):
    for asked in (dict(), dict(minus=["a dog"]), dict(sentence=RED, k=0)):
        with pytest.raises(InputError):
            library.search(**asked)


def test_an_empty_library_finds_nothing(library):
    assert len(library.search(RED)) == 0


def test_exact_search_is_a_sort_by_cosine():
    generator = np.random.default_rng(0)
    vectors = generator.standard_normal((50, 4)).astype(np.float32)
    query, allowed = vectors[3], generator.random(50) < 0.5
    rows, cosines = exact(vectors, query, allowed, 7)
    expected = sorted(np.flatnonzero(allowed), key=lambda row: -float(vectors[row] @ query))[:7]
    assert rows.tolist() == expected
    assert cosines.tolist() == pytest.approx([float(vectors[row] @ query) for row in expected])


def test_a_large_library_is_searched_by_its_index(tmp_path, pair, photos):
    library = Library(tmp_path / "library", model=pair, runtime="torch", exact_below=5)
    library.index(photos)
    exactly = Library(library.folder, model=pair)
    assert [index.name for index in library.photos.dataset.describe_indices()] == ["embedding_idx"]
    for asked in (dict(), dict(chosen=Filter(paths=("00[1-3].png",))), dict(k=2)):
        by_index, expected = library.search(RED, **asked), exactly.search(RED, **asked)
        assert [match.path for match in by_index] == [match.path for match in expected]
    draw(photos / "later", 3, seed=4)  # too few for a new index: looked through all the same
    library.index(photos)
    assert len(library.search(RED, k=20)) == 9


@pytest.mark.parametrize("late", [False, True])
def test_a_png_tells_size_and_date_without_a_pixel_decoded(late, monkeypatch):
    exif, file = Image.Exif(), io.BytesIO()
    exif[0x0132] = "2024:05:01 10:20:30"
    Image.new("RGB", (60, 40)).save(file, "PNG", exif=exif)
    data = file.getvalue()
    if late:  # behind the pixels
        begin = data.index(b"eXIf") - 4
        end = begin + 12 + int.from_bytes(data[begin : begin + 4], "big")
        data = data[:begin] + data[end:-12] + data[begin:end] + data[-12:]
    monkeypatch.setattr(ImageFile.ImageFile, "load", lambda self: pytest.fail("pixels were decoded"))
    assert about_photo(data) == About(60, 40, datetime(2024, 5, 1, 10, 20, 30))


def test_headers_tell_size_and_date():
    about = about_photo(jpeg("2024:05:01 10:20:30", size=(60, 40), turned=6))
    assert (about.width, about.height, about.taken) == (40, 60, datetime(2024, 5, 1, 10, 20, 30))
    for content in (b"", b"\xff\xd8\xff" + bytes(50), b"hello"):
        assert about_photo(content) == About()
    undated = about_photo(jpeg("0000:00:00 00:00:00"))
    assert undated.taken is None and undated.width == 60
