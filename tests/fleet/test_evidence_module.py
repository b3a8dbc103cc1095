"""The evidence module reads what ``detect`` reads: the same hosts, by every Python that it may meet."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import msgspec
import pytest

from gpustack.detect.build import host_of
from gpustack.detect.captured import GPU_QUERIES, Capture, Reported, evidence_of, unpack
from gpustack.detect.evidence import CommandOutput, Evidence
from gpustack.detect.gather import gather
from gpustack.errors import DocumentError
from gpustack.fleet.declared import module_text
from gpustack.matrix.index import load_matrix

HOSTS = sorted(path for path in (Path(__file__).parents[1] / "fixtures/hosts").iterdir() if (path / "root").is_dir())
OLD = sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob("versions/[23].*/bin/python"))
"""Interpreters as systems have them: 2.7 and 3.6 to 3.9."""


@cache
def module(folder: Path) -> Path:
    path = folder / "evidence.py"
    path.write_text(module_text(), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return module(tmp_path_factory.mktemp("module"))


def answer(python: str, program: Path, root: str) -> Evidence:
    done = subprocess.run([python, str(program), root], capture_output=True, text=True, check=True, timeout=60)
    told = json.loads(done.stdout)
    assert told["changed"] is False
    return evidence_of(unpack(told["evidence"]))


def comparable(evidence: Evidence) -> dict[str, object]:
    plain: dict[str, object] = msgspec.to_builtins(evidence)
    files = dict(evidence.files)
    files.pop("/proc/1/environ", None)  # the module sends three variables of it
    return {**plain, "files": files, "date": ""}


@pytest.mark.parametrize("host", HOSTS, ids=lambda path: path.name)
def test_it_sends_what_detect_reads(host: Path, program: Path) -> None:
    root = host / "root"
    assert comparable(answer(sys.executable, program, str(root))) == comparable(gather(root))


@pytest.mark.gate
@pytest.mark.parametrize("python", OLD, ids=lambda path: path.parts[-3])
def test_every_python_sends_the_same(python: Path, program: Path) -> None:
    for host in HOSTS[::6]:
        root = str(host / "root")
        assert comparable(answer(str(python), program, root)) == comparable(answer(sys.executable, program, root))


def test_of_this_machine_it_tells_the_same_host(program: Path) -> None:
    """But for what depends on the process that asks: its environment and the logs that it has just written."""
    matrix = load_matrix()
    done = answer(sys.executable, program, "/")
    assert done.live
    told, known = host_of(done, matrix), host_of(gather(None), matrix)
    for field in (
        "name",
        "os",
        "arch",
        "kernel",
        "gpus",
        "module",
        "installed",
        "glibc",
        "gcc",
        "repositories",
        "holds",
    ):
        assert getattr(told, field) == getattr(known, field), field


def test_secrets_stay_on_the_host(program: Path, tmp_path: Path) -> None:
    (tmp_path / "etc/docker").mkdir(parents=True)
    (tmp_path / "etc/containerd").mkdir(parents=True)
    (tmp_path / "proc/1").mkdir(parents=True)
    (tmp_path / "etc/docker/daemon.json").write_text('{"runtimes": {}, "proxies": "http://u:hidden@proxy"}')
    (tmp_path / "etc/containerd/config.toml").write_text('password = "hidden"\nenable_cdi = true\n')
    (tmp_path / "proc/1/environ").write_bytes(b"TOKEN=hidden\0container=podman")
    done = subprocess.run([sys.executable, str(program), str(tmp_path)], capture_output=True, text=True, check=True)
    found = unpack(json.loads(done.stdout)["evidence"])
    assert "hidden" not in repr(found)
    assert found.entries["/etc/containerd/config.toml"] == ("t", "enable_cdi = true\n")


def test_links_do_not_lead_outside(program: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    (tmp_path / "os-release").write_text("ID=outside\n")
    (root / "etc/os-release").symlink_to("../../../../../../../../../../" + str(tmp_path / "os-release").lstrip("/"))
    assert answer(sys.executable, program, str(root)).files == {}


def test_a_shell_finds_a_python_for_it(program: Path, tmp_path: Path) -> None:
    done = subprocess.run(["sh", str(program), str(tmp_path)], capture_output=True, text=True, check=True)
    assert "evidence" in json.loads(done.stdout)
    none = subprocess.run(
        ["/bin/sh", str(program)], capture_output=True, text=True, check=True, env={"PATH": "/nowhere"}
    )
    assert json.loads(none.stdout)["failed"] is True


@pytest.mark.parametrize("text", ["", "x", "AAAA", "eJyrBgAAewB8", "eJyrVkrNKynKTC1WslKqrgUALREFGQ=="])
def test_another_answer_is_refused(text: str) -> None:
    with pytest.raises(DocumentError, match="is no evidence"):
        unpack(text)


def test_a_hostile_answer_opens_nothing_here() -> None:
    found = evidence_of(Capture(entries={"/etc/os-release": ("l", "/etc/passwd"), "/etc/../../x": ("t", "x")}))
    assert found.files == {}


def test_the_driver_answers_by_its_own_program() -> None:
    line = "NVIDIA H200, GPU-1, 00000000:17:00.0, 0x233510DE, 0x18BE10DE, 143771, Enabled, Disabled, 580.95.05\n"
    machine = Reported(
        release="6.8.0-90-generic",
        machine="x86_64",
        commands={
            " ".join(GPU_QUERIES[0]): CommandOutput(code=2, out='Field "compute_cap" is not a valid field to query.\n'),
            " ".join(GPU_QUERIES[1]): CommandOutput(code=0, out=line),
        },
    )
    found = evidence_of(Capture(entries={"/dev/nvidiactl": ("f", 0)}, machine=machine))
    [gpu] = host_of(found, load_matrix()).gpus
    assert (gpu.name, gpu.memory_mib) == ("H200", 143771) or "H200" in (gpu.name or "")
    assert (found.nvml or {})["driver"] == "580.95.05"
