"""A library of photos: index folders, find photos by sentences.

>>> from smlstm import Library
>>> library = Library()  # doctest: +SKIP
>>> library.index("~/Photos")  # doctest: +SKIP
>>> for match in library.search("a dog running on the beach"):  # doctest: +SKIP
...     print(match.probability, match.path)
"""

import errno
import logging
import os
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from smlstm.data.lock import WriterLock
from smlstm.errors import InputError
from smlstm.search import maintenance
from smlstm.search.changes import find_changes, real_folder
from smlstm.search.damage import DamagedLibrary
from smlstm.search.lance_table import FILES, Table, content_of, matrix, photo_schema
from smlstm.search.location import LibraryGone, ReadOnlyLibrary, library_folder
from smlstm.search.manifest import FORMAT, Manifest, read_manifest, write_manifest
from smlstm.search.migration import drop_outdated, is_outdated, migrate, rewrite
from smlstm.search.nearest import EXACT_BELOW, keep_index
from smlstm.search.snapshot import Filter, Snapshot

if TYPE_CHECKING:
    from torch import Tensor

    from smlstm.explain import Explanation
    from smlstm.pair import Pair
    from smlstm.search.health import Health
    from smlstm.search.indexing import Outcome, Watch
    from smlstm.search.matches import Found, Match
    from smlstm.search.packing import Packing
    from smlstm.search.prepared import PreparedPhotos
    from smlstm.search.searching import Searcher
    from smlstm.vision.photo_features import PhotoReader

FILE_ROWS, PHOTO_ROWS = 1 << 20, 4096
"""Rows that a piece of each table has when it is full."""
_NOT_WRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, order=True)
class Entry:
    """A file of the library."""

    path: Path
    content: int
    """A number that files with the same bytes share."""
    reason: str | None
    """Why it cannot be used, if so."""


