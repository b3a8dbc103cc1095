"""Each format of a report is held against its own schema, or read by the reader or validator of its standard."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import xmlschema
from tests.reports.catalogue import REPORTS
from tests.reports.conftest import NODE

from gpustack.verify import api
from gpustack.visible import one_line, visible

Written = Callable[[str], dict[str, Path]]
HERE = Path(__file__).parent


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """Every report of the catalogue in one format, as files."""

    def write(name: str) -> dict[str, Path]:
        paths = {}
        for called, report in REPORTS.items():
            paths[called] = tmp_path / f"{called}.{name}"
            paths[called].write_bytes(api.write(report, name).encode())
        return paths

    return write


def test_junit_holds_to_the_schemas_of_jenkins(written: Written, junit_schemas: list[Path]) -> None:
    assert len(junit_schemas) == 2
    for schema in map(xmlschema.XMLSchema, junit_schemas):
        faults = {name: [str(one) for one in schema.iter_errors(str(path))] for name, path in written("junit").items()}
        assert faults == {name: [] for name in REPORTS}


def test_tap_is_read_by_a_parser_of_version_14(written: Written, modules: Path) -> None:
    """Every point, skip and value arrives as it was meant, whatever the texts hold."""
    paths = written("tap")
    told = subprocess.run(
        [NODE, str(HERE / "tap.cjs"), *map(str, paths.values())],
        env={**os.environ, "NODE_PATH": str(modules)},
        check=True,
        capture_output=True,
    )
    for name, read in zip(paths, json.loads(told.stdout), strict=True):
        checks = REPORTS[name].checks
        assert read["version"] == 14
        # A plan of nothing is, to TAP, all of it skipped.
        assert [event for event, _ in read["extras"]] == [], name
        points = read["points"]
        assert [one["id"] for one in points] == list(range(1, len(checks) + 1)), name
        for check, point in zip(checks, points, strict=True):
            assert point["ok"] is (check.status in {"pass", "skip"})
            assert bool(point.get("skip")) is (check.status == "skip")
            assert not point.get("todo")
            assert point["name"] == one_line(f"{check.id} {check.title}")
            if check.status == "skip" and one_line(check.reason):
                assert point["skip"] == one_line(check.reason)
            if check.status in {"fail", "error"}:
                assert point["diag"]["message"] == check.reason.replace("\x7f", " ")
        assert read["end"]["fail"] == sum(one.status in {"fail", "error"} for one in checks)
        assert read["end"]["failures"] == [one for one in points if not one["ok"]]


def test_html_holds_to_the_standard(written: Written, modules: Path) -> None:
    """The Nu Html Checker, which is the W3C's: no error, no warning, in the page, its style and its charts."""
    command = ["java", "-jar", str(modules / "vnu-jar/build/dist/vnu.jar"), "--format", "json", "--stdout"]
    command.append("--no-langdetect")  # what a page of few words is written in cannot be told
    done = subprocess.run([*command, *map(str, written("html").values())], check=False, capture_output=True)
    found: list[dict[str, Any]] = json.loads(done.stdout)["messages"]
    told = [(Path(one["url"]).stem, one["type"], one["message"], one.get("extract")) for one in found]
    # Remarks on how an odd text is composed are about the text, which is not ours to change.
    assert [one for one in told if one[:2] != ("hostile-unicode", "info")] == []
    assert done.returncode == 0


ANNOTATION = re.compile(r"::(error|notice) title=((?:[^%:,\r\n]|%25|%0D|%0A|%3A|%2C)*)::([^\r\n]*)")
"""A workflow command as the runner of GitHub's Actions takes a line apart: name, property, message."""


def _unescaped(text: str) -> str:
    """What the runner makes of an escaped text; it undoes %25 last."""
    for code, char in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(code, char)
    return text


@pytest.mark.parametrize("name", REPORTS)
def test_github_takes_each_annotation_as_one_command(name: str) -> None:
    report = REPORTS[name]
    text = api.write(report, "github")
    # The runner splits what a step prints at ends of lines of any kind.
    lines = re.split(r"\r\n|\r|\n", text)
    bad = [one for one in report.checks if one.status in {"fail", "error"}][:9]
    commands, rest = lines[: len(bad) + 1], lines[len(bad) + 1 :]
    assert not any(line.startswith("::") or "##[" in line for line in rest)
    for check, line in zip(bad, commands, strict=False):
        match = ANNOTATION.fullmatch(line)
        assert match, line[:200]
        assert match[1] == "error"
        assert _unescaped(match[2]) == one_line(f"{check.id} {check.title}")
        said = check.reason + (f"\nfix: {check.fix}" if check.fix else "")
        assert _unescaped(match[3]) == "\r".join(visible(part) for part in said.split("\r"))
    assert ANNOTATION.fullmatch(commands[-1])
    assert commands[-1].startswith("::notice title=gpustack verify::")


def test_sarif_is_what_github_takes(written: Written, modules: Path, tmp_path: Path) -> None:
    """Microsoft's validator with the rules of GitHub's code scanning: no error in any report."""
    judge = modules / "@microsoft/sarif-multitool-linux/Sarif.Multitool"
    judge.chmod(0o755)  # npm leaves that to a script, which does not run here
    told = tmp_path / "told.sarif"
    command = [str(judge), "validate", *map(str, written("sarif").values()), "--rule-kind", "Sarif;Ghas"]
    done = subprocess.run([*command, "--output", str(told)], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]
    found = json.loads(told.read_text(encoding="utf-8-sig"))["runs"][0]["results"]
    assert [one["ruleId"] for one in found if one.get("level", "warning") == "error"] == []


def test_ctrf_holds_to_its_schema(written: Written, modules: Path) -> None:
    schema = json.loads((modules / "ctrf/dist/ctrf-schema-0.0.json").read_text(encoding="utf-8"))
    import jsonschema  # two seconds, in every worker

    validator = jsonschema.Draft7Validator(schema, format_checker=jsonschema.FormatChecker())
    faults = {
        name: [one.message for one in validator.iter_errors(json.loads(path.read_text(encoding="utf-8")))]
        for name, path in written("ctrf").items()
    }
    assert faults == {name: [] for name in REPORTS}
