"""What level quick does without starting programs: where packages of Python lie, and what a host without GPU needs."""

from __future__ import annotations

import fnmatch
from pathlib import Path

import msgspec
import pytest

from gpustack.matrix.index import Matrix
from gpustack.model.host import Host
from gpustack.system.paths import matches
from gpustack.system.run import Finished
from gpustack.verify.api import verify
from gpustack.verify.frame.pythons import has_name, package_folders


class Recorder:
    """Starts nothing, keeps what it was asked to start, and answers for an FFmpeg of 7.1 that says its version only."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []

    def run(self, argv: tuple[str, ...], **_: object) -> Finished:
        self.asked.append(argv)
        if argv[-1] == "-version":
            return Finished(argv=argv, code=0, out="ffmpeg version 7.1 Copyright\n")
        return Finished(argv=argv, code=None, error="not started")


def program(path: Path, text: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text)
    path.chmod(0o755)


def test_a_host_without_gpu_is_verified_without_other_programs_than_unpackaged_ffmpegs(
    matrix: Matrix, healthy: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("PKG_CONFIG_PATH", raising=False)
    bare = msgspec.structs.replace(healthy, gpus=(), installed={}, copies=(), module=None)
    runner = Recorder()
    report = verify((), "quick", bare, matrix, runner)
    assert {one.status for one in report.checks} <= {"pass", "skip", "fail"}
    assert [argv for argv in runner.asked if not argv[0].endswith("ffmpeg")] == []
    assert {argv[2] for argv in runner.asked} <= {"-version"}


def test_what_was_compiled_in_is_asked_where_ffmpeg_is_named(
    matrix: Matrix, healthy: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "bin/ffmpeg", b"")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    bare = msgspec.structs.replace(healthy, gpus=(), installed={}, copies=(), module=None)
    quiet, asking = Recorder(), Recorder()
    told = {one.id: one for one in verify((), "quick", bare, matrix, quiet).checks}
    assert f"{tmp_path}/bin/ffmpeg (7.1, own build)" in told["ffmpeg.found"].detail
    assert told["ffmpeg.compiled"].reason == "no NVIDIA GPU was found"
    assert {argv[-1] for argv in quiet.asked} == {"-version"}
    verify(("ffmpeg",), "quick", bare, matrix, asking)
    assert {"-encoders", "-decoders", "-filters"} <= {argv[-1] for argv in asking.asked}


def test_packages_of_a_python_are_found_by_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages = tmp_path / "env/lib/python3.11/site-packages"
    (packages / "tensorrt_libs").mkdir(parents=True)
    program(tmp_path / "env/bin/python3", b"\x7fELF")
    monkeypatch.setenv("PATH", str(tmp_path / "env/bin"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    found = package_folders("python3")
    assert found == (str(packages),)
    assert has_name(found, "tensorrt")
    assert not has_name(found, "torch")


def test_a_path_file_adds_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages = tmp_path / "env/lib/python3.11/site-packages"
    packages.mkdir(parents=True)
    (packages / "more.pth").write_text("# a remark\nimport os\n/opt/more\n../near\n")
    program(tmp_path / "env/bin/python3", b"\x7fELF")
    monkeypatch.setenv("PATH", str(tmp_path / "env/bin"))
    assert {"/opt/more", str(packages.parent / "near")} <= set(package_folders("python3") or ())


def test_a_shim_stands_for_all_that_it_may_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages = tmp_path / "pyenv/versions/3.12.1/lib/python3.12/site-packages"
    packages.mkdir(parents=True)
    program(tmp_path / "pyenv/shims/python3", b"#!/bin/sh\n")
    monkeypatch.setenv("PATH", str(tmp_path / "pyenv/shims"))
    assert str(packages) in (package_folders("python3") or ())


def test_a_script_of_unknown_kind_has_to_be_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "own/python3", b"#!/bin/sh\n")
    monkeypatch.setenv("PATH", str(tmp_path / "own"))
    assert package_folders("python3") is None
    assert package_folders("no-such-python") == ()


@pytest.mark.parametrize("pattern", ["*", "a*", "*a", "a*b", "*a*b*", "a*a", "ab", "a?", "[ab]*", "*aa*a", ""])
def test_patterns_match_as_the_shell_does(pattern: str) -> None:
    for name in ("", "a", "b", "ab", "aa", "aab", "abab", "aaa", "baab", "xaxbx", "a*"):
        assert matches(name, pattern) == fnmatch.fnmatchcase(name, pattern), (name, pattern)
