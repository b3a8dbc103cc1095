"""Samples built by a real nvcc, out of the wheels that the tests install. There is no GPU: what runs says so itself."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.integration.nvcc import HOST, TOOLKIT, answered

from gpustack.matrix.index import load_matrix
from gpustack.system.run import LocalRunner
from gpustack.verify.cuda.build import Built, build
from gpustack.verify.cuda.toolchain import Home, find_homes, select_compiler, select_toolkit
from gpustack.verify.cudnn.digits import run_digits
from gpustack.verify.declare import Context, Outcome
from gpustack.verify.nccl import smoke as nccl_smoke


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Context:
    monkeypatch.setenv("CUDA_HOME", str(TOOLKIT))
    for name in ("NVCC_CCBIN", "CUDAHOSTCXX", "LD_LIBRARY_PATH", "CPATH"):
        monkeypatch.delenv(name, raising=False)
    work = tmp_path / "work"
    work.mkdir()
    return Context(host=HOST, matrix=load_matrix(), runner=LocalRunner(), work=work)


def test_nvcc_is_the_one_that_cuda_home_names(context: Context) -> None:
    kit = select_toolkit(context)
    assert kit is not None
    assert (kit.nvcc, kit.release, kit.version, kit.root) == (f"{TOOLKIT}/bin/nvcc", "13.0", "13.0.88", TOOLKIT)


def test_a_program_is_built_for_the_gpus_here(context: Context) -> None:
    built = build(context, "vector.cu")
    assert isinstance(built, Built)
    code = built.program.read_bytes()
    # Machine code for compute capability 8.9, and PTX that names it.
    assert b"sm_89" in code
    assert "-gencode=arch=compute_89,code=sm_89" in built.end.argv


def test_cuda_compile_passes_and_tells_with_what(context: Context) -> None:
    result = answered(context, "cuda.compile")
    assert result.status == "pass", result
    assert result.detail.startswith(f"{TOOLKIT}/bin/nvcc 13.0.88 with g++ ")
    assert result.measurements["compile-time"].unit == "s"


def test_the_program_itself_says_that_there_is_no_driver(context: Context) -> None:
    result = answered(context, "cuda.run")
    assert (result.status, result.reason) == (
        "fail",
        "CUDA: error 35 (cudaErrorInsufficientDriver): the driver is too old for the CUDA runtime of the program, or no driver library was found",
    )
    assert result.fix == (
        "`gpustack install driver`, or build with an older toolkit; `gpustack verify cuda` checks their compatibility"
    )


def test_what_measures_is_built_without_cublas_too(context: Context) -> None:
    result = answered(context, "cuda.copies")
    assert result.status == "fail"
    assert result.reason.startswith("CUDA: error 35 (cudaErrorInsufficientDriver)")


def test_a_host_compiler_that_is_none(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVCC_CCBIN", "/bin/false")
    result = answered(context, "cuda.compile")
    assert (result.status, result.reason, result.fix) == (
        "fail",
        "the host compiler set in NVCC_CCBIN, /bin/false, does not work with nvcc",
        "unset NVCC_CCBIN, or set it to a g++ that this nvcc supports",
    )


def claims(folder: Path, name: str, version: str) -> None:
    """A g++ that is the real one but for the version that it claims, to nvcc as to anybody."""
    major, minor, _ = version.split(".")
    program = folder / name
    program.write_text(
        f'#!/bin/sh\ncase "$1" in -dumpfullversion) echo {version}; exit;; esac\n'
        f'exec /usr/bin/g++ -U__GNUC__ -D__GNUC__={major} -U__GNUC_MINOR__ -D__GNUC_MINOR__={minor} "$@"\n'
    )
    program.chmod(0o755)


def test_a_gcc_that_nvcc_refuses_is_passed_over(
    context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """github.com/NVlabs/instant-ngp issue 1562: the system's gcc is newer than nvcc knows; an older one is beside it."""
    claims(tmp_path, "g++", "16.1.0")
    claims(tmp_path, "g++-14", "14.2.0")
    monkeypatch.setenv("PATH", str(tmp_path))
    found = select_compiler(context)
    assert (found.path, found.version, found.seen) == ("g++-14", "14.2.0", ("g++ 16.1.0", "g++-14 14.2.0"))


