"""Python environments of users' threads, built as trees with true dist-infos and small true ELF files."""

from __future__ import annotations

import os
import re
import struct
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.reading import cases_in

from gpustack.detect.api import detect
from gpustack.detect.gather import gather
from gpustack.detect.record import record
from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.host import Host

CASES: list[dict[str, Any]] = cases_in(Path(__file__).parents[2] / "cases/python-environments.yaml")["environments"]
SITE = "opt/venv/lib/python3.12/site-packages"
GPUS = {"RTX 5090": "0x2b85", "RTX 4090": "0x2684", "T4": "0x1eb8", "GTX 1080": "0x1b80", "H200": "0x2335"}


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix()


def put(root: Path, path: str, data: bytes | str) -> None:
    place = root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data.encode() if isinstance(data, str) else data)


def library(needed: list[str], code: list[str]) -> bytes:
    """An ELF file with these sonames to load, and GPU code: "sm 90" or "ptx 90" each."""
    names = b"\0" + b"".join(name.encode() + b"\0" for name in needed)
    offsets = [names.index(name.encode() + b"\0") for name in needed]
    dynamic = b"".join(struct.pack("<qQ", 1, at) for at in offsets) + struct.pack("<qQ", 0, 0)
    entries = b""
    for word in code:
        kind, number = word.split()
        head = struct.pack("<HHIQ", {"ptx": 1, "sm": 2}[kind], 0x101, 64, 8)
        entries += head.ljust(28, b"\0") + struct.pack("<I", int(number)) + b"\0" * 32 + b"payload."
    fatbin = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entries)) + entries if code else b""
    titles = b"\0.dynstr\0.dynamic\0.nv_fatbin\0.shstrtab\0"
    contents = [b"", names, dynamic, fatbin, titles]
    at, places = 64, []
    for content in contents:
        places.append((at, len(content)))
        at += len(content)
    words = (b"", b".dynstr", b".dynamic", b".nv_fatbin", b".shstrtab")
    rows = b"".join(
        struct.pack("<IIQQQQ24x", titles.index(word + b"\0"), 1, 0, 0, *place)
        for word, place in zip(words, places, strict=True)
    )
    head = b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack(
        "<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, at, 0, 64, 0, 0, 64, 5, 4
    )
    return head + b"".join(contents) + rows


def build(root: Path, case: dict[str, Any]) -> None:
    put(root, "etc/os-release", 'ID=ubuntu\nVERSION_ID="24.04"\n')
    put(root, "proc/sys/kernel/osrelease", "6.8.0-71-generic\n")
    put(root, "proc/sys/kernel/arch", "x86_64\n")
    device = root / "sys/bus/pci/devices/0000:01:00.0"
    if case.get("gpu"):
        for name, text in {"vendor": "0x10de", "class": "0x030000", "device": GPUS[case["gpu"]]}.items():
            put(device, name, f"{text}\n")
    if case.get("driver"):
        put(root, "proc/modules", "nvidia 1 0 - Live 0x0\n")
        version = f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {case['driver']}  Wed\n"
        put(root, "proc/driver/nvidia/version", version)
    for spelled, requires in case["packages"].items():
        name, version = spelled.split()
        lines = "".join(f"Requires-Dist: {one}\n" for one in requires or ())
        text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{lines}\nText.\n"
        put(root, f"{SITE}/{name.replace('-', '_')}-{version}.dist-info/METADATA", text)
    for path, text in case.get("files", {}).items():
        put(root, path if path.startswith(("usr/", "etc/")) else f"{SITE}/{path}", text)
    for path, content in case.get("libraries", {}).items():
        put(root, f"{SITE}/{path}", library(content.get("needs", []), content.get("code", [])))


