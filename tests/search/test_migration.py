import json

import numpy as np
import pyarrow as pa
import pytest
import torch

from smlstm.errors import InputError
from smlstm.search import Library
from smlstm.search.lance_table import Table, checksum, matrix, photo_schema, rows_of_lists
from smlstm.search.manifest import Manifest, read_manifest, write_manifest
from smlstm.search.packing import _tensors


def write_as_format_1(library: Library) -> None:
    """Turn a library into what the first version wrote: one table, regions in float16."""
    new, packing = library.photos, library.packing
    schema = photo_schema(library.pair.shortlist.config.sentence_width, packing.old_width)
    rows = new.read(new.schema.names)
    parts = [tensor.flatten(1).half().numpy() for tensor in _tensors(packing.unpack(matrix(rows["regions"])))]
    regions = np.concatenate([part.view(np.uint8) for part in parts], axis=1)
    sums = [checksum(vector, region) for vector, region in zip(matrix(rows["embedding"]), regions, strict=True)]
    rows = rows.set_column(2, schema.field("regions"), rows_of_lists(regions))
    rows = rows.set_column(6, schema.field("checksum"), pa.array(sums, pa.int64()))
    Table(library.folder / f"photos-{library.pair.digest[:16]}.lance", schema, 100).append(rows)
    new.drop()
    manifest = read_manifest(library.folder)
    manifest.format = 1
    write_manifest(library.folder, manifest)


def test_a_library_of_format_1_is_rewritten_without_looking_at_a_photo(library, photos, pair):
    library.index(photos)
    before = [(match.path, match.scores) for match in library.search("a red circle")]
    write_as_format_1(library)
    again = Library(library.folder, model=pair, runtime="torch")
    after = [(match.path, match.scores) for match in again.search("a red circle")]
    assert [path for path, _ in after] == [path for path, _ in before]
    assert torch.allclose(torch.tensor([s for _, s in after]), torch.tensor([s for _, s in before]), atol=1e-2)
    assert again.index(photos).extracted == 0 and "extractor" not in again.photo_reader.__dict__
    assert json.loads((library.folder / "library.json").read_text())["format"] == 2
    assert [path.name for path in library.folder.glob("photos-*")] == [again.photos.path.name]


def test_a_newer_format_is_refused(library, photos):
    library.index(photos)
    write_manifest(library.folder, Manifest(3, library.manifest.folders))
    for use in (lambda: library.index(photos), lambda: library.search("a dog")):
        with pytest.raises(InputError, match="written by a newer smlstm"):
            use()
