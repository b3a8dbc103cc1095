"""Every failure that gpustack explains: what is wrong, where, why, and the next thing to try.

Only ``cli.main`` prints these and turns ``exit_code`` into the process's own (CONTRACT: exit codes).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpustack.error_ids import ErrorId


class GpustackError(Exception):
    """Base of all explained failures.

    ``code`` is the printed id, which `docs/errors.md` explains: that of the class, or of the failure itself.
    ``hint`` is the next thing to try; ``where`` names the file, row or option.
    """

    code: ErrorId = "internal-fault"
    exit_code = 1

    def __init__(self, message: str, *, code: ErrorId | None = None, where: str = "", hint: str = "") -> None:
        super().__init__(message)
        if code is not None:
            self.code = code
        self.message = message
        self.where = where
        self.hint = hint


class UsageError(GpustackError):
    """The command line is invalid: unknown component, malformed specifier."""

    exit_code = 2


class DocumentError(GpustackError):
    """A gpustack document (plan, host, lock, toml, overlay) cannot be read or has another schema."""

    exit_code = 2


class MatrixError(DocumentError):
    """A matrix file is malformed; ``where`` names file, table, row and field."""

    code: ErrorId = "broken-matrix"


class NoSolutionError(GpustackError):
    """No stack meets the requirements on this host."""

    exit_code = 3


class UnsupportedError(GpustackError):
    """A host, or a method on it, is not supported; the hint names an alternative."""

    exit_code = 4
