"""The failures we expect: each message says what was wrong, with the value, and what to do."""


class SmlstmError(Exception):
    """An expected failure. The command line prints its message without a traceback."""

    exit_code = 1


class ConfigurationError(SmlstmError, ValueError):
    """A configuration, or a file that carries one, does not fit; the message names the field."""

    exit_code = 2


class InputError(SmlstmError, ValueError):
    """What the caller gave cannot be worked on: a sentence, a photo, features of another width."""

    exit_code = 3


class MissingDependencyError(SmlstmError, ImportError):
    """An optional part is not installed; the message says which extra brings it."""

    exit_code = 4
