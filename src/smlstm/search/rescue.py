"""The rows of a damaged data file, read by a process of its own.

What is damaged can make Lance panic, which prints lines of Rust, or abort, which ends the process: it is this one
then, and the rows that came before are kept.
"""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
from lance.file import LanceFileReader

_ROWS_AT_A_TIME = 256


def rescued(file: Path, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Rows up to the first that cannot be read; deleted ones too."""
    command = [sys.executable, "-m", __name__, str(file), *columns]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        assert child.stdout is not None
        with suppress(pa.ArrowException, OSError):
            yield from pa.ipc.open_stream(child.stdout)


def _write(file: str, columns: Sequence[str]) -> None:
    batches = LanceFileReader(file).read_all(batch_size=_ROWS_AT_A_TIME).to_batches()
    writer: pa.ipc.RecordBatchStreamWriter | None = None
    for batch in batches:
        chosen = batch.select(columns)
        writer = writer or pa.ipc.new_stream(sys.stdout.buffer, chosen.schema)
        writer.write_batch(chosen)
        sys.stdout.buffer.flush()
    if writer is not None:
        writer.close()


if __name__ == "__main__":
    _write(sys.argv[1], sys.argv[2:])
