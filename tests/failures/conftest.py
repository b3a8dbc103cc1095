"""What the checks say when something is wrong, held whole in ``tests/golden/verify``: one line a text, behind its key.

The files are made with --update-golden and read by people: each line has to name cause and cure in the user's words.
``ci/failure_texts.py`` tells whether every text of the program stands in one of them or in a test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.host import Host
from gpustack.model.results import CheckResult
from gpustack.system.run import Finished, LocalRunner, Runner
from gpustack.verify.declare import Context, checks_of
from gpustack.verify.frame import runner

GOLDEN = Path(__file__).resolve().parents[1] / "golden/verify"
Compare = Callable[[str, dict[str, str]], None]
Ask = Callable[..., CheckResult]


@pytest.fixture
def compare(update_golden: bool) -> Compare:
    """Compare texts with those of a file, whole."""

    def check(name: str, texts: dict[str, str]) -> None:
        assert not [key for key in texts if ": " in key]
        written = "".join(f"{key}: {_one_line(text)}\n" for key, text in texts.items() if text)
        path = GOLDEN / f"{name}.txt"
        if update_golden:
            path.write_text(written, encoding="utf-8")
        assert written == path.read_text(encoding="utf-8"), "review the new texts, then run with --update-golden"

    return check


def _one_line(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


class Scripted:
    """Answers commands that begin with known words, or hold those after a ``*``; any other is not installed."""

    def __init__(self, answers: Mapping[str, Finished] | None = None, *, real: Path | None = None) -> None:
        """Programs in the folder ``real`` are run."""
        self._answers = answers or {}
        self._real = str(real) if real else ""

    def run(self, argv: tuple[str, ...], **how: Any) -> Finished:
        line = " ".join(argv)
        known = next(
            (
                end
                for words, end in self._answers.items()
                if line.startswith(words) or (words[0] == "*" and words[1:] in line)
            ),
            None,
        )
        if known is None and self._real and argv[0].startswith(self._real):
            return LocalRunner().run(argv, **how)
        return known or Finished(argv=argv, code=None, error=f"{argv[0]} is not installed")


def says(out: str = "", code: int | None = 0, err: str = "", error: str = "") -> Finished:
    return Finished(argv=("x",), code=code, out=out, err=err, error=error)


def told(name: str, result: CheckResult) -> dict[str, str]:
    """What a person reads of a result that is no pass."""
    assert result.status != "pass", (name, result.detail)
    return {f"{name} {result.status}": result.reason, f"{name} fix": result.fix}


@pytest.fixture(scope="session")
def facts() -> Matrix:
    """The program's own facts."""
    return load_matrix(None)


@pytest.fixture
def ask(facts: Matrix, tmp_path: Path) -> Ask:
    """The result of one check by its id, on a host as described, in a folder of its own.

    ``known`` are answers that checks share, as if another check had found them out.
    """
    numbers = iter(range(1000))

    def run(
        identity: str,
        host: Host,
        *,
        on: Runner | None = None,
        given: dict[str, str] | None = None,
        asked: Iterable[str] = (),
        known: Mapping[str, Any] | None = None,
        matrix: Matrix = facts,
    ) -> CheckResult:
        component = identity.partition(".")[0]
        check = next(one for one in checks_of(component) if one.id == identity)
        context = Context(
            host=host,
            matrix=matrix,
            runner=on or LocalRunner(),
            given=given or {},
            asked=frozenset((component, *asked)),
        )
        for name, answer in (known or {}).items():
            context.shared.once(name, lambda answer=answer: answer)
        folder = tmp_path / f"{next(numbers)}"
        folder.mkdir()
        asking = runner._Answer(context, runner._Required(frozenset(), frozenset()))
        result = asking(check, {}, folder)
        return msgspec.structs.replace(
            result, reason=result.reason.replace(str(tmp_path), "$TMP"), fix=result.fix.replace(str(tmp_path), "$TMP")
        )

    return run
