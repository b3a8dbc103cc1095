"""CUDA's forward compatibility: whether the cuda-compat package of a toolkit supports an older driver branch."""

from __future__ import annotations

from typing import Any

from gpustack.matrix.index import Matrix
from gpustack.solve.question import Question
from gpustack.versions import is_within

PACKAGE = "cuda-compat"


def is_bridged(question: Question, cuda: str, driver: str) -> bool:
    """Whether the requested cuda-compat lets programs of this CUDA run on a driver that alone is too old."""
    if PACKAGE not in question.asked:
        return False
    partners = (("cuda", cuda), ("driver", driver))
    book, view = question.book, question.view
    return any(
        book.covers(PACKAGE, candidate.version, "driver", view)
        and not any(book.breach(PACKAGE, candidate.version, *one, view, advice=False) for one in partners)
        for candidate in question.candidates(PACKAGE)
    )


def package_for(matrix: Matrix, cuda: str, driver: str) -> tuple[str, str] | None:
    """The compatibility package of ``cuda`` and its verdict on the branch of ``driver``; None if unknown.

    The verdict is "compatible", "incompatible", or "same-release" if none is needed. The facts are about data-centre
    GPUs: the caller checks whether this host has one.
    """
    rows: tuple[dict[str, Any], ...] = matrix.rows("cuda", "forward_compat", dict)
    for row in rows:
        if is_within(cuda, f"=={row['cuda']}.*") and is_within(driver, f"=={row['branch']}.*"):
            return row["package"], row["result"]
    return None


def bridged_branches(matrix: Matrix, cuda: str) -> tuple[str, tuple[str, ...]]:
    """The compatibility package of ``cuda`` and the driver branches that it supports; ("", ()) if none is known."""
    rows: tuple[dict[str, Any], ...] = matrix.rows("cuda", "forward_compat", dict)
    mine = [row for row in rows if is_within(cuda, f"=={row['cuda']}.*") and row["result"] == "compatible"]
    return (mine[0]["package"], tuple(row["branch"] for row in mine)) if mine else ("", ())
