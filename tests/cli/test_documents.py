"""gpustack's own documents, broken in every way that we could think of: exit 2, told in a sentence, at once."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Call

FIXTURES = Path(__file__).parent.parent / "fixtures"
UBUNTU = ("--os", "ubuntu24.04", "--gpu", "L4")

NO_JSON: dict[str, bytes] = {
    "empty": b"",
    "blank": b" \n",
    "word": b"hello",
    "array": b"[]",
    "string": b'"gpustack/host/v1"',
    "number": b"1e9",
    "null": b"null",
    "object": b"{}",
    "list-of-objects": b'[{"schema": "gpustack/host/v1"}]',
    "no-end": b'{"schema": "gpustack/host/v1", "os": {',
    "trailing": b'{"schema": "gpustack/host/v1"} {}',
    "comma": b'{"schema": "gpustack/host/v1",}',
    "single-quotes": b"{'schema': 'gpustack/host/v1'}",
    "nan": b'{"schema": "gpustack/host/v1", "gpus": [{"memory_mib": NaN}]}',
    "infinity": b'{"schema": "gpustack/host/v1", "gpus": [{"memory_mib": Infinity}]}',
    "huge-number": b'{"schema": "gpustack/host/v1", "gpus": [{"memory_mib": 1e999}]}',
    "many-digits": b'{"schema": "gpustack/host/v1", "gpus": [{"memory_mib": ' + b"9" * 5000 + b"}]}",
    "bom": b"\xef\xbb\xbf{}",
    "utf-16": '{"schema": "gpustack/host/v1"}'.encode("utf-16"),
    "latin-1": b'{"schema": "gpustack/host/v1", "kernel": "\xe9"}',
    "nul": b'{"schema": "gpustack/host/v1"\x00}',
    "binary": bytes(range(256)) * 16,
    "deep-arrays": b"[" * 200_000,
    "deep-objects": b'{"a":' * 200_000,
    "deep-inside": b'{"schema": "gpustack/host/v1", "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "spaces": b"{" + b" " * 24_000_000 + b"x",
    "zeros": b"\0" * 24_000_000,
    "yaml": b"schema: gpustack/host/v1\n",
    "html": b"<!doctype html><title>404</title>",
    "future": b'{"schema": "gpustack/host/v99"}',
    "other-kind": b'{"schema": "gpustack/report/v1", "host": {}}',
    "schema-list": b'{"schema": ["gpustack/host/v1"]}',
    "schema-null": b'{"schema": null}',
}

READERS = {
    "host": ("plan", "cuda", "--format", "json", "--host"),
    "host-check": ("check", "cuda==12.4.1", "--host"),
    "host-explain": ("explain", "cuda", "--host"),
    "host-verify": ("verify", "--host"),
    "plan": ("render", "--format", "shell"),
    "plan-install": ("install", "--dry-run", "--yes"),
}


@pytest.mark.parametrize("reader", READERS)
def test_what_is_no_document_is_refused_at_once(reader: str, call: Callable, tmp_path: Path) -> None:
    path = tmp_path / "document.json"
    for name, content in NO_JSON.items():
        path.write_bytes(content.replace(b"gpustack/host/v1", b"gpustack/plan/v1") if "plan" in reader else content)
        ended = call(*READERS[reader], str(path))
        assert ended.is_told(2), (name, ended)
        assert "document.json" in ended.err, name
        assert len(ended.err) < 1500, name


@pytest.mark.parametrize("reader", READERS)
def test_what_is_no_file_is_refused_at_once(reader: str, call: Callable, tmp_path: Path) -> None:
    fifo, loop = tmp_path / "fifo.json", tmp_path / "loop.json"
    os.mkfifo(fifo)
    loop.symlink_to(loop)
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "endless.json").symlink_to("/dev/zero")
    (tmp_path / "file").write_text("{}")
    for name in ("fifo.json", "loop.json", "folder.json", "endless.json", "nowhere.json", "file/below.json"):
        ended = call(*READERS[reader], str(tmp_path / name))
        assert ended.is_told(2), (name, ended)


@pytest.fixture
def plan(call: Callable) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(call("plan", "cuda", *UBUNTU, "--format", "json").out)
    return document


WRONG_HOST: dict[str, tuple[str, Any]] = {
    "os is a string": ("os", "ubuntu24.04"),
    "os is null": ("os", None),
    "os id is a number": ("os.id", 24),
    "os like is a string": ("os.like", "debian"),
    "arch is a list": ("arch", ["x86_64"]),
    "environment is not one": ("environment", "spaceship"),
    "secure boot is a word": ("secure_boot", "yes"),
    "gpus is an object": ("gpus", {"name": "L4"}),
    "gpus is a string": ("gpus", "L4"),
    "gpus holds strings": ("gpus", ["L4"]),
    "gpus holds null": ("gpus", [None]),
    "gpu name is a number": ("gpus.0.name", 4),
    "memory is a string": ("gpus.0.memory_mib", "24 GB"),
    "memory is negative": ("gpus.0.memory_mib", -1),
    "memory is a fraction": ("gpus.0.memory_mib", 0.5),
    "engines are negative": ("gpus.0.nvenc", -2),
    "decoders are negative": ("gpus.0.nvdec", -2),
    "engines are a word": ("gpus.0.nvenc", "three"),
    "capability is a number": ("gpus.0.compute_capability", 8.9),
    "capability is a word": ("gpus.0.compute_capability", "ada"),
    "last driver is a word": ("gpus.0.driver_last", "newest"),
    "switches are negative": ("nvswitches", -4),
    "installed is a list": ("installed", ["driver"]),
    "installed entry is a string": ("installed.driver", "580.95.05"),
    "installed version is a number": ("installed.driver", {"version": 580.95}),
    "copies is an object": ("copies", {}),
    "problems hold strings": ("problems", ["broken"]),
    "severity is not one": ("problems", [{"id": "x", "message": "y", "severity": "fatal"}]),
    "described is a number": ("described", 1),
    "module is a string": ("module", "nvidia"),
    "flavour is not one": ("module", {"flavour": "ajar"}),
}


def placed(document: dict[str, Any], where: str, value: Any) -> dict[str, Any]:
    """The document with ``value`` at the dotted path."""
    changed = copy.deepcopy(document)
    *parents, last = where.split(".")
    place: Any = changed
    for name in parents:
        place = place[int(name)] if isinstance(place, list) else place[name]
    place[last] = value
    return changed


@pytest.mark.parametrize("case", WRONG_HOST)
def test_a_host_with_a_value_of_the_wrong_kind(case: str, plan: dict[str, Any], call: Callable, tmp_path: Path) -> None:
    path = tmp_path / "host.json"
    path.write_text(json.dumps(placed(plan["host"], *WRONG_HOST[case])))
    ended = call("plan", "cuda", "driver", "--host", str(path), "--format", "json")
    assert ended.is_told(2), ended
    assert "host.json" in ended.err


ODD_HOST: dict[str, tuple[str, Any]] = {
    "no gpu": ("gpus", []),
    "gpu without anything": ("gpus", [{}]),
    "a thousand gpus": ("gpus", [{"name": "L4", "compute_capability": "8.9"}] * 1000),
    "unknown architecture": ("arch", "sparc"),
    "no architecture": ("arch", None),
    "unknown system": ("os", {"id": "temple", "version_id": "1", "family": "apt"}),
    "empty system": ("os", {}),
    "unknown package family": ("os.family", "portage"),
    "repository folder nobody knows": ("os.repo", "../../etc"),
    "unknown component": ("installed", {"qda": {"version": "1"}}),
    "driver version is nonsense": ("installed", {"driver": {"version": "; rm -rf /"}}),
    "driver without a version": ("installed", {"driver": {}}),
    "cuda from the future": ("installed", {"cuda": {"version": "99.0", "method": "network"}}),
    "kernel is nonsense": ("kernel", "$(reboot)"),
    "glibc is nonsense": ("glibc", "two"),
    "gcc is nonsense": ("gcc", "\n"),
    "key of tomorrow": ("added_by_a_later_version", {"a": [1, 2]}),
    "very long name": ("gpus.0.name", "L" * 100_000),
    "name with escapes": ("gpus.0.name", "\x1b[31mL4\x07\n"),
}


@pytest.mark.parametrize("case", ODD_HOST)
def test_a_host_with_an_odd_value_gets_an_answer_or_a_refusal(
    case: str, plan: dict[str, Any], call: Callable, tmp_path: Path
) -> None:
    path = tmp_path / "host.json"
    path.write_text(json.dumps(placed(plan["host"], *ODD_HOST[case])))
    for arguments in (("plan", "cuda", "driver"), ("check", "cuda==12.4.1"), ("explain", "cuda"), ("plan", "ffmpeg")):
        ended = call(*arguments, "--host", str(path))
        if ended.out:
            assert ended.code in {0, 3, 7}, ended
            assert "internal-fault" not in ended.err
        else:
            assert ended.is_told(ended.code), ended
            assert ended.code in {2, 3, 4}
        assert "\x1b" not in ended.out + ended.err


def test_keys_that_stand_twice_are_read_or_refused(plan: dict[str, Any], call: Callable, tmp_path: Path) -> None:
    path = tmp_path / "host.json"
    path.write_text(json.dumps(plan["host"]).replace('"arch": "x86_64"', '"arch": "x86_64", "arch": 5'))
    assert call("plan", "cuda", "--host", str(path)).is_told(2)


WRONG_PLAN: dict[str, tuple[str, Any]] = {
    "digest is empty": ("digest", ""),
    "digest is another": ("digest", "0" * 64),
    "digest is a number": ("digest", 5),
    "a command was added": ("steps.0.commands", [["touch", "pwned"]]),
    "a command is a string": ("steps.0.commands", ["touch pwned"]),
    "a command is empty": ("steps.0.commands", [[]]),
    "a file was added": ("steps.0.files", [{"path": "/etc/passwd", "content": ""}]),
    "a file is a string": ("steps.0.files", ["/etc/passwd"]),
    "steps is an object": ("steps", {}),
    "steps hold null": ("steps", [None]),
    "kind is not one": ("steps.0.kind", "explode"),
    "phase is not one": ("steps.0.phase", "later"),
    "root is a word": ("steps.0.needs_root", "no"),
    "needs a step that is not there": ("steps.0.depends_on", ["nowhere"]),
    "artifact of negative size": ("steps.0.artifacts", [{"url": "https://example.com", "path": "x", "size": -1}]),
    "stack is a list": ("stack", []),
    "stack version is a number": ("stack.cuda.version", 13.0),
    "state is not one": ("stack.cuda.state", "explode"),
    "host is a string": ("host", "here"),
    "host is of another schema": ("host.schema", "gpustack/host/v2"),
    "warnings is a string": ("warnings", "none"),
    "request is a list": ("request", []),
    "schema of tomorrow": ("schema", "gpustack/plan/v2"),
    "schema of a host": ("schema", "gpustack/host/v1"),
}


@pytest.mark.parametrize("case", WRONG_PLAN)
def test_a_plan_that_was_changed_is_not_rendered(
    case: str, plan: dict[str, Any], call: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(placed(plan, *WRONG_PLAN[case])))
    for arguments in (("render", "plan.json"), ("install", "plan.json", "--dry-run", "--yes")):
        ended = call(*arguments)
        assert ended.is_told(2), ended
        assert "plan.json" in ended.err
    assert [entry.name for entry in tmp_path.iterdir()] == ["plan.json"]


def test_a_plan_is_read_in_any_spelling_of_its_json(plan: dict[str, Any], call: Callable, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    shown = []
    for text in (json.dumps(plan), json.dumps(plan, indent=4, sort_keys=True), json.dumps(plan) + "\n\n"):
        path.write_text(text)
        shown.append(call("render", str(path)))
    assert shown[0].code == 0
    assert shown[0] == shown[1] == shown[2]


def test_a_plan_of_the_first_edition_is_read_as_it_was_written(call: Call, tmp_path: Path) -> None:
    """The document in the fixtures was written by the first edition, which had fewer fields."""
    first = FIXTURES / "first-edition-plan.json"
    assert "cuda-toolkit-12-8" in call("render", str(first), "--format", "shell").out
    again = tmp_path / "again.json"
    again.write_text(call("render", str(first), "--format", "json").out)
    assert call("render", str(again)) == call("render", str(first))
    again.write_text(first.read_text().replace("cuda-toolkit-12-8", "cuda-toolkit-12-9"))
    assert "was changed after it was written" in call("render", str(again)).err


def test_a_plan_may_come_from_standard_input(plan: dict[str, Any], program: Call, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan))
    for words, stream, told in (
        (("render", "-"), path.read_bytes(), program("render", str(path))),
        (("install", "-", "--dry-run"), path.read_bytes(), program("install", str(path), "--dry-run")),
        (("render", "-"), b"{", None),
    ):
        ended = program(*words, stdin=stream)
        if told is None:
            assert ended.is_told(2)
            assert "error[unreadable-plan]: -: is not JSON" in ended.err
        else:
            assert (ended.code, ended.out, ended.err) == (told.code, told.out, told.err)


WRONG_TOML: dict[str, bytes] = {
    "unclosed table": b'[stack\ncuda = "12.4"\n',
    "no quotes": b"[stack]\ncuda = 12.4.1\n",
    "number": b"[stack]\ncuda = 12.4\n",
    "list": b'[stack]\ncuda = ["12.4"]\n',
    "boolean": b"[stack]\ncuda = true\n",
    "date": b"[stack]\ncuda = 2026-01-01\n",
    "table": b'[stack.cuda]\nversion = "12.4"\n',
    "stack is a string": b'stack = "cuda"\n',
    "stack is a list": b"[[stack]]\n",
    "options is a number": b"options = 1\n",
    "unknown table": b'[stak]\ncuda = "12.4"\n',
    "unknown key": b"version = 1\n",
    "unknown component": b'[stack]\nqda = "12.4"\n',
    "component with a version": b'[stack]\n"cuda>=12" = "<13"\n',
    "broken specifier": b'[stack]\ncuda = "=>12"\n',
    "shell in a specifier": b'[stack]\ncuda = "$(touch pwned)"\n',
    "unknown option": b'[options]\npolcy = "newest"\n',
    "unknown policy": b'[options]\npolicy = "newst"\n',
    "unknown method": b'[options]\nmethod = "netwrk"\n',
    "policy is a list": b'[options]\npolicy = ["newest", "minimal"]\n',
    "policy is a number": b"[options]\npolicy = 1\n",
    "method holds numbers": b"[options]\nmethod = [1]\n",
    "kernel module is not one": b'[options]\nkernel-module = "ajar"\n',
    "two hosts": b'[options]\nroot = "/"\n',
    "nul in a path": b'[options]\nhost = "a\\u0000b"\n',
    "same key twice": b'[stack]\ncuda = "12.4"\ncuda = "12.5"\n',
    "same table twice": b'[stack]\ncuda = "12.4"\n[stack]\n',
    "latin-1": b'[stack]\ncuda = "\xe9"\n',
    "utf-16": '[stack]\ncuda = "12.4"\n'.encode("utf-16"),
    "nul": b"[stack]\0\n",
    "binary": bytes(range(256)),
    "json": b'{"stack": {"cuda": "12.4"}}',
    "deep list": b"x = " + b"[" * 60_000,
    "deep table": b"x = " + b"{a=" * 20_000,
    "long dotted key": b"a" + b".a" * 25_000 + b" = 1\n",
    "many digits": b"[stack]\ncuda = " + b"9" * 60_000 + b"\n",
    "huge": b"#" * 24_000_000,
}


@pytest.mark.parametrize("case", WRONG_TOML)
def test_a_request_file_that_is_broken(case: str, call: Callable, tmp_path: Path) -> None:
    path = tmp_path / "gpustack.toml"
    path.write_bytes(WRONG_TOML[case])
    ended = call("plan", "--file", str(path), *UBUNTU, "--format", "json")
    assert ended.is_told(2), ended


def test_a_request_file_that_is_no_file(call: Callable, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path, tmp_path / "nowhere.toml", tmp_path / "fifo", Path("/dev/zero")):
        assert call("plan", "--file", str(path), *UBUNTU).is_told(2), path


def test_a_request_file_says_what_the_command_line_says(call: Callable, tmp_path: Path) -> None:
    path = tmp_path / "gpustack.toml"
    path.write_text(
        '[stack]\ncuda = ">=12.4,<13"\ncudnn = "9.*"\nnccl = "*"\n\n'
        '[options]\nos = "ubuntu24.04"\ngpu = ["L4"]\npolicy = "newest"\nkernel-module = "open"\n'
    )
    spelled = ("cuda>=12.4,<13", "cudnn==9.*", "nccl", *UBUNTU, "--policy", "newest", "--kernel-module", "open")
    assert call("plan", "--file", str(path)) == call("plan", *spelled)
    assert call("explain", "--file", str(path)) == call("explain", *spelled)


def test_the_command_line_wins_over_the_request_file(call: Callable, tmp_path: Path) -> None:
    path = tmp_path / "gpustack.toml"
    path.write_text('[stack]\ncuda = "==12.4.*"\n[options]\npolicy = "minimal"\nos = "rhel9.4"\ngpu = "H200"\n')
    ended = call("plan", "cuda==12.6.*", "--file", str(path), *UBUNTU, "--policy", "newest")
    assert ended == call("plan", "cuda==12.6.*", *UBUNTU, "--policy", "newest")


BROKEN_TREES: dict[str, dict[str, bytes]] = {
    "empty": {},
    "os-release is binary": {"etc/os-release": bytes(range(256))},
    "os-release is huge": {"etc/os-release": b"ID=" + b"u" * 5_000_000},
    "wrong shapes": {
        "etc/os-release": b'ID=ubuntu\nVERSION_ID="22.04"\n',
        "usr/local/cuda-12.4/version.json": b'{"cuda": ["12.4"]}',
        "sys/bus/pci/devices/0000:01:00.0/vendor": b"0x10de\n",
        "sys/bus/pci/devices/0000:01:00.0/device": b"zzzz\n",
        "sys/bus/pci/devices/0000:01:00.0/class": b"\n",
        "var/lib/dpkg/status": b"Package\nVersion: \xff\n\n" * 500,
        "proc/driver/nvidia/version": b"NVRM version: \0",
    },
    "version.json nests deeply": {
        "etc/os-release": b"ID=debian\nVERSION_ID=12\n",
        "usr/local/cuda/version.json": b"[" * 100_000,
        "usr/local/cuda-12.4/version.json": b'{"cuda": {"version": 12.4}}',
    },
}


@pytest.mark.parametrize("case", BROKEN_TREES)
def test_evidence_that_is_nonsense_never_stops_detect(case: str, call: Callable, tmp_path: Path) -> None:
    for name, content in BROKEN_TREES[case].items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    ended = call("detect", "--root", str(tmp_path), "--format", "json")
    assert ended.code == 0, ended
    assert json.loads(ended.out)["schema"] == "gpustack/host/v1"


def test_a_tree_of_loops_and_pipes_never_stops_detect(call: Callable, tmp_path: Path) -> None:
    for name in ("etc", "usr/local", "proc", "usr/lib"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "etc/os-release").symlink_to("os-release")
    (tmp_path / "usr/local/cuda").symlink_to("/usr/local/cuda")
    (tmp_path / "usr/local/cuda-12.4").symlink_to("../..")
    (tmp_path / "etc/ld.so.conf").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "usr/lib/os-release")
    os.mkfifo(tmp_path / "proc/version")
    (tmp_path / "proc/cmdline").mkdir()
    ended = call("detect", "--root", str(tmp_path), "--format", "json")
    assert ended.code == 0, ended


def test_explain_takes_the_options_of_plan(call: Callable, tmp_path: Path) -> None:
    described = ["cuda==12.6.3", "--os", "ubuntu24.04", "--gpu", "L4"]
    saved = tmp_path / "plan.json"
    explained = call("explain", *described, "--out", str(saved), "--detailed-exitcode")
    assert explained.code == 6
    assert "cuda 12.6.3" in explained.out
    assert saved.read_text() == call("plan", *described, "--format", "json").out
    crossed = call("explain", "--target", "sbsa", "--os", "ubuntu24.04")
    assert crossed.code == 0
    assert "cudnn" in crossed.out
