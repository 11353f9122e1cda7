"""Bringing a library in step with its folders: what is known by its content is never extracted again."""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch

from smlstm.matching.batch import ImageFeatures
from smlstm.pair import Pair
from smlstm.search.changes import Plan, Seen
from smlstm.search.lance_table import FILES, Table, checksum, content_in, content_of, file_id, rows_of_lists
from smlstm.search.packing import Packing
from smlstm.vision.extract import ExtractedBatch, Extractor, Skipped

PHOTOS_PER_COMMIT = 64
FILES_PER_COMMIT = 2000
SECONDS_PER_COMMIT = 10.0


@dataclass
class Outcome:
    """What indexing has done so far; `done` of `total` files are through."""

    total: int = 0
    done: int = 0
    new: int = 0
    """Files that were new, and whose photo was too."""
    changed: int = 0
    moved: int = 0
    """Known photos at a new path, whose old file is no longer there."""
    duplicates: int = 0
    """Known photos at a new path, which another file has too."""
    returned: int = 0
    """Known photos at a new path, which no file had any more."""
    deleted: int = 0
    unchanged: int = 0
    extracted: int = 0
    """Photos that went through the CNN."""
    skipped: list[Skipped] = field(default_factory=list)
    """Files that cannot be used, and why."""
    unreachable: list[Skipped] = field(default_factory=list)
    """Files that cannot be reached now, and why: what is known of them is kept, and the next run looks again."""
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """As `--json` prints it."""
        content = asdict(self)
        for name in ("skipped", "unreachable"):
            content[name] = [{"path": each.path, "reason": each.reason} for each in getattr(self, name)]
        return content


Watch = Callable[[Outcome], None]


