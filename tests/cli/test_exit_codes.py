"""The exit codes of the contract, each by a case that gives it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

UBUNTU = ("--os", "ubuntu24.04", "--gpu", "L4")


def test_0_a_plan(call: Callable) -> None:
    ended = call("plan", "cuda", *UBUNTU)
    assert ended.code == 0
    assert ended.out


def test_1_a_breach_of_an_invariant(call: Callable, tmp_path: Path) -> None:
    page = '{address: "https://example.com", known: stated}'
    (tmp_path / "cuda.yaml").write_text(
        f"schema: gpustack/matrix/v1\nsubject: cuda\nabout: mine\nsources:\n  page: {page}\n"
    )
    ended = call("matrix", "check", "--matrices", str(tmp_path))
    assert (ended.code, ended.out) == (1, "1 fault\n")
    assert ended.err == "cuda.yaml: source page is not used by any row\n"


def test_2_an_overlay_that_is_malformed(call: Callable, tmp_path: Path) -> None:
    (tmp_path / "cuda.yaml").write_text(
        "schema: gpustack/matrix/v1\nsubject: cuda\nabout: mine\nsources:\n  page: {}\n"
    )
    for command in (("matrix", "check"), ("matrix", "list"), ("plan", "cuda", *UBUNTU)):
        ended = call(*command, "--matrices", str(tmp_path))
        assert ended.is_told(2)
        assert "source 'page' has no address" in ended.err


def test_2_a_document_of_another_schema(call: Callable, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(
        '{"schema": "gpustack/plan/v99", "host": {}, "stack": {}, "steps": [], "warnings": [], "digest": ""}'
    )
    assert call("render", str(path)).is_told(2)


def test_3_no_stack_names_what_cannot_hold_and_what_would(call: Callable) -> None:
    ended = call("plan", "cuda>=13", "driver==570.*", *UBUNTU)
    assert ended.is_told(3), ended
    assert "CUDA" in ended.err
    assert "570" in ended.err


def test_3_a_version_that_no_fact_knows_with_the_nearest(call: Callable) -> None:
    ended = call("plan", "cuda==12.99", *UBUNTU)
    assert ended.is_told(3), ended
    assert "12.9." in ended.err


def test_3_an_incompatible_combination(call: Callable) -> None:
    ended = call("check", "cuda==13.0.2", "driver==535.104.05", *UBUNTU, "--format", "json")
    assert ended.code == 3
    verdict = json.loads(ended.out)
    assert verdict["compatible"] is False
    assert verdict["conflicts"][0]["sources"]
    assert not ended.err


def test_3_says_what_would_go_together(call: Callable) -> None:
    ended = call("check", "cuda==13.0.2", "driver==535.104.05", *UBUNTU)
    assert "hint: try cuda==12.2.2, which is compatible with driver 535.104.05" in ended.out.splitlines()
    document = json.loads(call("check", "cuda==13.0.2", "driver==535.104.05", *UBUNTU, "--format", "json").out)
    assert any(text.startswith("try driver==") for text in document["hints"])


def test_4_a_system_without_an_offer(call: Callable) -> None:
    assert call("plan", "cuda", "--os", "alpine3.20").is_told(4)


def test_4_a_method_that_a_component_does_not_have(call: Callable) -> None:
    ended = call("plan", "driver", *UBUNTU, "--method", "driver=zip")
    assert ended.is_told(4), ended
    assert "network" in ended.err


def test_2_a_plan_for_another_system_is_not_carried_out(call: Callable, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    tree = tmp_path / "tree"
    (tree / "etc").mkdir(parents=True)
    (tree / "etc/os-release").write_text("ID=alpine\nVERSION_ID=3.20\n")
    assert call("plan", "cuda", *UBUNTU, "--out", str(plan)).code == 0
    done = call("install", str(plan), "--root", str(tree), "--yes")
    assert done.is_told(2)
    assert 'os.id of the host was "ubuntu" and is now "alpine"' in done.err


def test_6_only_where_asked_and_only_with_changes(call: Callable, tmp_path: Path) -> None:
    assert call("plan", "cuda", *UBUNTU, "--detailed-exitcode").code == 6
    host = tmp_path / "host.json"
    plan = json.loads(call("plan", "driver", *UBUNTU, "--format", "json").out)
    driver = plan["stack"]["driver"]
    plan["host"]["installed"]["driver"] = {"version": driver["version"], "method": "network", "origin": "nvidia"}
    plan["host"]["module"] = {"version": driver["version"], "flavour": driver["flavour"], "loaded": True}
    host.write_text(json.dumps(plan["host"]))
    ended = call("plan", "driver", "--host", str(host), "--detailed-exitcode", "--format", "json")
    assert json.loads(ended.out)["steps"] == []
    assert ended.code == 0


def test_7_what_no_fact_covers_is_neither_yes_nor_no(call: Callable) -> None:
    ended = call("check", "cuda==14.7", *UBUNTU, "--format", "json")
    assert ended.code == 7
    verdict = json.loads(ended.out)
    assert verdict["compatible"] is False
    assert verdict["conflicts"] == []
    assert verdict["unknown"]


def test_7_gives_way_to_a_conflict_that_is_known(call: Callable) -> None:
    assert call("check", "cuda==13.0.2", "driver==535.104.05", "nccl==99.1", *UBUNTU).code == 3
