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
    ("cuda.driver", {}, "CUDA 12.4.1 is compatible with driver 550.54.15"),
    (
        "cuda.driver",
        {"module": driver("535.104.05")},
        (
            "driver 535.104.05 runs CUDA 12.4.1 by minor-version compatibility: CUDA 12.4 belongs to driver 550.54.14; PTX is not compiled at run time on an older one"
        ),
    ),
    (
        "cuda.driver",
        {"module": driver("535.104.05"), "copies": (COMPAT,), "versions": {"cuda": "13.0.2"}},
        "driver 535.104.05 runs CUDA 13.0.2 by forward compatibility, through /usr/local/cuda-13.0/compat/libcuda.so.1",
    ),
    ("cuda.host-compiler", {}, "CUDA 12.4.1 is compatible with GCC 13.2.0"),
    ("cuda.gpu", {}, "CUDA 12.4.1 is compatible with L4 (0000:01:00.0, compute capability 8.9)"),
    (
        "cuda.gpu",
        {"gpu": {"compute_capability": "8.8"}},
        "CUDA 12.4.1 is compatible with L4 (0000:01:00.0, compute capability 8.8); CUDA 12.4 does not know 8.8 by name",
    ),
]


@pytest.mark.parametrize(("identity", "changes", "detail"), PASSES)
def test_pass(answer: Any, identity: str, changes: dict[str, Any], detail: str) -> None:
    result = answer(identity, **changes)
    assert (result.status, result.reason, result.detail) == ("pass", "", detail)


TOO_OLD = "CUDA 13.0.2 is not compatible with driver 535.104.05: CUDA 13.0.2 requires driver 580 or newer"
OLD = {"module": driver("535.104.05"), "versions": {"cuda": "13.0.2"}}
FAILS: list[tuple[str, dict[str, Any], str, str]] = [
    (
        "cuda.toolkit",
        {"installed": {"cuda": Installed(path="/usr/local/cuda")}},
        "the version of /usr/local/cuda is unknown: its version.json and nvcc are missing or broken",
        "reinstall the toolkit: `gpustack install cuda`",
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
        "install a newer driver on the container's host, or use an image with an older CUDA",
    ),
    (
        "cuda.driver",
        {**OLD, "copies": (COMPAT,), "gpu": {"kind": "consumer", "name": "RTX 4090"}},
        (
            f"{TOO_OLD}; the forward compatibility library /usr/local/cuda-13.0/compat/libcuda.so.1 does not help: it supports data-center GPUs only, not RTX 4090 (0000:01:00.0) (error 804)"
        ),
        (
            "remove /usr/local/cuda-13.0/compat/libcuda.so.1 from the loader's path, then `gpustack"
            " install 'driver>=580'`, or an"
            " older toolkit: `gpustack install cuda`"
        ),
    ),
    (
        "cuda.driver",
        {"module": driver("550.54.15"), "copies": (COMPAT,), "versions": {"cuda": "13.0.2"}},
        (
            "CUDA 13.0.2 is not compatible with driver 550.54.15: CUDA 13.0.2 requires driver 580 or newer; the forward compatibility library /usr/local/cuda-13.0/compat/libcuda.so.1 does not support driver branch 550 either"
        ),
        "install a newer driver: `gpustack install driver`",
    ),
    (
        "cuda.host-compiler",
        {"gcc": "14.2.0"},
        ("CUDA 12.4.1 is not compatible with GCC 14.2.0: CUDA 12.4.1 recommends GCC 6 to before 14"),
        "install a supported GCC as well, and build with `nvcc -ccbin g++-VERSION`",
    ),
    (
        "cuda.gpu",
        {"gpu": {"compute_capability": "12.0", "name": "RTX 5090"}},
        (
            "CUDA 12.4.1 is not compatible with RTX 5090 (0000:01:00.0, compute capability 12.0): CUDA 12.4.1 requires a GPU of compute capability 5.0 to before 10"
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
        "Jetson Linux has driver versions of its own",
    ),
    (
        "cuda.driver",
        {"module": None, "without": ("driver",), "environment": "container"},
        "no NVIDIA driver is available in this container",
    ),
    ("cuda.driver", {"module": None, "without": ("driver",)}, "no driver was found"),
    ("cuda.driver", {"module": None, "without": ("driver",), "gpus": ()}, "no driver was found"),
    ("cuda.driver", {"versions": {"cuda": "15.0"}}, "compatibility of CUDA 15.0 with driver 550.54.15 is unknown"),
    (
        "cuda.driver",
        {"module": driver("470.42.01"), "copies": (COMPAT,), "versions": {"cuda": "13.0.2"}},
        "compatibility of /usr/local/cuda-13.0/compat/libcuda.so.1 (CUDA 13.0.2) with driver branch 470 is unknown",
    ),
    (
        "cuda.host-compiler",
        {"os": OperatingSystem(family="windows")},
        "the installed Visual C++ version is unknown",
    ),
    ("cuda.host-compiler", {"gcc": None}, "no GCC was found; nvcc requires a host compiler"),
    ("cuda.host-compiler", {"versions": {"cuda": "13.0.2"}}, "compatibility of CUDA 13.0.2 with GCC 13.2.0 is unknown"),
    ("cuda.gpu", {"gpus": ()}, "no NVIDIA GPU was found"),
    ("cuda.gpu", {"gpu": {"compute_capability": None}}, "the compute capability of L4 (0000:01:00.0) is unknown"),
    (
        "cuda.gpu",
        {"versions": {"cuda": "13.0.2"}},
        "compatibility of CUDA 13.0.2 with L4 (0000:01:00.0, compute capability 8.9) is unknown",
    ),
]


@pytest.mark.parametrize(("identity", "changes", "reason"), SKIPS)
def test_skip(answer: Any, identity: str, changes: dict[str, Any], reason: str) -> None:
    result = answer(identity, **dict(changes))
    # The component is named, so that the first check fails where all of them are skipped.
    assert (result.status, result.reason) in {("skip", reason), ("fail", f"required, but {reason}")}
