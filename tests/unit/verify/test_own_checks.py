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
from gpustack.verify.frame.site_checks import Expectation, SiteCheck, _judge, load_file

ONE = SiteCheck(
    id="site.mount", command=("findmnt", "/data"), hint="mount it", level="quick", expect=Expectation(stdout="nfs4")
)


def test_a_file_without_checks_is_told_what_one_is() -> None:
    with pytest.raises(DocumentError) as caught:
        load_file(Path("checks.toml"), {})
    assert (caught.value.message, caught.value.where, caught.value.hint) == (
        "the file has no [[check]]",
        "checks.toml",
        'a check is [[check]] with id = "site.name", command = ["program", "word"], hint = "what fixes it"',
    )


@pytest.mark.parametrize(
    ("search", "why"),
    [
        (says(code=-9), "the search crashed (signal 9, SIGKILL)"),
        (says(code=1, err="MemoryError\n"), "the search ended with exit code 1: MemoryError"),
        (says(code=None, error="no answer within 10 s"), "no answer within 10 s"),
    ],
)
def test_a_search_that_breaks_is_no_verdict(matrix: Matrix, tmp_path: Path, search: Finished, why: str) -> None:
    """A script stands for the process that searches: it is killed, breaks, or does not end."""
    runner = Scripted({"findmnt": says("/data nfs4\n"), sys.executable: search})
    found = _judge(ONE, Context(host=HEALTHY, matrix=matrix, runner=runner, work=tmp_path))
    assert (found.status, found.reason, found.fix) == (
        "error",
        f"the output of `findmnt /data` could not be searched for 'nfs4': {why}",
        "use an expression without nested repetitions in `expect`",
    )


def test_a_saved_host_answers_no_command(matrix: Matrix) -> None:
    """At level quick too, where checks of gpustack's own read what was saved."""
    found = _judge(ONE, Context(host=HEALTHY, matrix=matrix))
    assert (found.status, found.reason, found.fix) == (
        "skip",
        "the host is a saved snapshot: this check runs on the machine itself only",
        "",
    )