def own(host: Host) -> list[str]:
    return [one.id for one in host.problems if one.id.startswith("environment-")]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_the_cause_of_a_thread_is_named(case: dict[str, Any], tmp_path: Path, matrix: Matrix) -> None:
    build(tmp_path, case)
    host = detect(tmp_path, matrix)
    found = {problem.id: problem for problem in host.problems}
    for identity, (message, fix) in case["found"].items():
        assert identity in found, sorted(found)
        assert re.search(message, found[identity].message), found[identity].message
        assert re.search(fix, found[identity].fix), found[identity].fix
    assert {identity for identity in own(host) if found[identity].severity == "warn"} <= set(case["found"])


def test_a_recorded_host_keeps_its_environments(tmp_path: Path, matrix: Matrix) -> None:
    case = next(case for case in CASES if case.get("libraries"))
    root, saved = tmp_path / "root", tmp_path / "saved"
    build(root, case)
    private = f"home/person/env/{SITE.removeprefix('opt/venv/')}"
    put(root, f"{private}/torch-2.9.1.dist-info/METADATA", "Name: torch\nVersion: 2.9.1\nRequires-Dist: secret-thing\n")
    put(root, f"{private}/secret_thing-1.0.dist-info/METADATA", "Name: secret-thing\nVersion: 1.0\n")
    record(gather(root), saved)
    assert own(detect(saved, matrix)) == own(detect(root, matrix))
    everything = "".join(
        f"{path} {path.read_text('utf-8', 'replace') if path.is_file() else ''}" for path in saved.rglob("*")
    )
    assert "secret" not in everything
    assert "person" not in everything


def test_the_document_lists_environments(tmp_path: Path, matrix: Matrix) -> None:
    build(tmp_path, CASES[0])
    found = msgspec.to_builtins(detect(tmp_path, matrix))["environments"]
    assert [(one["path"], one["python"]) for one in found] == [("/opt/venv", "3.12")]
    assert "torch" in found[0]["packages"]
    assert [one["id"] for one in found[0]["problems"]] == ["environment-architecture"]


