"""``gpustack fleet report``: many reports in one; a host of which nothing is proven is a failure."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.cli.conftest import Call

from gpustack.model.fleet import Fleet, Member
from gpustack.model.fleet_report import FleetReport
from gpustack.model.results import CheckResult, Report
from gpustack.verify.frame.report import build_report

REPORTS = Path(__file__).resolve().parents[1] / "fixtures" / "reports"


def saved(name: str) -> Report:
    return msgspec.json.decode((REPORTS / f"{name}.json").read_bytes(), type=Report)


def broken(report: Report, reason: str) -> Report:
    bad = CheckResult(
        id="driver.module", component="driver", status="fail", reason=reason, fix="load it: `modprobe nvidia`"
    )
    return build_report(report.host, (bad, *report.checks[1:]), report.level)


def put(folder: Path, name: str, report: Report) -> None:
    (folder / name).mkdir(parents=True)
    (folder / name / "report.json").write_bytes(msgspec.json.encode(report))


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """Two good hosts, two with the same fault, one whose checks were all skipped, two without a report, one torn."""
    folder = tmp_path / "reports"
    good = saved("h200-two-gpus")
    skips = tuple(one for one in good.checks if one.status == "skip")
    put(folder, "n1", good)
    put(folder, "n2", good)
    put(folder, "n3", broken(good, "the module <b>nvidia</b> is not loaded"))
    put(folder, "n4", broken(good, "the module <b>nvidia</b> is not loaded"))
    put(folder, "n5", build_report(good.host, skips, "quick"))
    put(folder, "n6", good)  # of an earlier run
    (folder / "n8").mkdir()
    (folder / "n8" / "report.json").write_text('{"schema": "gpustack/rep')
    members = [Member(name=name, groups=("gpu",)) for name in ("n1", "n2", "n3", "n4", "n5", "n7", "n8")]
    members.insert(5, Member(name="n6", state="unreachable", reason="ssh: connect to host n6: timed out"))
    (folder / "fleet.json").write_bytes(msgspec.json.encode(Fleet(hosts=tuple(members))))
    return folder


def test_every_host_counts_and_silence_is_a_failure(call: Call, fleet: Path) -> None:
    ended = call("fleet", "report", str(fleet), "--format", "json")
    assert ended.code == 1
    found = json.loads(ended.out)
    assert found["summary"] == {"pass": 2, "fail": 2, "error": 4, "total": 8}
    hosts = {one["name"]: one for one in found["hosts"]}
    assert {name: one["reason"] for name, one in hosts.items() if one["reason"]} == {
        "n5": "no check ran on it: each was skipped",
        "n6": "ssh: connect to host n6: timed out",
        "n7": "it has no report: verification did not run",
        "n8": "its report cannot be read: Input data was truncated",
    }
    assert msgspec.json.decode(ended.out, type=FleetReport).hosts[0].stack["driver"] == "580.159.04"
    assert ended.err == "8 hosts: 2 passed, 2 failed, 4 not proven\n"


def test_a_cause_is_said_once_with_its_hosts(call: Call, fleet: Path) -> None:
    ended = call("fleet", "report", str(fleet))
    lines = ended.out.splitlines()
    assert lines[:3] == [
        "fail   driver.module: the module <b>nvidia</b> is not loaded",
        "       on 2 hosts: n3, n4",
        "       fix: load it: `modprobe nvidia`",
    ]
    assert lines[-1] == "8 hosts: 2 passed, 2 failed, 4 not proven"


def test_a_good_fleet_is_exit_code_0(call: Call, tmp_path: Path) -> None:
    put(tmp_path, "n1", saved("h200-two-gpus"))
    ended = call("fleet", "report", str(tmp_path))
    assert (ended.code, ended.out) == (0, "1 host: 1 passed, 0 failed, 0 not proven\n")


def test_of_a_host_in_two_folders_the_last_counts(call: Call, fleet: Path, tmp_path: Path) -> None:
    for name in ("n3", "n4", "n5", "n6", "n7", "n8"):
        put(tmp_path / "again", name, saved("h200-two-gpus"))
    ended = call("fleet", "report", str(fleet), str(tmp_path / "again"))
    assert (ended.code, ended.out) == (0, "8 hosts: 8 passed, 0 failed, 0 not proven\n")


def test_junit_has_a_suite_for_each_host(call: Call, fleet: Path) -> None:
    root = ET.fromstring(call("fleet", "report", str(fleet), "--format", "junit").out)  # noqa: S314 (ours)
    suites = {one.get("name"): one for one in root}
    assert sorted(map(str, suites)) == [f"n{number}" for number in range(1, 9)]
    assert (suites["n1"].get("failures"), suites["n1"].get("errors"), suites["n3"].get("failures")) == ("0", "0", "1")
    lost = suites["n7"].find("testcase/error")
    assert lost is not None
    assert lost.get("message") == "it has no report: verification did not run"
    assert int(root.get("tests") or 0) == len(root.findall("*/testcase"))


def test_metrics_are_read_by_prometheus(call: Call, fleet: Path) -> None:
    text = call("fleet", "report", str(fleet), "--format", "prometheus").out
    found = {
        (one.name, *one.labels.values()): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }
    assert found["gpustack_fleet_hosts", "error"] == 4.0
    assert (found["gpustack_fleet_host_passed", "n1"], found["gpustack_fleet_host_passed", "n6"]) == (1.0, 0.0)
    assert found["gpustack_fleet_checks", "driver.module", "fail"] == 2.0


def test_hostile_words_stay_text_in_the_page(call: Call, fleet: Path, tmp_path: Path) -> None:
    put(tmp_path, "n9", broken(saved("h200-two-gpus"), "</script><script>alert(1)</script>"))
    page = tmp_path / "fleet.html"
    assert call("fleet", "report", str(fleet), str(tmp_path), "--output", str(page)).code == 1
    text = page.read_text(encoding="utf-8")
    assert text.count("<script") == text.count("</script>") == 2
    assert "<b>nvidia" not in text
    assert "alert(1)" in text


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("nothing", "error[no-reports]: "),
        ("no folder", "error[unreadable-folder]: "),
        ("a torn list", "error[unreadable-fleet]: "),
    ],
)
def test_a_wrong_folder_is_refused(call: Call, tmp_path: Path, what: str, words: str) -> None:
    folder = tmp_path / "given"
    if what != "no folder":
        folder.mkdir()
    if what == "a torn list":
        (folder / "fleet.json").write_text("{")
    ended = call("fleet", "report", str(folder))
    assert ended.is_told(2)
    assert ended.err.startswith(words)
