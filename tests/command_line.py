"""The command line as a user meets it: what it printed and the code it ended with."""

import contextlib
import io
import subprocess
import sys
from collections.abc import Sequence
from unittest import mock

from smlstm.cli import main


def smlstm(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a command in this process, which saves the seconds that importing torch takes."""
    command = ["smlstm", *map(str, arguments)]
    out, err, code = io.StringIO(), io.StringIO(), 0
    with mock.patch.object(sys, "argv", command), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
    return subprocess.CompletedProcess(command, code, out.getvalue(), err.getvalue())


def smlstm_process(*arguments: object, before: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own, behind the command `before`."""
    command = [*before, sys.executable, "-c", "from smlstm.cli import main; main()", *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True)
