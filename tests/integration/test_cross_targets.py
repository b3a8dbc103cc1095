"""Programs built for Arm servers, DRIVE OS Linux and DRIVE OS QNX by the real nvcc, and judged by their architecture.

The targets' parts of the toolkit and of cuDNN are NVIDIA's wheels for 64-bit Arm, placed as its cross packages place
them. QNX's compiler and headers cannot be had here: a Linux compiler for Arm stands in for it, so that what gpustack
does with it is run, not what QNX would say.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.integration import nvcc
from tests.integration.nvcc import HOST, TOOLKIT

from gpustack.matrix.index import load_matrix
from gpustack.system.run import LocalRunner
from gpustack.verify.declare import Context

COMPILER = "aarch64-linux-gnu-g++"
WHEELS = ("nvidia-cuda-runtime==13.0.96", "nvidia-cuda-crt==13.0.88", "nvidia-cuda-cccl==13.0.85")
PLATFORMS = tuple(
    word for name in ("manylinux2014_aarch64", "manylinux_2_17_aarch64", "manylinux_2_27_aarch64")
    for word in ("--platform", name)
)  # fmt: skip


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Context:
    """A host with a toolkit of its own, which has a compiler and nothing else yet."""
    root = tmp_path / "cuda"
    (root / "bin").mkdir(parents=True)
    for name in ("nvcc", "nvcc.profile"):
        shutil.copy(TOOLKIT / "bin" / name, root / "bin")
    monkeypatch.setenv("CUDA_HOME", str(root))
    for name in ("NVCC_CCBIN", "LD_LIBRARY_PATH", "CPATH", "QNX_HOST"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "work").mkdir()
    return Context(host=HOST, matrix=load_matrix(), runner=LocalRunner(), work=tmp_path / "work")


def answered(context: Context) -> tuple[str, str, str]:
    result = nvcc.answered(context, "cudnn.cross")
    return result.status, result.reason or result.detail, result.fix


def test_without_a_cross_toolkit_there_is_nothing_to_build(context: Context) -> None:
    assert answered(context) == ("skip", "no cross toolkit is installed", "")


def test_qnx_without_its_platform(context: Context, tmp_path: Path) -> None:
    (tmp_path / "cuda/targets/aarch64-qnx/include").mkdir(parents=True)
    assert answered(context) == (
        "skip",
        "DRIVE OS QNX skipped: QNX's compiler was not found: QNX_HOST has no usr/bin/aarch64-unknown-nto-qnx*-g++ (QNX SDP)",
        "install the QNX SDP of the DRIVE OS release, and set QNX_HOST and QNX_TARGET to its folders",
    )


class _WithoutCompiler(LocalRunner):
    def run(self, argv: tuple[str, ...], **options: Any) -> Any:
        return super().run(("/nonexistent", *argv[1:]) if argv[0] == COMPILER else argv, **options)


def test_arm_servers_without_a_compiler_for_arm(context: Context, tmp_path: Path) -> None:
    (tmp_path / "cuda/targets/sbsa-linux/include").mkdir(parents=True)
    assert answered(msgspec.structs.replace(context, runner=_WithoutCompiler())) == (
        "skip",
        "Arm servers (SBSA) skipped: aarch64-linux-gnu-g++ was not found",
        "`sudo apt-get install g++-aarch64-linux-gnu`",
    )


def test_a_program_of_another_machine(context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script stands in for an nvcc that builds for this machine whatever it is told."""
    root = tmp_path / "cuda"
    (root / "targets/sbsa-linux/include").mkdir(parents=True)
    (root / "bin/nvcc").write_text(
        "#!/bin/sh\ncase $1 in\n--version) echo 'release 13.0, V13.0.88';;\n"
        f'--dryrun) echo "#$ TOP={root}" >&2;;\n*) while [ "$1" != -o ]; do shift; done; cp /bin/true "$2";;\nesac\n'
    )
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (tmp_path / COMPILER).symlink_to("/bin/true")
    assert answered(context)[:2] == (
        "fail",
        "the program built for Arm servers (SBSA) is for ELF machine 62, not 64-bit Arm",
    )


def fetched(folder: Path, *wheels: str) -> Path:
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", *PLATFORMS]
    subprocess.run([*command, "-d", str(folder), *wheels], check=True)
    for archive in folder.glob("*.whl"):
        zipfile.ZipFile(archive).extractall(folder)
        archive.unlink()
    return folder / "nvidia"


@pytest.mark.slow
def test_programs_are_built_for_every_target(context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SBSA has its cuDNN, DRIVE OS Linux has none, and QNX's compiler is a Linux one under its name."""
    root = tmp_path / "cuda"
    shutil.copytree(TOOLKIT, root, dirs_exist_ok=True)
    parts = fetched(tmp_path / "toolkit", *WHEELS) / "cu13"
    for name in ("sbsa-linux", "aarch64-linux", "aarch64-qnx"):
        shutil.copytree(parts, root / "targets" / name)
        shutil.copy(root / "include/fatbinary_section.h", root / "targets" / name / "include")
    cudnn = fetched(tmp_path / "cudnn", "nvidia-cudnn-cu13==9.14.0.64") / "cudnn"
    shutil.copytree(cudnn / "include", root / "targets/sbsa-linux/include", dirs_exist_ok=True)
    for library in (cudnn / "lib").glob("libcudnn*.so.9"):
        library.rename(root / "targets/sbsa-linux/lib" / library.name)
    qnx = tmp_path / "qnx"
    (qnx / "usr/bin").mkdir(parents=True)
    (qnx / "usr/bin/aarch64-unknown-nto-qnx7.1.0-g++").symlink_to(str(shutil.which(COMPILER)))
    monkeypatch.setenv("QNX_HOST", str(qnx))
    assert answered(context) == (
        "pass",
        "built, not run: Arm servers (SBSA): a program with cuDNN; DRIVE OS Linux: a program without cuDNN, which is not installed; DRIVE OS QNX: a program without cuDNN, which is not installed",
        "",
    )
