"""Every format of a report, with texts that try to break it."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpustack import __version__
from gpustack.errors import UsageError
from gpustack.matrix.index import Matrix
from gpustack.model.host import Gpu, Host, OperatingSystem
from gpustack.model.results import CheckResult, Measurement, Report
from gpustack.verify import api
from gpustack.verify.frame.report import build_report, exit_code

PLAIN = (
    CheckResult(
        id="driver.module", component="driver", status="pass", title="module", detail="nvidia 550", duration_s=0.5
    ),
    CheckResult(
        id="driver.version",
        component="driver",
        status="fail",
        title="one version",
        reason="module 550, library 560",
        detail="The module has to be built.",
        fix="`sudo reboot`",
        expected="one version",
        actual="two",
    ),
    CheckResult(
        id="cuda.toolkit", component="cuda", status="skip", title="found", reason="no toolkit", fix="install it"
    ),
    CheckResult(id="cuda.gpu", component="cuda", status="error", title="gpu", reason="the check itself broke"),
)
HOSTILE = "a\n::error::b\r%0A,: <&\"'> ]]> \x00\x1b[31m\x7f # \\ \ud800 é 中 \u2028"


def report(*checks: CheckResult) -> Report:
    return build_report(Host(), checks, "quick", started="2026-11-21T10:00:00+00:00")


def hostile(text: str) -> Report:
    return report(
        *(
            CheckResult(
                id=f"driver.{status}",
                component="driver",
                status=status,
                title=text,
                reason=text,
                fix=text,
                detail=text,
                expected=text,
                actual=text,
                measurements={text: Measurement(value=1.5, unit=text), "word": Measurement(value=text)},
            )
            for status in ("pass", "fail", "skip", "error")
        )
    )


TEXT = """\
pass   driver.module   nvidia 550
fail   driver.version  one version
       module 550, library 560
       The module has to be built.
       fix: `sudo reboot`
skip   cuda.toolkit    no toolkit
       fix: install it
error  cuda.gpu        gpu
       the check itself broke

4 checks: 1 passed, 1 failed, 1 skipped, 1 could not run
not proven: that anything runs on a GPU: this host has none
"""


def test_text() -> None:
    assert api.write(report(*PLAIN), "text") == TEXT
    again = msgspec.structs.replace(PLAIN[2], id="cuda.again")
    assert api.write(report(PLAIN[2], again), "text").count("fix: install it") == 1
    assert api.write(report(), "text").startswith("0 checks: nothing ran\n")
    assert "\n\n1 check: 1 passed\n" in api.write(report(PLAIN[0]), "text")


def test_text_says_what_was_not_proven() -> None:
    there = msgspec.structs.replace(report(PLAIN[0]), host=Host(gpus=(Gpu(name="L4"),)))
    ends = {
        "quick": "not proven: that a GPU computes; `--level smoke` runs programs on it\n",
        "smoke": "1 check: 1 passed\n",
    }
    for level, last in ends.items():
        assert api.write(msgspec.structs.replace(there, level=level), "text").endswith(f"\n{last}")  # type: ignore[arg-type]


def test_text_in_colour_is_the_same_text() -> None:
    coloured = api.write(report(*PLAIN), "text", colour=True)
    assert coloured.startswith("\x1b[32mpass \x1b[0m  driver.module")
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == TEXT


def test_text_lets_no_host_steer_the_terminal() -> None:
    written = api.write(hostile(HOSTILE), "text")
    assert all(char.isprintable() or char == "\n" for char in written)
    assert len(written.splitlines()) == 14


def test_json_is_the_whole_document() -> None:
    document = json.loads(api.write(report(*PLAIN), "json"))
    assert document["schema"] == "gpustack/report/v1"
    assert document["version"] == __version__
    assert document["summary"] == {"pass": 1, "fail": 1, "skip": 1, "error": 1, "total": 4}
    assert document["stack"] == {"driver": None, "cuda": None}
    assert {"id", "component", "status", "duration_s", "reason", "detail", "measurements", "evidence"} <= set(
        document["checks"][0]
    )
    assert msgspec.json.decode(api.write(report(*PLAIN), "json"), type=Report) == report(*PLAIN)


SUITES = {"name", "tests", "failures", "errors", "time"}
SUITE = {*SUITES, "skipped", "timestamp"}
CASE = {"name", "classname", "time"}
CHILDREN = {"skipped": {"message"}, "failure": {"message", "type"}, "error": {"message", "type"}, "system-out": set()}
"""What the schema of Jenkins' JUnit readers knows and we use: attributes by element."""


