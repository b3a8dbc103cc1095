"""What a run would change, for the person who decides; and what it changes in the answers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from facts_form import ROOT, flow
from update.merge import Diff, place
from update.tables import MATRICES, Facts

GOLDEN = ("tests/unit/plan/test_golden.py", "-k", "golden_ones", "--update-golden", "-q")


VERDICTS = ("tests/test_combinations.py", "tests/cli/test_questions.py", "tests/cli/test_plan_questions.py")
"""The tests that ask for verdicts: of tested combinations, and of questions that users asked."""


def lines(name: str, diff: Diff, facts: Facts) -> Iterator[str]:
    """The report on one source: what stops it, what is new, and the old and new text of each cell that waits."""
    for stop in diff.stops:
        yield f"{name}: STOPPED: {stop}"
    for title, rows in (("new", diff.added), ("grown", diff.grown)):
        yield from (f"{name}: {title}: {place(found, facts)}: {flow(found.row)}" for found in rows)
    for one in diff.waiting:
        where = place(one.found, facts)
        yield f"{name}: waits: {where}{f': {one.column}' if one.column else ''}: {one.why}"
        yield f"  old: {one.old or 'none'}"
        yield f"  new: {one.new}"
    count = (diff.same, len(diff.added), len(diff.grown), len(diff.waiting))
    yield "{}: {} rows as they were, {} new, {} grown, {} wait".format(name, *count)


def consequences(paths: Sequence[Path], folder: Path) -> Iterator[str]:
    """What written files change in golden plans, refusals and verdicts; nothing for facts elsewhere."""
    yield from (f"written: {path.relative_to(folder)}" for path in paths)
    if folder != MATRICES:
        return
    subprocess.run([sys.executable, "-m", "pytest", *GOLDEN], cwd=ROOT, check=False, stdout=sys.stderr)
    yield _said("git", "diff", "--stat", "--", "tests/golden").rstrip() or "no golden plan changes"
    told = _said(sys.executable, "-m", "pytest", *VERDICTS, "-q", "-rf").splitlines()
    changed = [line.removeprefix("FAILED ") for line in told if line.startswith("FAILED ")]
    yield from (f"verdict changes: {line}" for line in changed)
    yield told[-1] if told and not changed else f"{len(changed)} verdicts change"


def _said(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
