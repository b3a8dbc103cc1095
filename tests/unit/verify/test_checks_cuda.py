"""Every quick check of the CUDA toolkit, seen to pass, to fail with its whole text, and to be skipped."""

from __future__ import annotations

from typing import Any

import pytest

from gpustack.model.host import Copy, Installed, KernelModule, OperatingSystem

COMPAT = Copy(
    component="cuda-compat",
    path="/usr/local/cuda-13.0/compat/libcuda.so.1",
    version="580.65.06",
    soname="libcuda.so.1",
    wins=True,
)


def driver(version: str) -> KernelModule:
    return KernelModule(version=version, flavour="open", loaded=True)


PASSES: list[tuple[str, dict[str, Any], str]] = [
    ("cuda.toolkit", {}, "12.4.1 in /usr/local/cuda-12.4"),
    ("cuda.driver", {}, "driver 550.54.15 runs CUDA 12.4.1"),
    (
        "cuda.driver",
        {"module": driver("535.104.05")},
        (
            "driver 535.104.05 runs CUDA 12.4.1 by minor version compatibility: CUDA 12.4 belongs to"
            " driver 550.54.14; PTX is"
            " not compiled at run time on an older one"
        ),
    ),
    (
        "cuda.driver",
        {"module": driver("535.104.05"), "copies": (COMPAT,), "versions": {"cuda": "13.0.2"}},
        "driver 535.104.05 runs CUDA 13.0.2 by forward compatibility, through /usr/local/cuda-13.0/compat/libcuda.so.1",
    ),
    ("cuda.host-compiler", {}, "gcc 13.2.0 is accepted by nvcc of CUDA 12.4.1"),
    ("cuda.gpu", {}, "CUDA 12.4.1 builds for L4 (0000:01:00.0)"),
    (
        "cuda.gpu",
        {"gpu": {"compute_capability": "8.8"}},
        "L4 (0000:01:00.0): CUDA 12.4 does not know 8.8 by name",
    ),
]


@pytest.mark.parametrize(("identity", "changes", "detail"), PASSES)
def test_pass(answer: Any, identity: str, changes: dict[str, Any], detail: str) -> None:
    result = answer(identity, **changes)
    assert (result.status, result.reason, result.detail) == ("pass", "", detail)


TOO_OLD = "CUDA 13.0.2 will not run on driver 535.104.05: CUDA 13.0.2 needs driver 580 or newer"
OLD = {"module": driver("535.104.05"), "versions": {"cuda": "13.0.2"}}
FAILS: list[tuple[str, dict[str, Any], str, str]] = [
    (
        "cuda.toolkit",
        {"installed": {"cuda": Installed(path="/usr/local/cuda")}},
        "/usr/local/cuda does not say its version",
        "install the toolkit again: its version.json and nvcc are missing or broken",
    ),
    (
        "cuda.driver",
        OLD,
        TOO_OLD,
        "`gpustack install 'driver>=580'`, or an older toolkit: `gpustack install cuda`",
    ),
    ("cuda.driver", {**OLD, "environment": "wsl"}, TOO_OLD, "install a newer driver in Windows"),
    (
        "cuda.driver",
        {**OLD, "environment": "container"},
        TOO_OLD,
        "install a newer driver on the machine below the container, or take an image with an older CUDA",
    ),
    (
        "cuda.driver",
        {**OLD, "copies": (COMPAT,), "gpu": {"kind": "consumer", "name": "RTX 4090"}},
        (
            f"{TOO_OLD}; the forward compatibility library /usr/local/cuda-13.0/compat/libcuda.so.1"
            " does not help, because"
            " RTX 4090 (0000:01:00.0) is no data-centre GPU (error 804)"
        ),
        (
            "take /usr/local/cuda-13.0/compat/libcuda.so.1 off the loader path, then `gpustack"
            " install 'driver>=580'`, or an"
            " older toolkit: `gpustack install cuda`"
        ),
    ),
    (
        "cuda.driver",
        {"module": driver("550.54.15"), "copies": (COMPAT,), "versions": {"cuda": "13.0.2"}},
        (
            "CUDA 13.0.2 will not run on driver 550.54.15: CUDA 13.0.2 needs driver 580 or newer;"
            " its forward compatibility"
            " library /usr/local/cuda-13.0/compat/libcuda.so.1 does not work on branch 550 either"
        ),
        "install a newer driver: `gpustack install driver`",
    ),
    (
        "cuda.host-compiler",
        {"gcc": "14.2.0"},
        (
            "the system's gcc is 14.2.0, and this is not one that nvcc of CUDA 12.4.1 accepts: CUDA"
            " 12.4.1 asks for GCC 6 to before 14"
        ),
        "install an accepted gcc beside it and build with `nvcc -ccbin` naming its g++",
    ),
    (
        "cuda.gpu",
        {"gpu": {"compute_capability": "12.0", "name": "RTX 5090"}},
        (
            "CUDA 12.4.1 does not build for RTX 5090 (0000:01:00.0), compute capability 12.0: CUDA"
            " 12.4.1 needs a GPU of"
            " compute capability 5.0 to before 10"
        ),
        "`gpustack install cuda`",
    ),
]


