"""Every command that the two cuDNN guides print: which step of which plan does its work.

Files that NVIDIA has behind its login are built here in its form: their packages hold nothing.
"""

from __future__ import annotations

import json
import re
import shlex
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from tests.integration.catalogue import Package
from tests.integration.keys import make_signing_keys
from tests.integration.vendor_files import repository_deb, repository_rpm
from tests.reading import cases_in

from gpustack.cli import main

ROOT = Path(__file__).parent.parent
CASES = cases_in(Path(__file__).parent / "cases/printed-commands.yaml")
ROWS = [(guide, row) for guide, rows in CASES["commands"].items() for row in rows]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Local repositories of cuDNN 8.9.6, by the words that stand for them in the plans."""
    folder = tmp_path_factory.mktemp("files")
    keys = make_signing_keys(folder / "keys")
    debs = [Package(f"libcudnn8{part}", "8.9.6.50-1+cuda12.2") for part in ("", "-dev", "-samples")]
    rpms = [Package(f"libcudnn8{part}", "8.9.6.50-1.cuda12.2") for part in ("", "-devel", "-samples")]
    made = {
        "LOCAL_DEB": repository_deb(folder, "cudnn-local-repo-ubuntu2204-8.9.6.50", debs, keys, keys.current),
        "LOCAL_RPM": repository_rpm(folder, "cudnn-local-repo-rhel9-8.9.6.50", rpms, keys, keys.current),
    }
    keys.stop()
    return {word: str(path) for word, path in made.items()}


@cache
def asked(command: str) -> tuple[int, str, str]:
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main([*shlex.split(command), "--format", "json"])
    return code, out.getvalue(), err.getvalue()


def told(step: dict[str, Any]) -> str:
    """What is done in a step, line by line."""
    lines = [" ".join(argv) for argv in step["commands"]]
    lines += [f"{file['path']}\n{file['content']}" for file in step["files"]]
    return "\n".join([*lines, *(one["url"] for one in step["artifacts"])])


@pytest.mark.parametrize(
    ("guide", "row"), ROWS, ids=[f"{guide}-{row['section']}-{row['printed']}" for guide, row in ROWS]
)
def test_a_printed_command_is_a_step_of_a_plan(guide: str, row: dict[str, str], files: dict[str, str]) -> None:
    if "proof" in row:
        path, _, name = row["proof"].partition("::")
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8")
        return
    command = CASES["plans"][row["plan"]]
    for word, path in files.items():
        command = command.replace(word, shlex.quote(path))
    code, out, err = asked(command)
    if "refused" in row:
        assert code != 0, guide
        assert row["refused"] in err
        assert "hint: " in err
        return
    assert code == 0, err
    steps = [step for step in json.loads(out)["steps"] if step["id"].startswith(row["step"])]
    if row.get("by") == "person":
        texts = [f"{step['title']} {step['why']}" for step in steps if step["kind"] == "manual"]
    else:
        texts = [told(step) for step in steps if step["kind"] != "manual"]
    assert any(re.search(row["does"], text, re.MULTILINE) for text in texts), (guide, texts)


def test_the_table_has_every_printed_command() -> None:
    """So many were counted in the guides themselves, which are not ours to copy."""
    counted = {guide: len(rows) for guide, rows in CASES["commands"].items()}
    assert counted == {"8.0.5": 64, "8.9.6": 50}