def assert_junit(text: str) -> ET.Element:
    root = ET.fromstring(text)  # noqa: S314 (written a line ago)
    assert root.tag == "testsuites"
    assert set(root.attrib) == SUITES
    cases = 0
    for suite in root:
        assert suite.tag == "testsuite"
        assert set(suite.attrib) - {"hostname"} == SUITE
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.attrib["timestamp"])
        told, *own = suite
        assert told.tag == "properties"
        assert all(one.tag == "property" and set(one.attrib) == {"name", "value"} for one in told)
        assert int(suite.attrib["tests"]) == len(own)
        for tag, name in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            assert len(suite.findall(f"testcase/{tag}")) == int(suite.attrib[name])
        for case in own:
            assert case.tag == "testcase"
            assert set(case.attrib) == CASE
            assert case.attrib["classname"] == suite.attrib["name"]
            assert len(case) <= 1
            assert all(set(child.attrib) == CHILDREN[child.tag] for child in case)
            float(case.attrib["time"])
        cases += len(own)
    assert int(root.attrib["tests"]) == cases
    return root


def test_junit() -> None:
    root = assert_junit(api.write(report(*PLAIN), "junit"))
    assert root.attrib == {"name": "gpustack verify", "tests": "4", "failures": "1", "errors": "1", "time": "0.500"}
    failure = root.find("testsuite/testcase/failure")
    assert failure is not None
    assert failure.attrib == {"message": "module 550, library 560", "type": "check failed"}
    assert failure.text == (
        "module 550, library 560\nThe module has to be built.\nexpected: one version\nactual: two\nfix: `sudo reboot`"
    )
    assert [child.tag for child in root.iter() if child.tag in CHILDREN] == [
        "system-out",
        "failure",
        "skipped",
        "error",
    ]


def test_junit_names_the_host_what_was_measured_and_what_is_not_proven() -> None:
    measured = msgspec.structs.replace(PLAIN[0], measurements={"gpu0-power": Measurement(value=71.5, unit="W")})
    written = msgspec.structs.replace(report(measured, *PLAIN[1:]), host=Host(name="node-7"), stack={"driver": "550.1"})
    root = assert_junit(api.write(written, "junit"))
    assert [suite.attrib["hostname"] for suite in root] == ["node-7", "node-7"]
    told = {one.attrib["name"]: one.attrib["value"] for one in root[0][0]}
    assert told == {
        "version": "550.1",
        "level": "quick",
        "not-proven": "not proven: that anything runs on a GPU: this host has none",
        "driver.module.gpu0-power": "71.5 W",
    }


def test_junit_holds_any_text() -> None:
    root = assert_junit(api.write(hostile(HOSTILE), "junit"))
    skip = root.find("testsuite/testcase/skipped")
    assert skip is not None
    assert skip.attrib["message"] == re.sub("[\x00\x1b\ud800]", "\ufffd", HOSTILE)


@settings(deadline=None)
@given(st.text(st.characters()))
def test_every_format_holds_any_text(text: str) -> None:
    given_report = hostile(text)
    assert_junit(api.write(given_report, "junit"))
    for name in ("text", "tap", "github", "prometheus", "markdown"):
        assert api.write(given_report, name).endswith("\n")
    assert_prometheus(api.write(given_report, "prometheus"))
    assert_tap(api.write(given_report, "tap"), 4)


def assert_tap(text: str, count: int) -> list[str]:
    lines = text.removesuffix("\n").split("\n")
    assert lines[:2] == ["TAP version 14", f"1..{count}"]
    points: list[str] = []
    inside = False
    for line in lines[2:]:
        if inside:
            inside = line != "  ..."
            if inside:
                key, value = re.fullmatch(r"  (\w+): (.*)", line, re.DOTALL).groups()  # type: ignore[union-attr]
                assert key in {"status", "message", "fix", "expected", "actual"}
                assert isinstance(json.loads(value), str)
        elif line == "  ---":
            inside = True
        else:
            match = re.fullmatch(r"(not ok|ok) (\d+) - ((?:[^\\#\n]|\\\\|\\#|#(?= SKIP))*)", line)
            assert match, line
            assert int(match[2]) == len(points) + 1
            points.append(line)
    assert not inside
    assert len(points) == count
    return points


