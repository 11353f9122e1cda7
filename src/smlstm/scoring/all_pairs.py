"""All pairs of M images and N sentences, for any matcher, in bounded memory.

    for each block of images           read and encoded once
        for each group of sentences    of like length; encoded once, as far as memory allows
            for each tile of images    a few images against the group: the matcher's work

What is held at a time: `memory` bytes of encoded images and sentences, one tile on its way, and the matrix, which
may be on disk.
"""

from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from smlstm.files import fingerprint
from smlstm.matching.batch import Batch
from smlstm.matching.matcher import Matcher
from smlstm.scoring.images import Images, ImageSource, image_source
from smlstm.scoring.job import Counter, Engine, Job, choose_tile, scoring, slices, to_numpy
from smlstm.scoring.matrix import InMemory, OnDisk, Output, Scores
from smlstm.scoring.precision import Precision
from smlstm.scoring.progress import ProgressCallback
from smlstm.scoring.sentences import SentenceGroups, Sentences, batch_bytes, check_sentences, sentences_fingerprint

if TYPE_CHECKING:
    from smlstm.scoring.cascade import Cascade

Target = str | PathLike[str] | Scores | None
MEMORY = 2 << 30


def score_all(
    matcher: "Matcher | Cascade",
    images: Images,
    sentences: Sentences,
    *,
    out: Target = None,
    tile: tuple[int, int] | None = None,
    precision: Precision = "auto",
    device: torch.device | str | None = None,
    memory: int = MEMORY,
    progress: ProgressCallback | None = None,
) -> Scores:
    """Scores of all pairs, float32, M rows and N columns.

    `images`: `ImageFeatures`, a batch that this matcher encoded, a list of either, a feature store, or a `Stream`.
    `sentences`: texts, or a batch that this matcher encoded.
    `out`: an array to fill, or the name of a `.npy` file; a job that was killed continues from its finished rows
    when it is started again with the same inputs. Default: a new array.
    `tile`: images and sentences scored together; default: chosen by the size of the model.
    `precision`: of the products; `auto` is bfloat16 where the device has it, float32 elsewhere.
    `device`: where to score; default: where the matcher is.
    `memory`: bytes for encoded images and sentences; more sentences than fit are encoded again for each block.
    `progress`: called after every tile, for example with `progress_bar()`.

    A `Cascade` in place of the matcher scores a shortlist only, see there.
    """
    if not isinstance(matcher, Matcher):
        return matcher.score_all(
            images,
            sentences,
            out=out,
            tile=tile,
            precision=precision,
            device=device,
            memory=memory,
            progress=progress,
        )
    check_sentences(sentences)
    source = image_source(images)
    with scoring(matcher):
        engine = Engine(matcher, precision, device)
        size = choose_tile(tile, engine.scorer.pair_width)
        groups = SentenceGroups(engine, sentences, size.sentences, memory // 2)
        output = open_output(out, source, sentences, engine)
        try:
            resumed = int(output.done("scores").sum()) * len(sentences)
            counter = Counter(len(source) * len(sentences), resumed, progress)
            job = Job(engine, source, sentences, output, size, memory)
            for start, stop, block in image_blocks(job, "scores", groups, tiles=4):
                for columns, prepared in groups:
                    for rows in slices(stop - start, size.images):
                        part = to_numpy(engine.scorer.grid(block.select(rows), prepared))
                        output.scores[start + rows.start : start + rows.stop, columns.numpy()] = part.numpy()
                        counter.add(part.numel())
                output.record("scores", start, stop)
            return output.finish()
        finally:
            output.close()


def open_output(out: Target, source: ImageSource, sentences: Sentences, *engines: Engine, settings: str = "") -> Output:
    """A matrix in memory, or on disk and tied to this very job."""
    shape = (len(source), len(sentences))
    if out is None:
        return InMemory(shape)
    if not isinstance(out, (str, PathLike)):
        return InMemory(shape, out)
    parts = (source.fingerprint(), sentences_fingerprint(sentences), *(engine.fingerprint() for engine in engines))
    return OnDisk(Path(out), shape, fingerprint([settings, *parts]))


def image_blocks(job: Job, phase: str, groups: SentenceGroups, tiles: int) -> Iterator[tuple[int, int, Batch]]:
    """Blocks of rows that are still missing in a phase (start, stop), prepared.

    The first is one tile and shows what an image needs. Later ones are of some tiles, few enough that little is lost if
    the job is killed; as many as memory allows where every block means that sentences must be encoded again.
    """
    start, stop = job.output.missing(phase, 0, job.tile.images)
    while start < stop:
        images = job.source.read(start, stop)
        block = job.engine.prepare_images(images, start)
        needed = 2 * (batch_bytes(images) + batch_bytes(block)) // len(block)  # twice: encoding has its temporaries
        del images
        yield start, stop, block
        del block
        wanted = tiles * job.tile.images if groups.all_kept else len(job.source)
        start, stop = job.output.missing(phase, stop, max(1, min(wanted, job.memory // 2 // max(1, needed))))
