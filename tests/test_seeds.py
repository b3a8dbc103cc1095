"""docs/seeds.md, row by row: commands end and print as they say, and every proof exists."""

from __future__ import annotations

import ast
import re
import shlex
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import pytest

from gpustack import resources
from gpustack.cli import main

ROOT = resources.folder("docs").parent
RESULT = re.compile(r"(works|refused|by hand|advice)(?:, (\d)(?: `(.+)`)?)?")


class Row(NamedTuple):
    """A row of the page; ``code`` is None where the command requires a GPU, a server or a file."""

    guide: str
    item: str
    command: str
    state: str
    code: int | None
    words: str
    proof: str


def rows() -> Iterator[Row]:
    guide = command = ""
    for line in (ROOT / "docs" / "seeds.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            guide = line.removeprefix("## ")
        if not line.startswith("| ") or line.startswith("| section"):
            continue
        section, item, given, result, proof = (cell.strip() for cell in line.strip("| ").split(" | "))
        command = command if given == "same" else given.strip("`")
        found = RESULT.fullmatch(result)
        assert found, line
        code = None if found[2] is None else int(found[2])
        yield Row(guide, f"{section} {item}", command, found[1], code, found[3] or "", proof.strip("`"))


ROWS = tuple(rows())
RUN = {row.command: row.code for row in ROWS if row.code is not None}


@cache
def ended(command: str) -> tuple[int, str]:
    """The exit code of a command line, and all that it prints, with one blank between words."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(shlex.split(command))
    return code, " ".join(f"{out.getvalue()} {err.getvalue()}".split())


def test_the_page_has_every_item_of_the_five_guides() -> None:
    counted = Counter(row.guide for row in ROWS)
    assert sorted(counted.values()) == [47, 63, 72, 76, 88]
    assert all(name.endswith(f": {count} items") for name, count in counted.items())


@pytest.mark.parametrize("command", sorted(RUN))
def test_a_command_of_the_page_ends_and_prints_as_it_says(command: str, tmp_path: Path) -> None:
    code, text = ended(command.replace(" DIR ", f" {tmp_path / 'store'} "))
    assert code == RUN[command], text[:500]
    missing = {row.words for row in ROWS if row.command == command and row.words not in text}
    assert not missing, text[:500]


@cache
def functions(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def test_every_proof_exists() -> None:
    for row in ROWS:
        path, _, name = row.proof.partition("::")
        assert (ROOT / path).is_file(), row
        assert not name or name in functions(ROOT / path), row


def test_what_is_refused_names_what_to_do() -> None:
    for row in ROWS:
        if row.state == "refused" and row.code is not None and " DIR " not in row.command:
            assert "hint: " in ended(row.command)[1], row
