"""Checks of a user's own: what is said where their command cannot be judged."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.failures.conftest import Scripted, says
from tests.unit.verify.conftest import HEALTHY

from gpustack.errors import DocumentError
from gpustack.matrix.index import Matrix
from gpustack.system.run import Finished
from gpustack.verify.declare import Context
from gpustack.verify.frame.site_checks import Expectation, OwnCheck, _judge, load_file

ONE = OwnCheck(
    id="site.mount", command=("findmnt", "/data"), hint="mount it", level="quick", expect=Expectation(stdout="nfs4")
)


def test_a_file_without_checks_is_told_what_one_is() -> None:
    with pytest.raises(DocumentError) as caught:
        load_file(Path("checks.toml"), {})
    assert (caught.value.message, caught.value.where, caught.value.hint) == (
        "holds no [[check]]",
        "checks.toml",
        'a check is [[check]] with id = "site.name", command = ["program", "word"], hint = "what mends it"',
    )


@pytest.mark.parametrize(
    ("search", "why"),
    [
        (says(code=-9), "the search for it crashes (signal 9, SIGKILL)"),
        (says(code=1, err="MemoryError\n"), "the search for it ends with exit code 1: MemoryError"),
        (says(code=None, error="no answer within 10 s"), "no answer within 10 s"),
    ],
)
def test_a_search_that_breaks_is_no_verdict(matrix: Matrix, tmp_path: Path, search: Finished, why: str) -> None:
    """A script stands for the process that searches: it is killed, breaks, or does not end."""
    runner = Scripted({"findmnt": says("/data nfs4\n"), sys.executable: search})
    found = _judge(ONE, Context(host=HEALTHY, matrix=matrix, runner=runner, work=tmp_path))
    assert (found.status, found.reason, found.fix) == (
        "error",
        f"whether `findmnt /data` writes 'nfs4' cannot be told: {why}",
        "give `expect` an expression without repetitions inside repetitions",
    )


def test_a_saved_host_answers_no_command(matrix: Matrix) -> None:
    """At level quick too, where checks of gpustack's own read what was saved."""
    found = _judge(ONE, Context(host=HEALTHY, matrix=matrix))
    assert (found.status, found.reason, found.fix) == (
        "skip",
        "this has to be run on the machine itself, and the host is a saved snapshot of one",
        "",
    )