class Library:
    """Photos of some folders, stored as a model sees them.

    `folder` is where the library lies: by default `SMLSTM_LIBRARY`, else the user's data folder. `model` is a pair or
    the folder of one, by default the shipped one; it is loaded when it is first needed. Several threads may search.
    """

    def __init__(
        self,
        folder: str | Path | None = None,
        *,
        model: "Pair | str | Path | None" = None,
        runtime: str = "auto",
        exact_below: int = EXACT_BELOW,
    ) -> None:
        self.folder = library_folder(folder)
        self.runtime, self.exact_below = runtime, exact_below
        self._model = model
        self._snapshot: Snapshot | None = None
        self._guard = threading.Lock()
        self._there = (False, False, False)
        self.files = Table(self.folder / "files.lance", FILES, FILE_ROWS)

    @cached_property
    def pair(self) -> "Pair":
        """The model."""
        from smlstm.pair import Pair, load_model  # noqa: PLC0415 - torch takes seconds

        return self._model if isinstance(self._model, Pair) else load_model(self._model)

    @cached_property
    def packing(self) -> "Packing":
        """How photos are stored for the model."""
        from smlstm.search.packing import Packing  # noqa: PLC0415 - torch takes seconds

        return Packing(self.pair.reranker, self.pair.regions)

    @cached_property
    def prepared(self) -> "PreparedPhotos":
        """Photos that were found lately, ready to be compared."""
        from smlstm.search.prepared import PreparedPhotos  # noqa: PLC0415 - torch takes seconds

        return PreparedPhotos()

    @cached_property
    def photos(self) -> Table:
        """The table of photos as this model sees them."""
        schema = photo_schema(self.pair.vector_width, self.packing.width)
        table = Table(self.folder / f"photos-{self.pair.digest[:16]}.{FORMAT}.lance", schema, PHOTO_ROWS)
        if not table.exists and is_outdated(self.folder, self.pair.digest):
            try:
                with self.writing():
                    migrate(self.folder, self.pair.digest, table, self.packing)
            except ReadOnlyLibrary as error:
                _log.warning("%s: its photos are rewritten elsewhere, for now", error)
                table = Table(Path(self._elsewhere.name) / table.path.name, schema, PHOTO_ROWS)
                rewrite(self.folder, self.pair.digest, table, self.packing)
        return table

    @cached_property
    def _elsewhere(self) -> "tempfile.TemporaryDirectory[str]":
        """Where a library that cannot be written is brought to the present format; deleted with this object."""
        return tempfile.TemporaryDirectory(prefix="smlstm-")

    @cached_property
    def photo_reader(self) -> "PhotoReader":
        """The CNN, loaded when a photo must be looked at."""
        return self.pair.photo_reader(self.runtime)

    @property
    def manifest(self) -> Manifest:
        """The folders of the library."""
        return read_manifest(self.folder) or Manifest()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the lock that keeps a second indexer out."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = WriterLock(self.folder / "lock")
        except IsADirectoryError:
            raise DamagedLibrary(self.folder / "lock", "it is a folder") from None
        except OSError as error:
            if error.errno in _NOT_WRITABLE:
                raise ReadOnlyLibrary(self.folder, error) from None
            raise
        try:
            yield
        finally:
            lock.release()

    def beside(self) -> "Library":
        """The same library and model with tables of its own: for a thread that writes while others search."""
        other = Library(self.folder, model=self.pair, runtime=self.runtime, exact_below=self.exact_below)
        other.__dict__["photo_reader"] = self.photo_reader  # one CNN for both
        other._there = self._there
        return other

    def index(
        self,
        *folders: str | Path,
        exclude: Sequence[str] | None = None,
        retry: bool = False,
        watch: "Watch | None" = None,
    ) -> "Outcome":
        """Take folders in, and bring the library in step with them; without any, with all that it knows.

        `exclude` are patterns of names or paths within the folders, such as "*.gif" or "private/*". `watch` is told how
        far it is, after each file. `retry` tries files again that could not be used before.
        """
        from smlstm.search.indexing import Indexer  # noqa: PLC0415 - torch takes seconds

        wanted = [real_folder(folder) for folder in folders]
        if not wanted:
            self._refuse_if_gone()
        photos = self.photos  # which may have to be written anew
        with self.writing():
            manifest = self.manifest
            before = list(manifest.folders)
            for folder in wanted:
                manifest.add(folder, None if exclude is None else tuple(exclude))
                if manifest.excludes(folder):
                    raise InputError(f"{folder} is excluded from the library: give it exclusions of its own, or none")
            if manifest.folders != before or read_manifest(self.folder) is None:
                write_manifest(self.folder, manifest)
            known = set(photos.read(["content"])["content"].to_pylist())
            plan = find_changes(wanted or manifest.outermost, manifest, self.files, known, retry)
            indexer = Indexer(self.files, photos, self.pair, self.packing, lambda: self.photo_reader.extractor)
            outcome = indexer.run(plan, known, watch)
            if outcome.total or plan.gone:
                for table in (self.files, photos):
                    table.compact()
            keep_index(photos, self.exact_below)
            for table in (self.files, photos):
                table.seal()
        return outcome

    def search(
        self,
        sentence: str | None = None,
        *,
        k: int = 10,
        plus: Sequence[str] = (),
        minus: Sequence[str] = (),
        similar: str | Path | int | None = None,
        minimum: float = 0.0,
        chosen: Filter | None = None,
        shortlist: int | None = None,
        part: tuple[int, int] | None = None,
    ) -> "Found":
        """Find the k photos that match best.

        `plus` and `minus` are further sentences, that should and should not fit, each with a weight in front if so
        wished: "0.5:at sunset". `similar` takes the shortlist from the photos most like one: a file, of the library or
        not, or the content of a match.
        `minimum` is the least match probability (without sentence: the least similarity).
        `part` looks only at what lies between two places of the shortlist: (100, 300) are 200 from the 101st on.
        """
        from smlstm.search.query import parse_term  # noqa: PLC0415 - torch takes seconds
        from smlstm.search.searching import SHORTLIST  # noqa: PLC0415

        positive = ([] if sentence is None else [sentence]) + list(plus)
        terms = [parse_term(text) for text in positive] + [parse_term(text, -1) for text in minus]
        if not positive and similar is None:
            raise InputError("nothing is asked for: give a sentence, or a photo to find similar ones")
        if k < 1:
            raise InputError(f"k must be at least 1, not {k}")
        searcher = self.searcher()
        like = None if similar is None else self._embedding(searcher, similar)
        size = SHORTLIST if shortlist is None else shortlist
        return searcher.search(terms, chosen or Filter(), k=k, shortlist=size, minimum=minimum, like=like, part=part)

    def explain(self, matches: Iterable["Match"], sentence: str) -> "list[Explanation]":
        """What the reranker looked at in photos that were found; the CNN has no part in it."""
        from smlstm.explain import explain_encoded  # noqa: PLC0415 - torch takes seconds
        from smlstm.vision.shown_photo import shown  # noqa: PLC0415

        if not self.pair.reranker.attends:
            raise InputError(
                f"the reranker ({self.pair.reranker.kind}) has no attention: it cannot show where it looked"
            )
        searcher, found = self.searcher(), []
        for match in matches:
            row = int(searcher.snapshot.rows_of(np.array([match.content]))[0])
            if row >= 0:  # else the photo has just gone
                _, image = searcher.encoded([row])
                explanation = explain_encoded(self.pair.reranker, image, sentence)
                found.append(replace(explanation, name=match.path.name, photo=shown(match.path)))
        return found

    def searcher(self) -> "Searcher":
        """What answers questions about the library as it is now."""
        from smlstm.search.searching import Searcher  # noqa: PLC0415 - torch takes seconds

        return Searcher(self.snapshot(), self.pair, self.packing, self.exact_below, self.prepared)

    def snapshot(self) -> Snapshot:
        """The library as it is now; read again only if it has changed."""
        self._refuse_if_gone()
        with self._guard:
            if self._snapshot is None or self._snapshot.versions != (self.files.version, self.photos.version):
                self._snapshot = Snapshot(self.files, self.photos)
            return self._snapshot

    def _refuse_if_gone(self) -> None:
        """Tell an empty library from one that was deleted since it was last looked at."""
        there = (read_manifest(self.folder) is not None, self.files.path.is_dir(), self.photos.path.is_dir())
        with self._guard:
            if any(before and not now for before, now in zip(self._there, there, strict=True)):
                self._snapshot = None  # another may take its place, with the same numbers for its versions
                raise LibraryGone(self.folder)
            self._there = there

    def _embedding(self, searcher: "Searcher", photo: str | Path | int) -> "Tensor":
        """A photo's unit vector: out of the library where it is known, else by the CNN."""
        import torch  # noqa: PLC0415 - torch takes seconds

        content = photo if isinstance(photo, int) else content_of(Path(photo)) if Path(photo).is_file() else None
        if content is not None:
            (row,) = searcher.snapshot.rows_of(np.array([content]))
            if row >= 0:
                stored = searcher.snapshot.read(["embedding"], [int(row)])["embedding"]
                return torch.from_numpy(matrix(stored)[0].astype(np.float32))
        if isinstance(photo, int):
            raise InputError("the photo to find similar ones of is no longer in the library")
        from smlstm.matching import ImageFeatures  # noqa: PLC0415 - torch takes seconds

        return self.pair.embed_images(ImageFeatures.from_numpy(*self.photo_reader.read([photo])))[0]

    def entries(self) -> list[Entry]:
        """All files of the library, in the order of their paths."""
        rows = self.files.read(["path", "content", "reason"])
        columns = (rows[name].to_pylist() for name in ("path", "content", "reason"))
        return sorted(Entry(Path(os.fsdecode(path)), *rest) for path, *rest in zip(*columns, strict=True))

    def stats(self) -> maintenance.Stats:
        """What the library holds."""
        return maintenance.stats(self.folder, self.files, self.photos)

    def check(self) -> "Health":
        """What is wrong with the library, after reading all of it."""
        from smlstm.search.health import check  # noqa: PLC0415 - torch takes seconds

        return check(self.folder, self.files, self.photos)

    def repair(self) -> "Health":
        """Drop what is damaged, which the next indexing brings back; returns what was wrong and what was kept."""
        from smlstm.search import repairing  # noqa: PLC0415 - torch takes seconds

        repairing.free_lock(self.folder)
        dropped = self._drop_damaged_outdated()
        with self.writing():
            health = repairing.repair(self.folder, self.files, self.photos)
        health.problems += dropped
        return health

    def _drop_damaged_outdated(self) -> list[str]:
        """Let photos of an older format go that cannot be brought to the present one; they are seen anew."""
        try:
            _ = self.photos
        except DamagedLibrary as error:
            drop_outdated(self.folder, self.pair.digest)
            return [error.finding]
        return []

    def prune(self) -> tuple[int, int]:
        """Delete photos that no file has and what other models stored; returns photos and bytes let go of."""
        photos = self.photos
        with self.writing():
            return maintenance.prune(self.folder, self.files, photos)

    def forget(self, folder: str | Path) -> int:
        """Let a folder go; returns how many files were below it."""
        path = Path(folder).expanduser()
        path = path.resolve() if path.exists() else path.absolute()
        with self.writing():
            return maintenance.forget(self.folder, self.files, str(path))
