import torch

from smlstm.search.prepared import PreparedPhoto, PreparedPhotos
from tests.scoring.made import features


def photo(number):
    return PreparedPhoto(torch.full((1, 4), float(number)), features(1))


def numbers(found):
    return found.vector[:, 0].tolist()


def test_photos_come_in_order_and_are_read_once():
    kept, read = PreparedPhotos(), []

    def reader(contents):
        def give(places):
            read.extend(contents[place] for place in places)
            return [photo(contents[place]) for place in places]

        return give

    for contents in ([3, 1, 2], [2, 5, 3], [5]):
        assert numbers(kept.get(contents, reader(contents))) == contents
    assert read == [3, 1, 2, 5]


def test_no_more_is_kept_than_there_is_room_for():
    size = PreparedPhotos()
    size.get([1], lambda _: [photo(1)])
    room = int(size._kept.currsize)
    kept = PreparedPhotos(2 * room)
    contents = list(range(10))
    assert numbers(kept.get(contents, lambda places: map(photo, places))) == contents
    assert len(kept._kept) == 2
    tiny = PreparedPhotos(room - 1)
    assert numbers(tiny.get([7], lambda _: [photo(7)])) == [7]
    assert not tiny._kept
