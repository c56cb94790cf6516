"""Errors that a user can correct. Each message says what was expected, what was found, where, and what to do.

The exit codes are one table for all commands: 0 done, 64 configuration, 65 accounting or integrity, 69 some units
failed and the others were published, 74 input or output.
"""

from __future__ import annotations

__all__ = ["ClozelineError", "ConfigurationError", "IntegrityError", "PartialFailureError", "StorageError"]


class ClozelineError(Exception):
    """Root of every error that ends a command with a message instead of a traceback."""

    exit_code = 1


class ConfigurationError(ClozelineError):
    """A configuration key, an argument or a combination of them is wrong."""

    exit_code = 64


class IntegrityError(ClozelineError):
    """Counts do not add up, a hash differs, or a file is not what its record says."""

    exit_code = 65


class PartialFailureError(ClozelineError):
    """Some units of a stage failed; the others were published and need not be redone."""

    exit_code = 69


class StorageError(ClozelineError):
    """A file is missing, or cannot be read or written."""

    exit_code = 74
