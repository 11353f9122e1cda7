"""Libraries of older formats, brought to the present one without looking at a photo again.

| format | photos are stored |
|---|---|
| 1 | in `photos-MODEL.lance`, regions in float16 |
| 2 | in `photos-MODEL.2.lance`, regions as bytes (see `packing.py`) |

A table of photos can be rewritten only by who has its model, so each is brought up to date when its model is next used.
The new table appears when it is complete, and the old one is deleted after that.
"""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from smlstm.search.lance_table import Table, checksum, matrix, photo_schema, rows_of_lists
from smlstm.search.manifest import FORMAT, Manifest, read_manifest, write_manifest

if TYPE_CHECKING:
    from smlstm.search.packing import Packing

_ROWS_AT_A_TIME = 256
_log = logging.getLogger(__name__)


def is_outdated(library: Path, digest: str) -> bool:
    """Whether a model's photos are stored in an older format."""
    return Table(_old_path(library, digest), pa.schema([]), 1).exists


def _old_path(library: Path, digest: str) -> Path:
    return library / f"photos-{digest[:16]}.lance"


def drop_outdated(library: Path, digest: str) -> None:
    """Delete a model's photos of an older format."""
    Table(_old_path(library, digest), pa.schema([]), 1).drop()


def migrate(library: Path, digest: str, new: Table, packing: "Packing") -> None:
    """Rewrite a model's photos in their place; only for who holds the library's lock."""
    rewrite(library, digest, new, packing)
    manifest = read_manifest(library) or Manifest()
    manifest.format = FORMAT
    write_manifest(library, manifest)
    Table(_old_path(library, digest), pa.schema([]), 1).drop()


def rewrite(library: Path, digest: str, new: Table, packing: "Packing") -> None:
    """Write a model's photos into a table of the present format."""
    old = Table(_old_path(library, digest), pa.schema([]), 1)
    _log.warning("%s: rewriting %d photos for format %d, once", library, len(old), FORMAT)
    width = new.schema.field("embedding").type.list_size
    old.schema = photo_schema(width, packing.old_width)

    def rewritten() -> Iterator[pa.RecordBatch]:
        for batch in old.batches(old.schema.names, _ROWS_AT_A_TIME):
            table = pa.Table.from_batches([batch])
            vectors = matrix(table["embedding"])
            regions = packing.pack(packing.unpack_old(matrix(table["regions"])))
            sums = [checksum(vector, region) for vector, region in zip(vectors, regions, strict=True)]
            table = table.set_column(2, new.schema.field("regions"), rows_of_lists(regions))
            table = table.set_column(6, new.schema.field("checksum"), pa.array(sums, pa.int64()))
            yield from table.cast(new.schema).combine_chunks().to_batches()

    new.replace(rewritten())
