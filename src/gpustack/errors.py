"""Every failure that gpustack explains: what is wrong, where, why, and the next thing to try.

Only ``cli.main`` prints these and turns ``exit_code`` into the process's own (CONTRACT: exit codes).
"""

from __future__ import annotations


class GpustackError(Exception):
    """Base of all explained failures.

    ``code`` is the stable kebab-case name; ``hint`` is the next thing to try; ``where`` names the file, row or option.
    """

    code = "failure"
    exit_code = 1

    def __init__(self, message: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint


class UsageError(GpustackError):
    """The command line asks for something that has no meaning: unknown component, malformed specifier."""

    code = "usage"
    exit_code = 2


class DocumentError(GpustackError):
    """A document of gpustack's own (plan, host, lock, toml, overlay) cannot be read or has another schema."""

    code = "unreadable-document"
    exit_code = 2


class MatrixError(DocumentError):
    """A matrix file is malformed; ``where`` names file, table, row and field."""

    code = "broken-matrix"


class NoSolutionError(GpustackError):
    """No stack meets the requirements on this host."""

    code = "no-solution"
    exit_code = 3


class UnsupportedError(GpustackError):
    """A host, or a method on it, is not supported; the hint names what would do."""

    code = "unsupported"
    exit_code = 4