class Indexer:
    """Carries a plan out. What is committed stays: killed at any moment, the next run continues."""

    def __init__(
        self, files: Table, photos: Table, pair: Pair, packing: Packing, extractor: Callable[[], Extractor]
    ) -> None:
        self.files, self.photos, self.pair, self.packing = files, photos, pair, packing
        self.extractor = extractor
        self.outcome = Outcome()
        self._known: set[int] = set()
        self._bad: dict[int, str] = {}
        self._seen: dict[str, tuple[Seen, int]] = {}
        self._under_way: dict[int, list[Seen]] = {}
        self._again: list[Seen] = []
        self._file_rows: list[dict[str, Any]] = []
        self._photo_rows: list[pa.Table] = []
        self._committed = time.monotonic()

    def run(self, plan: Plan, known: set[int], watch: Watch | None = None) -> Outcome:
        """Do all that the plan asks for; `known` are the contents of the photos that are stored."""
        start = time.monotonic()
        outcome = self.outcome = Outcome(total=len(plan.todo), unchanged=plan.unchanged, notes=list(plan.notes))
        outcome.unreachable = [Skipped(path, path, reason) for path, reason in plan.unreachable.items()]
        self._known, self._watch, self._plan = known, watch, plan
        self._gone = Counter(plan.gone.values())
        self.files.delete("file", plan.gone)
        self._extract(self._unknown(plan))
        while self._again:
            again, self._again = self._again, []
            self._extract(iter(again))
        self._commit()
        outcome.deleted = len(plan.gone) - outcome.moved
        outcome.seconds = round(time.monotonic() - start, 3)
        self._tell()
        return outcome

    def _extract(self, unknown: Iterator[Seen]) -> None:
        first = next(unknown, None)
        if first is None:  # the CNN is loaded only when there is something for it to see
            return
        photos = ((each.path, Path(each.path)) for each in chain([first], unknown))
        with closing(self.extractor().extract(photos)) as batches:
            for batch in batches:
                self._store(batch)

    def _unknown(self, plan: Plan) -> Iterator[Seen]:
        """Give what must go through the CNN; all else is settled on the way."""
        for seen in plan.todo:
            content = self._content(seen)
            if content is None:
                continue
            if content in self._known:
                self._settle(seen, content)
            elif content in self._bad:
                self._refuse(seen, content, self._bad[content])
            elif content in self._under_way:
                self._under_way[content].append(seen)
            else:
                self._under_way[content] = []
                self._seen[seen.path] = (seen, content)
                yield seen
            self._commit_sometimes()

    def _send_a_twin(self, content: int) -> None:
        """A file with some content was to be looked at, and had it no more: another one takes its place."""
        twins = self._under_way.pop(content)
        if content in self._known:
            for twin in twins:
                self._settle(twin, content)
        elif twins:
            self._under_way[content] = twins[1:]
            self._seen[twins[0].path] = (twins[0], content)
            self._again.append(twins[0])

    def _content(self, seen: Seen) -> int | None:
        if not seen.regular:
            self._refuse(seen, 0, "it is not a regular file")
            return None
        try:
            return content_of(Path(seen.path))
        except OSError as error:
            self._leave(seen, error.strerror or str(error))
            return None

    def _store(self, batch: ExtractedBatch) -> None:
        contents = list(map(content_in, batch.sources))  # what was decoded, should a file have changed since
        fresh = [place for place, content in enumerate(contents) if self._is_fresh(content)]
        if fresh:
            self._photo_rows.append(self._encode(batch, fresh))
        for place, (path, content) in enumerate(zip(batch.keys, contents, strict=True)):
            seen, expected = self._seen.pop(path)
            self.outcome.extracted += 1
            self._settle(seen, content, extracted=place in fresh)
            self._send_a_twin(expected)
        for skipped in batch.skipped:
            self._pass_over(skipped)
        self._commit_sometimes()

    def _is_fresh(self, content: int) -> bool:
        """Whether a photo is not stored yet; from now on it is."""
        known = content in self._known
        self._known.add(content)
        return not known

    def _pass_over(self, skipped: Skipped) -> None:
        """Blame what was read, if anything was; its twins are no worse than that."""
        seen, expected = self._seen.pop(skipped.path)
        content = content_in(skipped.source) if skipped.source is not None else None
        if skipped.unreachable:
            self._leave(seen, skipped.reason)
        else:
            self._refuse(seen, expected if content is None else content, skipped.reason)
            if content is not None:
                self._bad[content] = skipped.reason
        if expected in self._bad:
            for twin in self._under_way.pop(expected):
                self._refuse(twin, expected, self._bad[expected])
        else:
            self._send_a_twin(expected)

    def _encode(self, batch: ExtractedBatch, chosen: list[int]) -> pa.Table:
        features = ImageFeatures(torch.from_numpy(batch.regions[chosen]), torch.from_numpy(batch.context[chosen]))
        with torch.inference_mode():
            found, images = self.pair.encode_images(features)
            vectors, regions = found.to(torch.float16).numpy(), self.packing.pack(images)
        contents = [content_in(batch.sources[place]) for place in chosen]
        return photo_table(self.photos.schema, contents, vectors, regions, [batch.abouts[place] for place in chosen])

    def _settle(self, seen: Seen, content: int, extracted: bool = False) -> None:
        """A file whose photo is stored, or will be with this very commit."""
        outcome = self.outcome
        if seen.known is not None:
            outcome.changed += seen.known != content
            outcome.unchanged += seen.known == content and not extracted
        elif extracted:
            outcome.new += 1
        elif self._gone[content]:
            self._gone[content] -= 1
            outcome.moved += 1
        elif content in self._plan.contents:
            outcome.duplicates += 1
        else:
            outcome.returned += 1
        self._plan.contents.add(content)
        self._row(seen, content, None)

    def _refuse(self, seen: Seen, content: int, reason: str) -> None:
        self.outcome.skipped.append(Skipped(seen.path, seen.path, reason))
        self._row(seen, content, reason)

    def _leave(self, seen: Seen, reason: str) -> None:
        """A file that cannot be reached now: what is known of it stays as it is."""
        self.outcome.unreachable.append(Skipped(seen.path, seen.path, reason))
        if seen.known is not None:
            self._plan.contents.add(seen.known)
        self.outcome.done += 1
        self._tell()

    def _row(self, seen: Seen, content: int, reason: str | None) -> None:
        row = {"file": file_id(seen.path), "path": os.fsencode(seen.path), "size": seen.size, "modified": seen.modified}
        self._file_rows.append({**row, "content": content, "reason": reason, "known": seen.known is not None})
        self.outcome.done += 1
        self._tell()

    def _tell(self) -> None:
        if self._watch is not None:
            self._watch(self.outcome)

    def _commit_sometimes(self) -> None:
        many = sum(map(len, self._photo_rows)) >= PHOTOS_PER_COMMIT or len(self._file_rows) >= FILES_PER_COMMIT
        if many or time.monotonic() - self._committed > SECONDS_PER_COMMIT:
            self._commit()

    def _commit(self) -> None:
        """Photos first: a file must never name a photo that is not there."""
        if self._photo_rows:
            self.photos.append(pa.concat_tables(self._photo_rows))
        replaced = [row["file"] for row in self._file_rows if row.pop("known")]
        self.files.delete("file", replaced)
        self.files.append(pa.Table.from_pylist(self._file_rows, FILES))
        self._photo_rows, self._file_rows = [], []
        self._committed = time.monotonic()


def photo_table(schema: pa.Schema, contents: list[int], vectors: Any, regions: Any, facts: list[Any]) -> pa.Table:
    """Rows of photos: embeddings M x E in float16, regions M x bytes, and what their headers tell."""
    checksums = [checksum(vector, region) for vector, region in zip(vectors, regions, strict=True)]
    columns = [contents, rows_of_lists(vectors), rows_of_lists(regions)]
    columns += [[getattr(each, name) for each in facts] for name in ("width", "height", "taken")]
    return pa.table([*columns, checksums], schema=schema)
