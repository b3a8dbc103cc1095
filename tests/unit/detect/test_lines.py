"""Lines of logs that no row describes: what each says by itself, and lines of healthy hosts, of which nothing is said."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.reading import cases_in

from gpustack.detect.build import host_of
from gpustack.detect.evidence import Evidence
from gpustack.detect.gather import gather
from gpustack.detect.problems.grammar import Status, cause
from gpustack.detect.problems.phrases import Phrase
from gpustack.detect.problems.programs import Program
from gpustack.detect.scene import build_scene
from gpustack.detect.services import ServiceReader
from gpustack.detect.tree import Tree
from gpustack.matrix.index import Matrix, load_matrix

CASES: dict[str, Any] = cases_in(Path(__file__).parents[2] / "cases/log-lines.yaml")
HEALTHY: dict[str, list[str]] = cases_in(Path(__file__).parents[2] / "cases/healthy-logs.yaml")["logs"]
HOST = Path(__file__).parents[2] / "fixtures/hosts/healthy-ubuntu2404/root"
PLAIN = {"id", "wants", "says", "fix", "src", "severity"}
"""The fields of a row that describes a message and no host."""

UNEXPLAINED = "detect-unexplained-log"


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix()


def told(matrix: Matrix, *lines: str, marks: dict[str, str] | None = None) -> list[str]:
    """What is said of a host whose log has these lines, and nothing else."""
    files = {
        "/etc/os-release": 'ID=ubuntu\nVERSION_ID="24.04"\n',
        "/var/log/syslog": "".join(f"Nov  1 10:00:00 h {line}\n" for line in lines),
    }
    found = host_of(Evidence(files=files, marks=marks or {}), matrix).problems
    assert all(problem.severity == "info" for problem in found if problem.id == UNEXPLAINED)
    return [f"{problem.message} | {problem.fix}" for problem in found if problem.id == UNEXPLAINED]


@pytest.mark.parametrize("case", CASES["judged"], ids=lambda case: case["line"][:60])
def test_a_line_says_its_cause(case: dict[str, Any], matrix: Matrix) -> None:
    scene = build_scene(Evidence(files={"/etc/os-release": 'ID=ubuntu\nVERSION_ID="24.04"\n'}), matrix)
    found = cause(scene, case["line"])
    assert found is not None
    said = f"{found.says} | {found.fix}"
    assert [words for words in case["tells"] if words not in said] == []


def test_a_line_that_a_phrase_finds_holds_one_of_its_words(matrix: Matrix) -> None:
    rows = matrix.rows("log-lines", "phrases", Phrase)
    lines = [case["line"] for case in CASES["judged"]]
    found = [(row, line) for row in rows for line in lines if re.search(row.like, line)]
    assert len(found) > 100
    assert [(row.id, line) for row, line in found if not any(word in line.lower() for word in row.words)] == []


def test_failures_of_every_program_are_told_as_its_own_and_what_it_writes_else_is_not(matrix: Matrix) -> None:
    rows = matrix.rows("log-lines", "programs", Program)
    assert {row.id for row in rows} == set(CASES["programs"])
    wrong = []
    for row in rows:
        fails, well = CASES["programs"][row.id]["fails"], CASES["programs"][row.id]["well"]
        assert len(set(fails)) >= 3
        assert len(set(well)) >= 2
        assert all(re.search(row.like, line) for line in (*fails, *well)), row.id
        wrong += [line for line in fails if not any(row.what in one or row.fix in one for one in told(matrix, line))]
        wrong += [line for line in well if told(matrix, line)]
    assert wrong == []


def test_lines_of_healthy_hosts_are_not_told(matrix: Matrix) -> None:
    assert told(matrix, *CASES["silent"]) == []


@pytest.mark.parametrize("place", HEALTHY)
def test_nothing_is_said_of_the_logs_of_a_healthy_machine(place: str, matrix: Matrix, tmp_path: Path) -> None:
    shutil.copytree(HOST, tmp_path, symlinks=True, dirs_exist_ok=True)
    log = tmp_path / place.lstrip("/")
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("".join(f"{line}\n" for line in HEALTHY[place]))
    assert [problem.message for problem in host_of(gather(tmp_path), matrix).problems] == []


def test_a_message_of_the_kernel_is_told_where_its_words_say_the_cause(matrix: Matrix) -> None:
    crash = "kernel: nv-hostengine[12]: segfault at 0 ip 00007f01 sp 00007f02 error 4 in libdcgm.so.3[7f+1]"
    assert "a program crashed" in told(matrix, crash)[0]
    assert told(matrix, "kernel: nvidia-frob: unknown thing 12") == []


def test_alike_lines_are_counted_and_only_the_gravest_are_told(matrix: Matrix) -> None:
    vague = [f"svc[{number}]: nvidia-{name}: ERROR: it is upside down" for number, name in enumerate("abcdefgh")]
    clear = [f"svc[{number}]: cudnn error: CUDNN_STATUS_EXECUTION_FAILED" for number in range(3)]
    said = told(matrix, *vague, *clear)
    assert len(said) == 5
    assert "an operation of cuDNN failed" in said[0]
    assert "(/var/log/syslog, 3 times" in said[0]


def test_a_file_that_a_line_names_is_searched_in_the_tree(matrix: Matrix, tmp_path: Path) -> None:
    (tmp_path / "opt").mkdir()
    (tmp_path / "opt/there.yaml").write_text("x")
    line = "nvidia-x: failed to open /opt/there.yaml and /opt/gone.yaml: no such file or directory"
    marks = ServiceReader(Tree(str(tmp_path)), {"/var/log/syslog": line}).named()
    assert marks == {"named /opt/there.yaml": "there", "named /opt/gone.yaml": "absent"}
    assert told(matrix, line, marks=marks)[0].startswith("/opt/gone.yaml was missing")


def test_every_message_of_a_row_without_conditions_is_told_and_not_twice(matrix: Matrix) -> None:
    rows = [row for row in matrix.rows("driver-errors", "service_log", dict) if set(row) <= PLAIN]
    lines = [f"svc[{number}]: {' ... '.join(row['wants'])}" for number, row in enumerate(rows)]
    files = {"/var/log/syslog": "".join(f"Nov  1 10:00:00 h {line}\n" for line in lines)}
    found = host_of(Evidence(files=files), matrix).problems
    said = {problem.message.partition(" (/var/log")[0] for problem in found}
    assert [row["id"] for row in rows if row["says"] not in said] == []
    assert [problem.message for problem in found if problem.id == UNEXPLAINED] == []


def test_every_name_of_an_error_has_one_meaning(matrix: Matrix) -> None:
    rows = matrix.rows("log-lines", "statuses", Status)
    names = [name for row in rows for name in row.names]
    codes = [code for row in rows for code in row.codes]
    assert len(names) == len(set(names)) > 250
    assert len(codes) == len(set(codes)) > 100
    known = {row["code"] for row in matrix.rows("driver-errors", "cuda", dict)}
    assert {row.same for row in rows if row.same} <= known
    assert all(row.same or (row.cause and row.fix) for row in rows)
