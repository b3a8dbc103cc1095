"""Frameworks for Python against GPUs, drivers, Pythons and each other."""

from __future__ import annotations

import pytest

from gpustack.detect.describe import describe
from gpustack.detect.properties import Properties
from gpustack.errors import NoSolutionError, UsageError
from gpustack.matrix.index import load_matrix
from gpustack.model.frameworks import INDEXES, UNJUDGED, Unjudged
from gpustack.model.request import Request
from gpustack.model.resolution import Verdict
from gpustack.solve.check import check
from gpustack.solve.requirements import merge, parse_requirement, split_frameworks
from gpustack.solve.resolve import resolve

MATRIX = load_matrix()


def ask(words: str, gpu: str = "", *, os: str = "ubuntu24.04", arch: str = "x86_64", python: str = "") -> Verdict:
    host = describe(MATRIX, os=os, arch=arch, gpus=(gpu,) if gpu else (), properties=Properties(python=python or None))
    stack, frameworks = split_frameworks(merge(tuple(map(parse_requirement, words.split()))))
    return check(MATRIX, host, Request(requirements=stack, frameworks=frameworks), with_hints=True)


@pytest.mark.parametrize(
    ("words", "gpu", "verdict", "text"),
    [
        ("torch==2.9.1", "RTX 5090", "compatible", ""),
        ("torch==2.5.1", "RTX 5090", "incompatible", "no kernel image is available"),
        ("torch==2.9.1", "GTX 1080", "incompatible", "7.0, 7.5, 8.0"),
        ("torch==2.9.1+cu126", "GTX 1080", "compatible", ""),
        (
            "torch==2.9.1+cu130 driver==570.133.20",
            "RTX 4090",
            "incompatible",
            "driver 580 or newer; this is 570.133.20",
        ),
        ("torch==2.9.1 driver==525.147.05", "RTX 4090", "compatible", ""),
        ("torch==2.9.1 torchvision==0.24.1", "RTX 4090", "compatible", ""),
        ("torch==2.9.1 torchvision==0.23.0", "RTX 4090", "incompatible", "requires torch==2.8.0"),
        ("torch==2.9.1+cu130 torchvision==0.24.1", "RTX 4090", "incompatible", "CUDA 12,"),
        ("torch==2.9.1+cpu", "RTX 4090", "incompatible", "This wheel has no CUDA"),
        ("torch==2.9.1+cu999", "RTX 4090", "unknown", "the builds of torch 2.9.1 are cpu, cu126, cu128, cu130"),
        ("torch==99.0", "RTX 4090", "unknown", "this version is not known"),
        ("tensorrt-llm==1.2.1 driver==580.95.05", "RTX 5090", "compatible", ""),
        ("tensorrt-llm==1.2.1", "Tesla T4", "incompatible", "no PTX"),
        ("tensorrt-llm==1.2.1 driver==575.57.08", "H100", "incompatible", "built for CUDA 13.1"),
        ("tensorrt-llm==1.2.1 torch==2.9.1", "H100", "incompatible", "requires torch==2.9.1+cu130"),
        ("tensorrt-llm==1.2.1 torch==2.9.1+cu130", "H100", "compatible", ""),
        ("xformers==0.0.35", "RTX 5090", "unknown", "refuse GPUs above compute capability 9.0"),
        ("xformers==0.0.35", "H100", "compatible", ""),
        ("tensorflow==2.20.0", "RTX 5080", "incompatible", "CUDA_ERROR_INVALID_PTX"),
    ],
)
def test_a_wheel_is_judged_by_its_gpu_code_driver_and_partners(words: str, gpu: str, verdict: str, text: str) -> None:
    found = ask(words, gpu)
    said = " ".join([one.reason for one in found.conflicts] + [one.reason for one in found.unknown])
    assert (found.verdict, text in said) == (verdict, True), said


def test_a_newer_library_of_the_same_major_release_takes_the_place_of_the_pinned_one() -> None:
    found = ask("nvidia-cudnn-cu12==9.15.1.9 torch==2.9.1")
    assert found.verdict == "compatible"
    assert "pip refuses the two in one request" in " ".join(found.warnings)
    refused = ask("nvidia-cudnn-cu12==9.5.0.50 torch==2.9.1")
    assert refused.hints == ("compatible with torch==2.9.1: nvidia-cudnn-cu12==9.10.2.21",)


def test_a_library_next_to_the_toolkit_and_the_library_of_the_system() -> None:
    assert "for programs of CUDA 12" in ask("nvidia-cudnn-cu12==9.10.2.21 cuda==13.0.2").conflicts[0].reason
    assert ask("nvidia-cudnn-cu12==9.10.2.21 torch==2.9.1 cuda==13.0.2").verdict == "compatible"
    assert "search path" in " ".join(ask("nvidia-cudnn-cu12==9.10.2.21 cudnn==9.5.0.50").warnings)
    assert "does not load" in " ".join(ask("nvidia-cublas==13.1.1.3 torch==2.9.1").warnings)


def test_an_exact_version_is_that_release_and_no_longer_one() -> None:
    assert "jax-cuda13-plugin==0.12.0 requires" in " ".join(ask("jax-cuda13-plugin==0.12.0").warnings)