def test_no_gcc_that_nvcc_accepts(context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claims(tmp_path, "g++", "16.1.0")
    monkeypatch.setenv("PATH", str(tmp_path))
    result = answered(context, "cuda.compile")
    assert (result.status, result.reason) == (
        "fail",
        "nvcc of CUDA 13.0 supports none of the installed compilers: g++ 16.1.0",
    )
    assert result.fix.startswith("install g++ ")
    assert result.fix.endswith(" as well; gpustack selects it")


def test_a_gcc_that_nvcc_refuses_and_the_user_insists_on(
    context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims(tmp_path, "odd-g++", "99.1.0")
    monkeypatch.setenv("NVCC_CCBIN", str(tmp_path / "odd-g++"))
    result = answered(context, "cuda.compile")
    assert (result.status, result.reason, result.fix) == (
        "fail",
        f"nvcc of CUDA 13.0 does not support the host compiler {tmp_path}/odd-g++ 99.1.0",
        "unset NVCC_CCBIN, or set it to a g++ that this nvcc supports (see `gpustack verify cuda`)",
    )


def test_a_header_that_is_missing_is_named(context: Context, tmp_path: Path) -> None:
    (tmp_path / "cudnn.h").write_text('#include "cudnn_ops.h"\n')
    outcome = run_digits(context, Home(include=tmp_path, library=tmp_path / "libcudnn.so", origin="system"), 0)
    assert (outcome.status, outcome.reason) == ("fail", "the header cudnn_ops.h is missing")
    assert (
        outcome.fix == "install the development package that contains it (for CUDA's headers: `gpustack install cuda`)"
    )


def test_no_nvcc_is_a_skip(context: Context, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    nowhere = msgspec.structs.replace(context, runner=_Without("nvcc"))
    result = answered(nowhere, "cuda.compile")
    assert (result.status, result.reason, result.fix) == (
        "skip",
        "no nvcc was found to build a program",
        "`gpustack install cuda`",
    )


class _Without(LocalRunner):
    """This machine as if a program were not there, wherever it lies."""

    def __init__(self, program: str) -> None:
        self._program = program

    def run(self, argv: tuple[str, ...], **options: Any) -> Any:
        if Path(argv[0]).name == self._program:
            argv = ("/nonexistent", *argv[1:])
        return super().run(argv, **options)


def unpacked(wheel: str, folder: Path) -> Path:
    """The nvidia folder of a wheel that pip fetches."""
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder), wheel]
    subprocess.run(command, check=True)
    (archive,) = folder.glob("*.whl")
    zipfile.ZipFile(archive).extractall(folder)
    archive.unlink()
    return folder / "nvidia"


@pytest.mark.parametrize(
    ("wheel", "soname", "spelled"),
    [
        pytest.param("nvidia-cudnn-cu12==8.9.7.29", "libcudnn.so.8", 8907, marks=pytest.mark.slow, id="8"),
        pytest.param("nvidia-cudnn-cu13==9.14.0.64", "libcudnn.so.9", 91400, id="9"),
    ],
)
def test_the_network_is_built_and_linked_against_cudnn(
    context: Context, tmp_path: Path, wheel: str, soname: str, spelled: int
) -> None:
    """Headers and libraries of cuDNN 8 and 9 as wheels bring them. Up to the first call that needs a GPU it runs."""
    folder = unpacked(wheel, tmp_path / "wheel") / "cudnn"
    shared = context.shared
    shared.once("sites", lambda: (tmp_path / "wheel",))
    (home,) = find_homes(context, "cudnn.h", "libcudnn", "cudnn")
    assert (home.include, home.library) == (folder / "include", folder / "lib" / soname)
    outcome = run_digits(context, home, 0)
    assert isinstance(outcome, Outcome)
    assert outcome.reason.startswith("CUDA fails before cuDNN is used: error 35 (cudaErrorInsufficientDriver)")
    (said,) = outcome.evidence.values()
    assert f'"header": {spelled}, "library": {spelled}' in said
    nowhere = msgspec.structs.replace(context, host=msgspec.structs.replace(context.host, gpus=()))
    linked = answered(nowhere, "cudnn.link")
    assert (linked.status, linked.detail) == (
        "pass",
        f"{home.library}: compiled and linked; not run: no GPU here (it starts, and stops at cudaErrorInsufficientDriver)",
    )


@pytest.mark.slow
def test_the_all_reduce_is_built_and_linked_against_nccl(context: Context, tmp_path: Path) -> None:
    unpacked("nvidia-nccl-cu13==2.28.9", tmp_path / "wheel")
    context.shared.once("sites", lambda: (tmp_path / "wheel",))
    outcome = nccl_smoke.all_reduce(context)
    assert outcome.reason.startswith("CUDA fails before NCCL is used: error 35 (cudaErrorInsufficientDriver)")
    nowhere = msgspec.structs.replace(context, host=msgspec.structs.replace(context.host, gpus=()))
    linked = answered(nowhere, "nccl.link")
    assert (linked.status, linked.detail.partition(": ")[2]) == (
        "pass",
        "compiled and linked; not run: no GPU here (it starts, and stops at cudaErrorInsufficientDriver)",
    )
