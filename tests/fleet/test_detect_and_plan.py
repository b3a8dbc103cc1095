"""Hosts of an inventory, asked by the real Ansible, and the plans of the classes that they make."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from gpustack.detect.api import detect
from gpustack.errors import DocumentError, UsageError
from gpustack.fleet.detect import Answers, detect_fleet
from gpustack.fleet.engine import Event, list_hosts
from gpustack.fleet.groups import grouped
from gpustack.fleet.peers import remarks_of
from gpustack.fleet.store import load_fleet, write_fleet
from gpustack.matrix.index import load_matrix
from gpustack.model.fleet import Fleet, Member
from gpustack.model.host import Host

FIXTURES = Path(__file__).parents[1] / "fixtures/hosts"
MATRIX = load_matrix()


def recorded(name: str) -> Host:
    return detect(FIXTURES / name, MATRIX)


def with_gpus(host: Host, count: int) -> Host:
    return replace(host, gpus=(host.gpus[0],) * count)


@pytest.fixture
def snap(tmp_path: Path) -> Path:
    """Eight hosts: five of eight GPUs in two inventory groups, one that lost a GPU, one without, one unreachable."""
    h200 = recorded("ubuntu2404-h200")
    hosts = {f"h{number}": with_gpus(h200, 7 if number == 5 else 8) for number in range(6)}
    hosts["plain"] = recorded("healthy-mint22-no-driver")
    hosts["plain"] = replace(hosts["plain"], gpus=())
    remarks = remarks_of(hosts)
    members = [
        Member(name=name, groups=("training",) if name in {"h0", "h1"} else (), remarks=remarks.get(name, ()))
        for name in hosts
    ]
    members.append(Member(name="z", state="unreachable", reason="no route to host"))
    write_fleet(tmp_path / "snap", Fleet(date="2026-11-24", inventories=("/hosts.ini",), hosts=tuple(members)), hosts)
    return tmp_path / "snap"


@pytest.mark.gate
def test_every_host_of_an_inventory_is_asked(tmp_path: Path) -> None:
    inventory = tmp_path / "hosts.ini"
    inventory.write_text(
        "[gpu]\nhere ansible_connection=local ansible_python_interpreter=/nowhere\n"
        "[gpu:children]\nfar\n[far]\ngone ansible_host=127.0.0.1 ansible_port=9 ansible_ssh_common_args='-o BatchMode=yes'\n"
    )
    fleet, hosts = detect_fleet([inventory], MATRIX)
    assert [(one.name, one.state, one.groups) for one in fleet.hosts] == [
        ("gone", "unreachable", ("far", "gpu")),
        ("here", "answered", ("gpu",)),
    ]
    assert "ssh" in fleet.hosts[0].reason
    here = detect(None, MATRIX)
    assert (hosts["here"].os, hosts["here"].kernel, hosts["here"].arch) == (here.os, here.kernel, here.arch)
    assert list(list_hosts([inventory], "gpu:!far").groups) == ["here"]
    with pytest.raises(UsageError, match="no host matches"):
        list_hosts([inventory], "nobody")
    (tmp_path / "bad.yml").write_text("x: [")
    with pytest.raises(UsageError, match="Ansible refuses the inventory"):
        list_hosts([tmp_path / "bad.yml"])


@pytest.mark.parametrize("text", ["", "nonsense", "eJyrBgAAewB8"])
def test_a_host_that_answers_nonsense_is_named(text: str) -> None:
    answers = Answers(MATRIX)
    answers.note(Event("ok", "web1", "t", {"evidence": text}))
    answers.note(Event("ok", "web2", "t", {}))
    assert answers.hosts == {}
    assert answers.reasons["web1"][0] == answers.reasons["web2"][0] == "failed"


def test_a_host_that_lost_a_gpu_differs_from_its_peers() -> None:
    host = recorded("ubuntu2404-h200")
    hosts = {name: with_gpus(host, 8) for name in "abc"} | {"d": with_gpus(host, 7)}
    assert remarks_of(hosts) == {"d": ("7 of 8 H200: 1 of its peers' GPUs are not on its bus",)}
    assert remarks_of({name: with_gpus(host, count) for name, count in {"a": 8, "b": 7}.items()}) == {}


def test_equal_hosts_are_one_class_whatever_their_identity() -> None:
    host = with_gpus(recorded("ubuntu2404-h200"), 2)
    other = replace(host, name="b", gpus=tuple(replace(one, uuid="GPU-2", bus_id="0000:99:00.0") for one in host.gpus))
    moved = replace(host, kernel="6.8.0-99-generic")
    found = grouped({"a": host, "b": other, "c": moved}.items(), {})
    assert [members for _, _, members in found] == [["a", "b"], ["c"]]


def test_a_fleet_is_planned_by_classes(snap: Path, tmp_path: Path, call: Callable) -> None:
    toml = tmp_path / "gpustack.toml"
    toml.write_text('[stack]\ndriver = "580.*"\ncuda = "13.*"\n[groups.training]\ncuda = "12.9.*"\n')
    out = tmp_path / "plans"
    ended = call("fleet", "plan", str(snap), "--file", str(toml), "--out", str(out), "--detailed-exitcode")
    assert ended.code == 6, ended.err
    assert "h5: omitted: 7 of 8 H200: 1 of its peers' GPUs are not on its bus; --allow h5 plans it" in ended.out
    assert "z: omitted: no route to host" in ended.out
    document = json.loads((out / "fleet-plan.json").read_text())
    found = {one["name"]: one["hosts"] for one in document["classes"]}
    assert found == {"ubuntu24_04_8_x_h200": ["h2", "h3", "h4"], "ubuntu24_04_8_x_h200_h0": ["h0", "h1"]}
    assert {path.stem for path in (out / "plans").iterdir()} == set(found)
    stacks = {one["name"]: one["stack"]["cuda"] for one in document["classes"]}
    assert stacks["ubuntu24_04_8_x_h200"][1].startswith("13.")
    assert stacks["ubuntu24_04_8_x_h200_h0"][1].startswith("12.9.")
    allowed = call("fleet", "plan", str(snap), "cuda", "--allow", "h5", "--format", "json")
    assert ["h5"] in [one["hosts"] for one in json.loads(allowed.out)["classes"]]


def test_a_class_without_a_stack_is_refused_and_the_others_are_planned(snap: Path, call: Callable) -> None:
    ended = call("fleet", "plan", str(snap), "driver==390.*")
    assert ended.code == 3
    assert "refused: " in ended.out
    assert call("fleet", "plan", str(snap), "qda").code == 2


def test_what_if_says_which_hosts_a_release_would_suit(snap: Path, call: Callable) -> None:
    ended = call("fleet", "plan", str(snap), "cuda==13.0.2", "driver==535.104.05", "--what-if")
    assert ended.code == 3
    assert "incompatible" in ended.out
    assert "hosts would drop out" in ended.out
    assert call("fleet", "plan", str(snap), "--what-if").code == 2


def test_a_folder_that_is_no_fleet_is_wrong_usage(tmp_path: Path, call: Callable) -> None:
    ended = call("fleet", "plan", str(tmp_path))
    assert ended.code == 2
    assert ended.err.startswith("error[unreadable-fleet]")
    (tmp_path / "fleet.json").write_text('{"schema": "other"}')
    with pytest.raises(DocumentError):
        load_fleet(tmp_path)
