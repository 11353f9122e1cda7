"""What a server writes down of itself, on stderr: lines for people, or JSON for programs.

What people ask for is never written: paths of the API are, sentences and photos are not.
"""

import json
import logging
import sys
from datetime import datetime, timezone

from smlstm.files import printable

REQUESTS = "smlstm.web.requests"


class JsonLines(logging.Formatter):
    """One JSON object a line; what a record carries as `facts` becomes fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record."""
        content: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": printable(record.getMessage()),
        }
        content |= getattr(record, "facts", {})
        if record.exc_info:
            content["traceback"] = printable(self.formatException(record.exc_info))
        return json.dumps(content)


def set_up(as_json: bool) -> None:
    """Write logs to stderr: with JSON every request, else only what someone at a terminal should know."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if as_json else logging.Formatter("%(message)s"))
    for name in ("smlstm.web", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO if as_json or name == "smlstm.web" else logging.WARNING)
    logging.getLogger(REQUESTS).setLevel(logging.INFO if as_json else logging.ERROR)