def test_tap() -> None:
    points = assert_tap(api.write(report(*PLAIN), "tap"), 4)
    assert points == [
        "ok 1 - driver.module module",
        "not ok 2 - driver.version one version",
        "ok 3 - cuda.toolkit found # SKIP no toolkit",
        "not ok 4 - cuda.gpu gpu",
    ]
    assert '  message: "module 550, library 560"\n  fix: "`sudo reboot`"\n' in api.write(report(*PLAIN), "tap")
    assert_tap(api.write(hostile(HOSTILE), "tap"), 4)


NO_GPU = "not proven: that anything runs on a GPU: this host has none"


def test_github() -> None:
    """Failures are annotations; skips are in the sum only."""
    assert api.write(report(*PLAIN), "github").splitlines() == [
        "::error title=driver.version one version::module 550, library 560%0Afix: `sudo reboot`",
        "::error title=cuda.gpu gpu::the check itself broke",
        f"::notice title=gpustack verify::4 checks: 1 passed, 1 failed, 1 skipped, 1 could not run%0A{NO_GPU}",
        "4 checks: 1 passed, 1 failed, 1 skipped, 1 could not run",
        NO_GPU,
    ]


def test_github_shows_ten_annotations_at_most() -> None:
    many = [msgspec.structs.replace(PLAIN[1], id=f"driver.n{number}") for number in range(30)]
    lines = api.write(report(*many), "github").splitlines()
    assert [line for line in lines if line.startswith("::")] == lines[:10]
    assert lines[10] == "fail: driver.n9: module 550, library 560"
    assert sum(line.startswith("fail: ") for line in lines) == 21
    assert lines[-1] == "21 further failures are in the log"


def test_github_is_one_command_a_line() -> None:
    lines = api.write(hostile("a\r\n::set-output name=x::y % : ,"), "github").split("\n")
    assert lines[0] == (
        "::error title=driver.fail a %3A%3Aset-output name=x%3A%3Ay %25 %3A %2C::a%0D%0A::set-output name=x::y %25 : ,"
        "%0Afix: a%0D%0A::set-output name=x::y %25 : ,"
    )
    assert len(lines) == 6


def test_markdown() -> None:
    host = Host(name="node-7", os=OperatingSystem(name="Debian"))
    text = api.write(msgspec.structs.replace(report(*PLAIN), host=host), "markdown")
    assert text.startswith(
        "## gpustack verify\n\n**4 checks: 1 passed, 1 failed, 1 skipped, 1 could not run** at level quick on node\\-7, Debian\n\n"
        "> not proven\\: that anything runs on a GPU\\: this host has none\n\n| failed | why | fix |\n"
    )
    assert "| driver\\.version | module 550, library 560 | `sudo reboot` |\n" in text
    assert "| skipped | cuda\\.toolkit | no toolkit |\n" in text


def test_markdown_holds_any_text_in_one_cell() -> None:
    text = api.write(hostile("a | b\n| `c | d` <img src=x> [e](f) @g `h"), "markdown")
    rows = [line for line in text.splitlines() if line.startswith("| failed | driver")]
    assert len(rows) == 1
    assert len(re.findall(r"(?<!\\)\|", rows[0])) == 4
    assert not re.search(r"(?<!\\)[<@\[]", rows[0])


def test_ctrf() -> None:
    document = json.loads(api.write(report(*PLAIN), "ctrf"))
    assert document["results"]["summary"] == {
        "tests": 4, "passed": 1, "failed": 1, "skipped": 1, "other": 1, "pending": 0,
        "start": 1795255200000, "stop": 1795255200500,
    }  # fmt: skip
    bad = document["results"]["tests"][1]
    assert (bad["name"], bad["status"], bad["suite"]) == ("driver.version", "failed", ["driver"])
    assert (bad["message"], bad["extra"]["fix"]) == ("module 550, library 560", "`sudo reboot`")
    assert document["results"]["environment"]["extra"] == {"notProven": NO_GPU}


SAMPLE = re.compile(r'([a-z_0-9]+)\{((?:[a-z_]+="(?:[^"\\\n]|\\\\|\\"|\\n)*",?)*)\} (\S+)')


def assert_prometheus(text: str) -> dict[str, float]:
    """A reader of the text exposition format: every line, and each family in one piece behind its TYPE."""
    samples: dict[str, float] = {}
    family = ""
    seen: set[str] = set()
    for line in text.removesuffix("\n").split("\n"):
        if line.startswith("# TYPE "):
            family = line.split(" ")[2]
            assert family not in seen
            seen.add(family)
        elif not line.startswith("# HELP "):
            match = SAMPLE.fullmatch(line)
            assert match, line
            assert match[1] == family
            key = f"{match[1]}{{{match[2]}}}"
            assert key not in samples
            samples[key] = float(match[3])
    return samples


