"""--from COMPONENT=FILE: what is planned from a downloaded file, and how each form takes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Call
from tests.integration.vendor_files import CUDNN_896, X86_64, elf, tar, wheel

TOP = "cudnn-linux-x86_64-8.9.6.50_cuda12-archive"
HOST = ("--os", "ubuntu22.04", "--gpu", "L4")


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    files = {f"{TOP}/include/cudnn_version.h": CUDNN_896, f"{TOP}/lib/libcudnn.so.8.9.6": elf(X86_64)}
    return tar(tmp_path / "it's mine; rm -rf.tar.xz", files)


def plan(call: Call, *words: str) -> dict[str, Any]:
    done = call("plan", *words, "--format", "json")
    assert done.code == 0, done.err
    made: dict[str, Any] = json.loads(done.out)
    return made


def test_the_file_decides_version_and_method_and_the_rest_fits_it(call: Call, archive: Path) -> None:
    made = plan(call, "cuda", "--from", f"cudnn={archive}", *HOST)
    cudnn = made["stack"]["cudnn"]
    assert (cudnn["version"], cudnn["method"]) == ("8.9.6.50", "tar")
    assert archive.name in cudnn["reason"]
    assert made["stack"]["cuda"]["version"].startswith("12.")
    (artifact,) = [one for step in made["steps"] for one in step["artifacts"] if one["url"].startswith("file:")]
    (file,) = made["request"]["files"]
    assert artifact["sha256"] == file["sha256"]
    assert len(artifact["sha256"]) == 64


def test_another_major_of_cuda_is_refused_because_of_the_file(call: Call, archive: Path) -> None:
    done = call("plan", "cuda==13.*", "--from", f"cudnn={archive}", *HOST)
    assert done.is_told(3)
    assert "is built for CUDA 12" in done.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("cudnn==9.*",), "is cudnn 8.9.6.50, and cudnn==9.* is asked for"),
        (("--method", "cudnn=network"), "is installed by the method tar, and --method cudnn=network is asked for"),
    ],
)
def test_what_contradicts_the_file_is_refused(call: Call, archive: Path, words: tuple[str, ...], message: str) -> None:
    done = call("plan", *words, "--from", f"cudnn={archive}", *HOST)
    assert done.is_told(2)
    assert message in done.err


@pytest.mark.parametrize(
    "text", ["cudnn", "cudnn=", "=x", "nothing=x", "ffmpeg=/etc/passwd", "cudnn=/dev/null", "cudnn=/"]
)
def test_words_that_name_no_file_are_refused(call: Call, text: str) -> None:
    assert call("plan", "--from", text, *HOST).is_told(2)


def test_a_release_that_nobody_has_read_about_is_warned_of_and_refused_where_it_must_be_judged(
    call: Call, tmp_path: Path
) -> None:
    top = "cudnn-linux-x86_64-9.99.0.7_cuda13-archive"
    header = b"#define CUDNN_MAJOR 9\n#define CUDNN_MINOR 99\n#define CUDNN_PATCHLEVEL 0\n"
    new = tar(tmp_path / "x.tgz", {f"{top}/include/cudnn_version.h": header, f"{top}/lib/libcudnn.so.9": elf(X86_64)})
    words = ("--from", f"cudnn={new}", *HOST)
    assert any("cudnn==9.99.0.7: this version is not known" in text for text in plan(call, *words)["warnings"])
    assert call("plan", *words, "--strict").is_told(3)


@pytest.mark.parametrize("form", ["shell", "ansible", "cloud-init", "markdown"])
def test_forms_copy_the_file_and_compare_its_checksum(call: Call, archive: Path, form: str) -> None:
    sha256 = plan(call, "cuda", "--from", f"cudnn={archive}", *HOST)["request"]["files"][0]["sha256"]
    done = call("plan", "cuda", "--from", f"cudnn={archive}", *HOST, "--format", form)
    assert done.code == 0, done.err
    assert sha256 in done.out
    assert "file://" not in done.out
    assert f"curl {archive}" not in done.out


def test_a_dockerfile_takes_the_file_from_the_build_context_by_a_plain_name(call: Call, archive: Path) -> None:
    done = call("plan", "cuda", "--from", f"cudnn={archive}", *HOST, "--format", "dockerfile")
    assert done.code == 0, done.err
    assert f"RUN --mount=type=bind,source={TOP}.tar.xz,target=/run/gpustack/{TOP}.tar.xz" in done.out


def test_wheels_are_installed_by_path_and_checksum(call: Call, tmp_path: Path) -> None:
    path = wheel(tmp_path / "x.whl", "nvidia-cudnn-cu12", "9.1.0.70", "py3-none-manylinux2014_x86_64")
    made = plan(call, "--from", f"cudnn={path}", "--method", "cuda=pip", *HOST)
    texts = [file["content"] for step in made["steps"] for file in step["files"] if "cudnn-9.1.0" in file["path"]]
    assert any("nvidia_cudnn_cu12-9.1.0.70-py3-none-manylinux2014_x86_64.whl --hash=sha256:" in text for text in texts)


def test_a_method_that_lacks_a_version_names_the_file_behind_the_login(call: Call) -> None:
    done = call("plan", "cudnn==8.9.6.*", "cuda==12.2.*", "--method", "cudnn=local", *HOST)
    assert done.is_told(3)
    assert (
        "hint: download cudnn-local-repo-ubuntu2204-8.9.6.50_1.0-1_amd64.deb from "
        "https://developer.nvidia.com/rdp/cudnn-archive, which asks for a login, and use it: --from cudnn=FILE"
    ) in done.err


def test_a_request_file_names_files_too(call: Call, archive: Path, tmp_path: Path) -> None:
    toml = tmp_path / "gpustack.toml"
    toml.write_text(f"[options]\nfrom = {json.dumps(f'cudnn={archive}')}\n")
    assert plan(call, "cuda", "--file", str(toml), *HOST)["stack"]["cudnn"]["version"] == "8.9.6.50"
