"""Text that any program can read: names of files need not be valid Unicode, and JSON must be."""


def printable(text: object) -> str:
    """A name or message with what is no valid Unicode written as an escape."""
    return str(text).encode("utf-8", "backslashreplace").decode("utf-8")