def test_prometheus() -> None:
    samples = assert_prometheus(api.write(report(*PLAIN), "prometheus"))
    head = 'gpustack_check_status{check="driver.version",component="driver",level="quick",status='
    assert [samples[f'{head}"{status}"}}'] for status in ("pass", "fail", "skip", "error")] == [0, 1, 0, 0]
    assert samples['gpustack_check_duration_seconds{check="driver.module"}'] == 0.5
    assert samples['gpustack_checks{status="error"}'] == 1
    assert samples['gpustack_verify_start_timestamp_seconds{level="quick"}'] == 1795255200.0
    assert samples['gpustack_gpus{level="quick"}'] == 0.0
    escaped = assert_prometheus(api.write(hostile('a"b\\c\nd'), "prometheus"))
    assert escaped['gpustack_measured_a_b_c_d{check="driver.pass"}'] == 1.5


def test_prometheus_can_sum_over_gpus() -> None:
    """The GPU is a label and the unit, a base unit, is a part of the name."""
    measured = {
        "gpu0-power": Measurement(value=70, unit="W"),
        "gpu1-power": Measurement(value=80.5, unit="W"),
        "gpu0-memory-used": Measurement(value=2, unit="MiB"),
        "gpu0-copy-to-gpu-1": Measurement(value=391.5, unit="GB/s"),
        "gpu0-ratio": Measurement(value=0.8, unit="of datasheet"),
        "fp16-gpu3": Measurement(value=1.5, unit="TFLOP/s"),
        "My Rate": Measurement(value=4, unit="Widgets/min"),
        "my-rate": Measurement(value=5, unit="Widgets/min"),
        "corrected": Measurement(value=0, unit="errors"),
        "word": Measurement(value="text"),
    }
    samples = assert_prometheus(
        api.write(report(msgspec.structs.replace(PLAIN[0], measurements=measured)), "prometheus")
    )
    assert {name: value for name, value in samples.items() if "_measured_" in name} == {
        'gpustack_measured_power_watts{check="driver.module",gpu="0"}': 70.0,
        'gpustack_measured_power_watts{check="driver.module",gpu="1"}': 80.5,
        'gpustack_measured_memory_used_bytes{check="driver.module",gpu="0"}': 2097152.0,
        'gpustack_measured_copy_bytes_per_second{check="driver.module",gpu="0",peer="1"}': 391.5e9,
        'gpustack_measured_ratio{check="driver.module",gpu="0"}': 0.8,
        'gpustack_measured_fp16_flop_per_second{check="driver.module",gpu="3"}': 1.5e12,
        'gpustack_measured_my_rate_widgets_per_min{check="driver.module"}': 4.0,
        'gpustack_measured_my_rate_widgets_per_min{check="driver.module",name="my-rate"}': 5.0,
        'gpustack_measured_corrected_errors{check="driver.module"}': 0.0,
    }


def test_no_other_format() -> None:
    with pytest.raises(UsageError) as caught:
        api.write(report(), "xml")
    assert (caught.value.message, caught.value.exit_code) == ("unknown report format 'xml'", 2)
    assert caught.value.hint == "known: text, json, junit, tap, github, sarif, html, prometheus, markdown, ctrf"


def test_exit_codes() -> None:
    assert [exit_code(report(one)) for one in PLAIN] == [0, 1, 0, 1]


def test_verify_reports_the_stack_that_was_found(matrix: Matrix, healthy: Host) -> None:
    found = api.verify(("cuda", "cudnn"), "quick", healthy, matrix, None, started="2026-11-21T10:00:00+00:00")
    assert found.stack == {"cuda": "12.4.1", "cudnn": "9.1.0.70"}
    assert (found.level, found.started, found.host) == ("quick", "2026-11-21T10:00:00+00:00", healthy)
    assert exit_code(found) == 0
    assert api.verify((), "quick", healthy, matrix, None).started.endswith("+00:00")


def test_every_format_has_a_module_and_every_module_a_format() -> None:
    folder = Path(api.__file__).parent / "writers"
    assert {path.stem for path in folder.glob("*.py")} - {"__init__"} == {
        "text", "document", "junit", "tap", "github", "sarif", "html", "prometheus", "markdown", "ctrf"
    }  # fmt: skip
    assert set(api.FORMATS) == {
        "text",
        "json",
        "junit",
        "tap",
        "github",
        "sarif",
        "html",
        "prometheus",
        "markdown",
        "ctrf",
    }