def test_a_plan_keeps_to_the_pins_of_libraries() -> None:
    request = Request(requirements=(), frameworks=tuple(map(parse_requirement, ("nvidia-nccl-cu12", "torch==2.9.1"))))
    host = describe(MATRIX, os="ubuntu24.04", arch="x86_64", gpus=("H100",))
    picked = {one.build.component: one.build.version for one in resolve(MATRIX, host, request).frameworks or ()}
    assert picked["nvidia-nccl-cu12"] == "2.27.5"


def test_the_wheels_of_a_library_for_windows_are_those_of_the_index() -> None:
    assert ask("nvidia-cudnn-cu12==9.10.2.21", "RTX 4090", os="windows11").verdict == "compatible"
    none = ask("nvidia-nccl-cu12==2.27.5", os="windows11").conflicts
    assert "No wheel of nvidia-nccl-cu12==2.27.5 is for Windows on x86_64" in none[0].reason
    unknown = ask("tensorrt-cu12==10.9.0.34", os="windows11").unknown  # NVIDIA's own index has its wheels
    assert "for Linux on x86_64 only" in unknown[0].reason


def test_every_name_that_is_not_judged_says_why() -> None:
    rows = {row.component: row.says for row in MATRIX.rows(INDEXES, "unjudged", Unjudged)}
    assert rows.keys() == set(UNJUDGED)
    for name, says in rows.items():
        assert [one.reason for one in ask(f"{name}==1.0", "A100").unknown] == [f"{name}==1.0: {says}"]
    with pytest.raises(NoSolutionError, match="apex: NVIDIA publishes no wheel of it"):
        resolve(
            MATRIX,
            describe(MATRIX, os="ubuntu24.04", arch="x86_64"),
            Request(requirements=(), frameworks=(parse_requirement("apex"),)),
        )


def test_triton_from_3_on_is_the_compiler_of_pytorch_and_before_the_server() -> None:
    assert "torch==2.9.1 requires triton==3.5.1" in ask("triton==3.5.0 torch==2.9.1").conflicts[0].reason
    assert ask("triton==3.5.1 torch==2.9.1", "H100").verdict == "compatible"
    assert "compute capability 8.0 and later" in ask("triton==3.5.1", "T4").unknown[0].reason
    assert not split_frameworks((parse_requirement("triton==2.62.0"),))[1]
    assert not split_frameworks((parse_requirement("triton==25.10"),))[1]


def test_a_wheel_with_code_for_one_pytorch_loads_with_no_other() -> None:
    refused = ask("torchcodec==0.8.1 torch==2.8.0").conflicts[0].reason
    assert refused == "torchcodec==0.8.1 loads with torch 2.9.x only."
    assert ask("torchcodec==0.8.1 torch==2.9.1").verdict == "compatible"
    assert "CUDA 13" in ask("torchcodec==0.14.0 torch==2.13.0+cu126").conflicts[0].reason


def test_the_cuda_that_a_wheel_loads_is_that_of_the_pytorch_next_to_it() -> None:
    assert "no library for CUDA 12.8" in ask("xformers==0.0.33 torch==2.9.0", "A100").conflicts[0].reason
    assert ask("xformers==0.0.33.post1 torch==2.9.0", "A100").verdict == "compatible"
    assert "for which PyTorch there are wheels of flash-attn==2.8.3.post2 is unknown" in (
        ask("flash-attn==2.8.3.post2 torch==2.9.1", "A100").unknown[0].reason
    )


def test_what_compiles_with_any_toolkit_is_judged_by_the_one_that_is_asked_about() -> None:
    assert ask("numba-cuda==0.22.2", "V100").verdict == "unknown"
    assert ask("numba-cuda==0.22.2 cuda==12.9.1", "V100").verdict == "compatible"
    assert ask("numba-cuda==0.22.2 cuda==13.0.2", "V100").verdict == "incompatible"


def test_the_python_and_the_c_library_of_a_system_count() -> None:
    assert "Python" in ask("torch==1.13.1", "A100").conflicts[0].reason
    assert ask("torch==1.13.1", "A100", python="3.10").verdict == "compatible"
    assert "glibc" in ask("torch==2.9.1", "A100", os="centos7", python="3.11").conflicts[0].reason


def test_another_build_of_the_same_release_is_named() -> None:
    assert ask("torch==2.9.1", "GTX 1080").hints == (
        "compatible here: torch==2.9.1+cu126, from --index-url https://download.pytorch.org/whl/cu126",
    )


def test_a_host_without_the_platform_of_a_wheel_gets_none() -> None:
    found = ask("torch==2.9.1", "A100", arch="aarch64")
    assert found.verdict == "incompatible"
    assert "CPU build" in found.conflicts[0].reason


def test_extras_of_jax_name_plugins_and_others_add_nothing() -> None:
    assert parse_requirement("tensorflow[and-cuda]==2.18.0").component == "tensorflow"
    with pytest.raises(UsageError) as refused:
        parse_requirement("jax[cuda13]==0.9.2")
    assert refused.value.hint == "ask for both: jax==0.9.2 jax-cuda13-plugin"


@pytest.mark.parametrize(("gpu", "plugin"), [("L4", "jax-cuda13-plugin"), ("V100", "jax-cuda12-plugin")])
def test_a_plan_of_jax_has_the_plugin_that_runs_on_the_gpu(gpu: str, plugin: str) -> None:
    host = describe(MATRIX, os="ubuntu24.04", arch="x86_64", gpus=(gpu,))
    found = resolve(MATRIX, host, Request(requirements=(), frameworks=(parse_requirement("jax"),)))
    assert plugin in {one.build.component for one in found.frameworks or ()}