@pytest.mark.parametrize(("identity", "changes", "reason", "fix"), FAILS)
def test_fail(answer: Any, identity: str, changes: dict[str, Any], reason: str, fix: str) -> None:
    result = answer(identity, **dict(changes))
    assert (result.status, result.reason, result.fix) == ("fail", reason, fix)
    assert result.expected


SKIPS: list[tuple[str, dict[str, Any], str]] = [
    *(
        (f"cuda.{name}", {"without": ("cuda",)}, "no CUDA toolkit was found")
        for name in ("toolkit", "driver", "host-compiler", "gpu")
    ),
    (
        "cuda.driver",
        {"environment": "jetson"},
        "Jetson's driver comes with its own Linux and is not counted as other drivers are",
    ),
    (
        "cuda.driver",
        {"module": None, "without": ("driver",), "environment": "container"},
        "the container was given no driver",
    ),
    ("cuda.driver", {"module": None, "without": ("driver",)}, "no driver was found"),
    ("cuda.driver", {"module": None, "without": ("driver",), "gpus": ()}, "no driver was found"),
    ("cuda.driver", {"versions": {"cuda": "15.0"}}, "no fact covers CUDA 15.0 with driver 550.54.15"),
    (
        "cuda.driver",
        {"module": driver("470.42.01"), "copies": (COMPAT,), "versions": {"cuda": "13.0.2"}},
        "no fact tells whether /usr/local/cuda-13.0/compat/libcuda.so.1 (CUDA 13.0.2) works on driver branch 470",
    ),
    (
        "cuda.host-compiler",
        {"os": OperatingSystem(family="windows")},
        "which Visual C++ is installed is not known",
    ),
    ("cuda.host-compiler", {"gcc": None}, "no gcc was found; nvcc needs a host compiler to build programs"),
    ("cuda.host-compiler", {"versions": {"cuda": "13.0.2"}}, "no fact covers CUDA 13.0.2 with gcc 13.2.0"),
    ("cuda.gpu", {"gpus": ()}, "no NVIDIA GPU was found here"),
    ("cuda.gpu", {"gpu": {"compute_capability": None}}, "no fact covers CUDA 12.4.1 with L4 (0000:01:00.0)"),
    ("cuda.gpu", {"versions": {"cuda": "13.0.2"}}, "no fact covers CUDA 13.0.2 with L4 (0000:01:00.0)"),
]


@pytest.mark.parametrize(("identity", "changes", "reason"), SKIPS)
def test_skip(answer: Any, identity: str, changes: dict[str, Any], reason: str) -> None:
    result = answer(identity, **dict(changes))
    assert (result.status, result.reason) == ("skip", reason)
