"""Lines of logs that no row describes: what each says by itself, and lines of healthy hosts, of which nothing is said."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.finding_goldens import GOLDEN, text
from tests.matching import lines_of
from tests.reading import cases_in

from gpustack.detect.build import host_of
from gpustack.detect.evidence import Evidence
from gpustack.detect.gather import gather
from gpustack.detect.log_words import WORDS
from gpustack.detect.problems.demands import plan_for
from gpustack.detect.problems.grammar import Status, cause
from gpustack.detect.problems.phrases import Cause, Phrase
from gpustack.detect.problems.programs import Program
from gpustack.detect.scene import build_scene
from gpustack.detect.services import ServiceReader, about_gpus
from gpustack.detect.tree import Tree
from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.host import Problem

CASES: dict[str, Any] = cases_in(Path(__file__).parents[2] / "cases/log-lines.yaml")
HEALTHY: dict[str, list[str]] = cases_in(Path(__file__).parents[2] / "cases/healthy-logs.yaml")["logs"]
HOST = Path(__file__).parents[2] / "fixtures/hosts/healthy-ubuntu2404/root"
PLAIN = {"id", "wants", "says", "fix", "src", "severity"}
"""The fields of a row that describes a message and no host."""

UNEXPLAINED = "detect-unexplained-log"


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix()


WITH_GPU = {f"/sys/bus/pci/devices/0000:01:00.0/{name}": text for name, text in
            (("vendor", "0x10de\n"), ("device", "0x2330\n"), ("class", "0x030200\n"))}  # fmt: skip


GENERAL = {
    "akmods-kernel",
    "any-another-part-answer",
    "any-another-port-already",
    "any-call-system-missing",
    "any-code",
    "any-crashed",
    "any-disk-shared-memory",
    "any-folder-written-read",
    "any-image-file-name",
    "any-library-empty-damaged",
    "any-memory-full",
    "any-module-file-use",
    "any-registry-server-refuses",
    "any-sees",
    "any-server-certificate-trusted",
    "any-service-other-end",
    "any-system-had-memory",
    "any-system-refused-memory",
    "any-too-old",
    "any-two-parts-have",
    "apt-clock",
    "compile-api-gone",
    "compile-cccl",
    "compositor-seat",
    "dcgm-nscq",
    "dnn-missing",
    "docker-both",
    "docker-option-one-word",
    "docker-value-as-image",
    "drm-memory",
    "dxvk-feature",
    "errno-eafnosupport",
    "errno-econnreset",
    "errno-eexist",
    "errno-efault",
    "errno-einval-mount",
    "errno-eio",
    "errno-ekeyrejected",
    "errno-emfile",
    "errno-emsgsize",
    "errno-enetunreach",
    "errno-enotdir",
    "errno-enxio",
    "errno-eopnotsupp",
    "errno-esrch",
    "errno-estale",
    "errno-exdev",
    "ext-part-missing",
    "fault-laptop-change-between",
    "fault-opengl-bit-libraries",
    "fault-refused-map-memory",
    "fault-refused-suspend-hibernate",
    "ff-configure",
    "ff-scale-format",
    "fp8-old-gpu",
    "graphics-crashed-session",
    "graphics-jetson-memory-device",
    "graphics-kwin-cannot-show",
    "graphics-snap-uses-graphics",
    "graphics-wants-newer-than",
    "graphics-x-mosaic",
    "gst-element",
    "install-decoder-nvdec-support",
    "install-nvidia-installer-gave",
    "install-nvidia-persistenced-found",
    "install-repository-key-missing",
    "install-secure-boot-refuses",
    "install-still-requires-parts",
    "install-two-packages-have",
    "installer-damaged",
    "installer-kmod",
    "installer-sign",
    "jax-outdated",
    "jax-unloaded",
    "kernel-other-gpu",
    "nct-config-dump",
    "nvml-access",
    "nvml-argument",
    "nvml-driver",
    "nvml-lost",
    "nvml-unknown",
    "nvml-use",
    "nvml-versions",
    "op-drain",
    "pve-mdev",
    "pve-used",
    "runc-read",
    "torch-driver-api",
    "triton-link",
    "triton-shared-memory",
    "triton-tcc",
    "trt-internal",
    "trt-plan",
    "vfio-group-device",
    "vllm-all-reduce",
    "win-dll-126",
    "win-dll-absent",
}
"""Rows that are read in logs of single programs alone: their words would fill the log of all with other lines."""


PLAIN_HOST = {"/etc/os-release": 'ID=ubuntu\nVERSION_ID="24.04"\n'}


def found_in(matrix: Matrix, *lines: str, marks: dict[str, str] | None = None) -> tuple[Problem, ...]:
    """The findings on a host whose log has these lines, and nothing else."""
    files = {**PLAIN_HOST, "/var/log/syslog": "".join(f"Nov  1 10:00:00 h {line}\n" for line in lines)}
    return host_of(Evidence(files=files, marks=marks or {}), matrix).problems


def told(matrix: Matrix, *lines: str, marks: dict[str, str] | None = None) -> list[str]:
    """What is said of these lines where no row describes them."""
    found = found_in(matrix, *lines, marks=marks)
    assert all(problem.severity == "info" for problem in found if problem.id == UNEXPLAINED)
    return [f"{problem.message} | {problem.fix}" for problem in found if problem.id == UNEXPLAINED]


@pytest.mark.parametrize("case", CASES["judged"], ids=lambda case: case["line"][:60])
def test_a_line_says_its_cause(case: dict[str, Any], matrix: Matrix) -> None:
    scene = build_scene(Evidence(files=PLAIN_HOST), matrix)
    found = cause(scene, case["line"])
    assert found is not None
    said = f"{found.says} | {found.fix}"
    assert [words for words in case["tells"] if words not in said] == []


def test_all_that_is_said_of_each_line_is_golden(matrix: Matrix, update_golden: bool) -> None:
    """On a host with nothing but the line, and inside a container of a host that has driver and toolkit."""
    plain, full = build_scene(Evidence(files=PLAIN_HOST), matrix), build_scene(gather(HOST), matrix)
    lines = [case["line"] for case in CASES["judged"]]
    lines += [line for program in CASES["programs"].values() for line in program["fails"]]
    blocks = []
    for line in dict.fromkeys(lines):
        said = [f"{problem.id}\n{text(problem)}" for problem in found_in(matrix, line)]
        alone, inside = cause(plain, line), cause(full, line, inside=True)
        mark = "no cause" if alone is None else "sure" if alone.sure else "not sure"
        others = [one for one in (alone, inside) if one is not None]
        rest = dict.fromkeys(_whole(one) for one in others if not _is_in(one, said))
        blocks.append("\n".join([line, *said, mark, *rest]))
    place = GOLDEN / "lines.txt"
    if update_golden:
        place.write_text("\n\n".join(blocks) + "\n", "utf-8")
    held = place.read_text("utf-8").rstrip("\n").split("\n\n")
    begun = {block.partition("\n")[0] for block in held}
    # Lines that the golden does not have yet are asserted by their own tests alone.
    said = [block for block in blocks if block.partition("\n")[0] in begun]
    assert [block for block in said if block not in held] == [], "read, then run with --update-golden"
    assert said == held


def _is_in(one: Cause, said: list[str]) -> bool:
    return any(one.says in words and one.fix in words for words in said)


def _whole(one: Cause) -> str:
    return f"{one.says} | {one.fix} | {'sure' if one.sure else 'not sure'} | {' '.join(one.src)}"


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


@pytest.mark.parametrize(
    ("line", "driver"),
    {
        "unsatisfied condition: cuda>=11.0": "450.36.06",
        "unsatisfied condition: cuda>=12.0": "525.60.13",
        "unsatisfied condition: cuda >= 12.4": "550.54.14",
        "unsatisfied condition: cuda>=13.0": "580.65.06",
        "unsatisfied condition: cuda>=99.0": "",
        "Driver does not support the required nvenc API version. Required: 12.2 Found: 11.1": "550.54.14",
        "Driver does not support the required nvenc API version. Required: 99.0 Found: 12.2": "",
    }.items(),
)
def test_a_line_demands_the_driver_of_the_release_that_it_names(line: str, driver: str, matrix: Matrix) -> None:
    scene = build_scene(Evidence(files=PLAIN_HOST), matrix)
    assert plan_for(scene, line) == (f"`gpustack plan 'driver>={driver}'`" if driver else "")


def test_every_name_of_an_error_has_one_meaning(matrix: Matrix) -> None:
    rows = matrix.rows("log-lines", "statuses", Status)
    names = [name for row in rows for name in row.names]
    codes = [code for row in rows for code in row.codes]
    assert len(names) == len(set(names)) > 250
    assert len(codes) == len(set(codes)) > 100
    known = {row["code"] for row in matrix.rows("driver-errors", "cuda", dict)}
    assert {row.same for row in rows if row.same} <= known
    assert all(row.same or (row.cause and row.fix) for row in rows)


def _lines_of_rows(matrix: Matrix) -> dict[str, list[str]]:
    """Lines that rows of the facts find, by their id: of each alternative one, also in lower and upper case."""
    rows = matrix.rows("log-lines", "phrases", dict)
    found = {row["id"]: lines_of(row["like"]) for row in rows}
    assert [name for name, lines in found.items() if not lines] == []
    for row in matrix.rows("log-lines", "statuses", dict):
        about = lines_of(row["about"])[0] if row.get("about") else "CUDA error:"
        found[row["id"]] = [*row.get("names", ()), *(f"{about} {text}" for text in row.get("texts", ()))]
    for row in matrix.rows("driver-errors", "cuda", dict):
        found[row["name"]] = [row["name"], *([row["text"]] if row.get("text") else [])]
    return {
        name: [form for line in some for form in (line, line.lower(), line.upper())] for name, some in found.items()
    }


def test_what_rows_find_is_read_in_the_log_of_a_program(matrix: Matrix) -> None:
    lines = [line for forms in _lines_of_rows(matrix).values() for line in forms]
    unread = [f"Nov  1 10:00:00 h {line}" for line in lines if not about_gpus(line.encode(), failures=True)]
    files = {"/etc/os-release": 'ID=ubuntu\nVERSION_ID="24.04"\n', "/root/run.log": "\n".join(unread), **WITH_GPU}
    listings = {"/sys/bus/pci/devices": ("0000:01:00.0",)}
    found = host_of(Evidence(files=files, listings=listings), matrix).problems
    assert [problem.message for problem in found if problem.id in {UNEXPLAINED, "detect-service-log"}] == []


def test_what_rows_find_is_read_in_the_log_of_all(matrix: Matrix) -> None:
    """But for rows whose words stand in lines about anything."""
    rows = _lines_of_rows(matrix).items()
    unread = {name for name, lines in rows if not all(about_gpus(one.encode()) for one in lines)}
    assert unread == GENERAL


def test_no_word_is_looked_for_twice() -> None:
    assert [word for word, times in Counter(WORDS).items() if times > 1] == []


def test_every_text_of_a_message_of_services_is_read(matrix: Matrix) -> None:
    for row in matrix.rows("driver-errors", "service_log", dict):
        lines = [" ".join((*row["wants"], words)) for words in row.get("any", ("",))]
        forms = {form for line in lines for form in (line, line.lower(), line.upper())}
        forms |= {" ".join(row.get("mended", ())), *row.get("unless", ())} - {""}
        assert [form for form in sorted(forms) if not about_gpus(form.encode())] == [], row["id"]
