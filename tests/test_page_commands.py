"""Every command of README and docs: run here, or by the test that the table names, or recorded on a machine with a GPU."""

from __future__ import annotations

import importlib
import re
import shlex
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import pytest

from gpustack import resources
from gpustack.cli import COMMANDS, main

ROOT = resources.folder("matrices").parent
MAIN = {"detect", "check", "plan", "explain", "render", "schema", "matrix"}
"""Commands that read only: they run here."""

ANSWERS = {0, 3, 7}
"""What they end with: yes, no, unknown."""

ELSEWHERE = {
    r"gpustack plan .*--root /mnt": "tests/integration/test_installs.py",
    r"gpustack plan .*--from ": "tests/cli/test_own_files.py",
    r"gpustack \S+ .*--templates ": "tests/cli/test_templates.py",
    r"gpustack verify tensorrt --engine": "tests/media/test_tensorrt.py",
    r"gpustack (verify|bench) .*(--level (smoke|full)|--compare|--onnx|--batch)": "docs/observed-h200.md",
    r"gpustack verify ffmpeg": "tests/media/test_ffmpeg_real.py",
    r"gpustack verify": "tests/cli/test_verify_command.py",
    r"gpustack bench": "tests/media/test_bench.py",
    r"gpustack install": "tests/install/test_whole_runs.py",
    r"gpustack fetch": "tests/integration/test_bundles.py",
    r"gpustack status": "tests/install/test_questions.py",
    r"gpustack triton model-store": "tests/media/test_triton.py",
    r"gpustack matrix (update|rollback|export|status)": "tests/feed/test_updates.py",
    r"gpustack mcp": "tests/cli/test_mcp.py",
    r"gpustack boot-select": "tests/install/test_boot_select.py",
    r"gpustack fleet": "tests/cli/test_fleet_report.py",
    r"\.venv/bin/python ci/build_collection\.py": "tests/integration/test_collection.py",
    r"\S*python3? ci/start\.py": "ci/start.py",
    r"python3 ci/test\.py|\.venv/bin/python -m pytest|\.venv/bin/gpustack": "ci/test.py",
    r"\.venv/bin/python ci/facts_form\.py": "tests/unit/matrix/test_form.py",
    r"\.venv/bin/python ci/mutate_facts\.py": "tests/unit/matrix/test_mutants.py",
    r"\.venv/bin/python ci/build_explorer\.py": "tests/explorer/conftest.py",
    r"\.venv/bin/python ci/build_site\.py": "tests/test_site.py",
    r"python ci/update": "tests/update/test_replay.py",
    r"python ci/bundle\.py|cp REPO": "tests/feed/conftest.py",
    r"python3 (ci/benchmark\.py|-X importtime|-m cProfile)": "docs/start-up.md",
}
"""What is not run here, and its test, or the record of what it printed."""

PAGES = {
    "docs/tutorial.md": "tests/integration/test_tutorial.py",
    "docs/python.md": "tests/test_python_page.py",
    "docs/seeds.md": "tests/test_seeds.py",
}
"""Pages that a test of their own runs from end to end."""

_FENCED = re.compile(r"^```(?:sh|)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"^ {4}(?=gpustack |python3? |\.venv/)(.*)$", re.MULTILINE)
_PROGRAM = re.compile(r"(?:\$ )?((?:gpustack|python3?|\.venv/bin/\S+|cp) .*)")
_PLACEHOLDER = re.compile(r"(?<![\w.-])[A-Z][A-Z_]{2,}(?![\w-])|…|\[--|\\$")


class Line(NamedTuple):
    """One command of a page."""

    page: str
    text: str


def lines() -> Iterator[Line]:
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        page = path.relative_to(ROOT).as_posix()
        if page in PAGES:
            continue
        text = path.read_text(encoding="utf-8")
        found = [line for match in _FENCED.finditer(text) for line in match[1].splitlines()]
        for line in (*found, *(match[1] for match in _INDENTED.finditer(text))):
            if match := _PROGRAM.fullmatch(line):
                yield Line(page, re.sub(r"(\s+#.*|; echo \$\?)$", "", match[1]).strip())


ALL = tuple(dict.fromkeys(lines()))


def proof_of(line: Line) -> str | None:
    return next((proof for pattern, proof in ELSEWHERE.items() if re.match(pattern, line.text)), None)


def is_run_here(line: Line) -> bool:
    words = line.text.split()
    return words[0] == "gpustack" and words[1] in MAIN and proof_of(line) is None and not is_a_form(line)


def is_a_form(line: Line) -> bool:
    """Whether a command has words for the reader to replace."""
    return bool(_PLACEHOLDER.search(line.text))


@pytest.mark.parametrize("page", sorted({line.page for line in ALL if is_run_here(line)}))
def test_the_commands_of_a_page_that_read_only_answer(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order of the page, in one folder: later commands read the files of earlier ones."""
    monkeypatch.chdir(tmp_path)
    for line in ALL:
        if line.page != page or not is_run_here(line):
            continue
        command, _, place = (part.strip() for part in line.text.partition(" >"))
        words = shlex.split(command)[1:]
        out, err = StringIO(), StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = main(words)
        assert code in ANSWERS, (line, err.getvalue())
        assert out.getvalue() or "--out" in words or "check" in words, line
        if place:
            (tmp_path / place).write_text(out.getvalue(), encoding="utf-8")


@pytest.mark.parametrize("line", [line for line in ALL if not is_run_here(line)], ids=lambda line: line.text[:60])
def test_every_other_command_has_its_test_or_its_record(line: Line) -> None:
    proof = proof_of(line)
    assert proof or is_a_form(line), f"{line}: run it in a test, and name the test in ELSEWHERE"
    assert proof is None or (ROOT / proof).is_file(), line


def test_pages_with_tests_of_their_own_exist() -> None:
    for page, proof in PAGES.items():
        assert (ROOT / page).is_file()
        assert Path(page).name in (ROOT / proof).read_text(encoding="utf-8")
    assert COMMANDS.keys() >= MAIN


def test_the_picture_of_a_plan_is_what_the_program_prints(update_golden: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "ci"))
    plan_picture = importlib.import_module("plan_picture")
    made, kept = plan_picture.drawn(plan_picture.printed()), ROOT / "docs" / "images" / "plan.svg"
    if update_golden:
        kept.write_text(made, encoding="utf-8")
    assert made == kept.read_text(encoding="utf-8"), "see the difference with --update-golden"