BAD: dict[str, dict[str, bytes | str]] = {
    "no ELF": {"torch/lib/libtorch_cuda.so": b"\x7fELF\x02\x01"},
    "sections beyond the end": {"torch/lib/libtorch_cuda.so": library([], ["sm 90"])[:200]},
    "binary METADATA": {"torch-2.9.1.dist-info/METADATA": b"\0\xff\xfe" * 100},
    "endless METADATA": {"torch-2.9.1.dist-info/METADATA": "Name: torch\nVersion: 2.9.1\n" + "Requires-Dist: a\n" * 90_000},
    "requirement of nothing": {"torch-2.9.1.dist-info/METADATA": "Name: torch\nVersion: 2.9.1\nRequires-Dist: numpy ===???\n"},
    "version without a number": {"torch-dev.dist-info/METADATA": "Name: torch\nVersion: dev\n"},
    "pyvenv.cfg of noise": {"../../../pyvenv.cfg": b"\xff\0version = x"},
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_nonsense_never_stops_detect(name: str, tmp_path: Path, matrix: Matrix) -> None:
    build(
        tmp_path,
        {"gpu": "T4", "driver": "580.95.05", "packages": {"numpy 2.0.0": None, "torchvision 0.24.1": ["torch==2.9.1"]}},
    )
    for path, data in BAD[name].items():
        put(tmp_path, f"{SITE}/{path}", data)
    assert detect(tmp_path, matrix).environments


def test_a_wheel_that_lies_and_a_removal_that_failed_are_named(tmp_path: Path, matrix: Matrix) -> None:
    build(tmp_path, {"packages": {"torch 2.9.1": None}})
    put(tmp_path, f"{SITE}/torch-2.9.1.dist-info/METADATA", "Name: torch\nVersion: 2.1.0\n")
    put(tmp_path, f"{SITE}/tensorflow-2.19.0.dist-info/RECORD", "tensorflow/__init__.py,,\n")
    put(tmp_path, f"{SITE}/~orch-2.0.0.dist-info/RECORD", "")
    messages = [one.message for one in detect(tmp_path, matrix).problems if one.id == "environment-broken"]
    assert messages == [
        f"tensorflow 2.19.0 in /opt/venv is broken: /{SITE}/tensorflow-2.19.0.dist-info/METADATA is missing or empty",
        "torch 2.9.1 in /opt/venv is broken: its folder says 2.9.1, its METADATA 2.1.0",
        f"/{SITE}/~orch-2.0.0.dist-info is what a broken removal left",
    ]


def test_links_in_a_circle_and_pipes_are_passed_over(tmp_path: Path, matrix: Matrix) -> None:
    build(tmp_path, {"packages": {"torch 2.9.1": None}})
    (tmp_path / "opt/loop").symlink_to("loop")
    (tmp_path / "opt/again").symlink_to("/opt/venv")
    (tmp_path / SITE / "torch/lib").mkdir(parents=True)
    os.mkfifo(tmp_path / SITE / "torch/lib/libtorch_cuda.so")
    assert [one.path for one in detect(tmp_path, matrix).environments or ()] == ["/opt/venv"]


def test_an_environment_at_an_unusual_place_is_read_on_request(tmp_path: Path, matrix: Matrix) -> None:
    put(tmp_path, "data/deep/er/env/bin/python", "")
    put(
        tmp_path,
        "data/deep/er/env/lib/python3.11/site-packages/torch-2.9.1.dist-info/METADATA",
        "Name: torch\nVersion: 2.9.1\n",
    )
    assert not detect(tmp_path, matrix).environments
    found = detect(tmp_path, matrix, python="/data/deep/er/env/bin/python").environments or ()
    assert [(one.path, one.packages) for one in found] == [("/data/deep/er/env", {"torch": "2.9.1"})]


SOMEWHERE = "lib/python3.11/site-packages"
FOUND_BY = {
    "poetry": ("home/a/.cache/pypoetry/virtualenvs/x-1a-py3.11", {}),
    "pixi": ("home/a/project/.pixi/envs/default", {}),
    "mamba": ("home/a/.local/share/mamba/envs/x", {}),
    "pipenv": ("root/.local/share/virtualenvs/x-1a", {}),
    "pipx of root": ("root/.local/share/pipx/venvs/x", {}),
    "uv's tools of root": ("root/.local/share/uv/tools/x", {}),
    "a kernel of Jupyter": (
        "data/a b/env",
        {"home/a/.local/share/jupyter/kernels/k/kernel.json": '{"argv": ["/data/a b/env/bin/python", "-m", "x"]}'},
    ),
    "conda's list": ("data/forge/envs/x", {"root/.conda/environments.txt": "/data/none\n/data/forge/envs/x\n"}),
}


@pytest.mark.parametrize("name", FOUND_BY)
def test_environments_of_other_tools_are_found(name: str, tmp_path: Path, matrix: Matrix) -> None:
    prefix, files = FOUND_BY[name]
    put(tmp_path, f"{prefix}/{SOMEWHERE}/torch-2.9.1.dist-info/METADATA", "Name: torch\nVersion: 2.9.1\n")
    for path, text in files.items():
        put(tmp_path, path, text)
    assert [one.path for one in detect(tmp_path, matrix).environments or ()] == [f"/{prefix}"]


@pytest.mark.parametrize("text", ["", "{}", '{"argv": "/x/bin/python"}', '{"argv": ["/*/bin/python"]}', "\0" * 9])
def test_a_kernel_that_names_no_interpreter_is_passed_over(text: str, tmp_path: Path, matrix: Matrix) -> None:
    put(tmp_path, f"data/env/{SOMEWHERE}/torch-2.9.1.dist-info/METADATA", "Name: torch\nVersion: 2.9.1\n")
    put(tmp_path, "usr/share/jupyter/kernels/k/kernel.json", text)
    put(tmp_path, "root/.conda/environments.txt", "/*/*\n/data/*\n")
    assert not detect(tmp_path, matrix).environments
