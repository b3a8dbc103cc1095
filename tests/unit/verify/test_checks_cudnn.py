"""Every quick check of cuDNN, seen to pass, to fail with its whole text, and to be skipped."""

from __future__ import annotations

from typing import Any

import pytest

from gpustack.model.host import Copy, Installed, KernelModule

SYSTEM = "/usr/lib/x86_64-linux-gnu/libcudnn.so.9"


def cudnn(path: str, version: str | None, *, wins: bool = True, owner: str | None = None) -> Copy:
    soname = f"libcudnn.so.{version.partition('.')[0]}" if version else "libcudnn.so.9"
    return Copy(component="cudnn", path=path, version=version, soname=soname, owner=owner, wins=wins)


WHEEL = cudnn(
    "/venv/nvidia/cudnn/lib/libcudnn.so.9", "9.10.2.21", wins=False, owner="wheel nvidia-cudnn-cu12 9.10.2.21"
)
OLD_DRIVER = KernelModule(version="470.42.01", flavour="proprietary", loaded=True)

PASSES: list[tuple[str, dict[str, Any], str]] = [
    ("cudnn.found", {}, f"{SYSTEM} (9.1.0)"),
    (
        "cudnn.found",
        {"without": ("cudnn",), "copies": (WHEEL,)},
        (
            "in Python environments only: /venv/nvidia/cudnn/lib/libcudnn.so.9 (9.10.2.21, from wheel nvidia-cudnn-cu12 9.10.2.21)"
        ),
    ),
    (
        "cudnn.found",
        {"copies": (), "installed": {"cudnn": Installed(version="9.1.0.70", method="pip")}},
        "9.1.0.70 as a Python wheel, in that Python environment only",
    ),
    ("cudnn.versions", {}, "9.1.0 throughout"),
    (
        "cudnn.versions",
        {"copies": (cudnn(SYSTEM, "9.1.0"), cudnn("/usr/include/cudnn_version.h", "9.1.0"))},
        "9.1.0 throughout",
    ),
    (
        "cudnn.versions",
        {
            "copies": (
                cudnn(SYSTEM, "9.1.0"),
                cudnn("/usr/local/cuda-11.8/include/cudnn_version.h", "8.9.7"),
                cudnn("/usr/include/cudnn_version.h", "9.1.0"),
            )
        },
        "9.1.0 throughout",
    ),
    (
        "cudnn.versions",
        {"copies": (cudnn(SYSTEM, "9.1.0"), WHEEL)},
        (
            f"programs load {SYSTEM} (9.1.0); also found: /venv/nvidia/cudnn/lib/libcudnn.so.9 (9.10.2.21, from wheel nvidia-cudnn-cu12 9.10.2.21)"
        ),
    ),
    (
        "cudnn.versions",
        {"copies": (cudnn("/usr/lib/libcudnn.so.8", "8.9.7"), cudnn(SYSTEM, "9.1.0"))},
        f"programs load {SYSTEM} (9.1.0); also found: /usr/lib/libcudnn.so.8 (8.9.7)",
    ),
    ("cudnn.cuda", {}, "cuDNN 9.1.0 is compatible with CUDA 12.4.1"),
    (
        "cudnn.cuda",
        {"versions": {"cuda": "12.6.0"}},
        "cuDNN 9.1.0 is compatible with CUDA 12.6.0; cuDNN 9.1 was seen up to CUDA 12.4",
    ),
    ("cudnn.driver", {}, "cuDNN 9.1.0 is compatible with driver 550.54.15"),
]


@pytest.mark.parametrize(("identity", "changes", "detail"), PASSES)
def test_pass(answer: Any, identity: str, changes: dict[str, Any], detail: str) -> None:
    result = answer(identity, **dict(changes))
    assert (result.status, result.reason, result.detail) == ("pass", "", detail)


FAILS: list[tuple[str, dict[str, Any], str, str]] = [
    (
        "cudnn.found",
        {"copies": ()},
        "cuDNN 9.1.0.70 is installed, but the loader does not find libcudnn",
        "add its folder to /etc/ld.so.conf.d and run `sudo ldconfig`, or reinstall it",
    ),
    (
        "cudnn.versions",
        {"copies": (cudnn(SYSTEM, "9.1.0"), cudnn("/usr/include/cudnn_version.h", "9.10.2"))},
        f"programs are built with cuDNN 9.10.2 (/usr/include/cudnn_version.h) but load 9.1.0 ({SYSTEM})",
        "remove the copy that you do not need, then `gpustack install cudnn`",
    ),
    (
        "cudnn.versions",
        {"copies": (cudnn("/opt/old/libcudnn.so.9", "9.0.0"), cudnn(SYSTEM, "9.1.0", wins=False))},
        "cuDNN 9.1.0.70 is installed, but programs load /opt/old/libcudnn.so.9 (9.0.0)",
        (
            "remove /opt/old/libcudnn.so.9, or the entry of LD_LIBRARY_PATH or /etc/ld.so.conf.d that"
            " puts its folder first"
        ),
    ),
    (
        "cudnn.cuda",
        {"versions": {"cuda": "13.0.2"}},
        ("cuDNN 9.1.0 is not compatible with CUDA 13.0.2: cuDNN 9.1.0 requires CUDA 11.x or 12.x"),
        "install a compatible cuDNN: `gpustack install cudnn 'cuda==13.0.2'`",
    ),
    (
        "cudnn.driver",
        {"module": OLD_DRIVER},
        "cuDNN 9.1.0 is not compatible with driver 470.42.01: cuDNN 9.1.0 requires driver 525.60.13 or newer",
        "install a newer driver: `gpustack install 'driver>=525.60.13'`",
    ),
    (
        "cudnn.driver",
        {"module": OLD_DRIVER, "environment": "container"},
        "cuDNN 9.1.0 is not compatible with driver 470.42.01: cuDNN 9.1.0 requires driver 525.60.13 or newer",
        "install a newer driver on the container's host: `gpustack install 'driver>=525.60.13'`",
    ),
]


@pytest.mark.parametrize(("identity", "changes", "reason", "fix"), FAILS)
def test_fail(answer: Any, identity: str, changes: dict[str, Any], reason: str, fix: str) -> None:
    result = answer(identity, **dict(changes))
    assert (result.status, result.reason, result.fix) == ("fail", reason, fix)
    assert result.expected


NONE = "no cuDNN of known version was found"
SKIPS: list[tuple[str, dict[str, Any], str]] = [
    ("cudnn.found", {"without": ("cudnn",)}, "no cuDNN was found"),
    ("cudnn.versions", {"without": ("cudnn",)}, "no cuDNN library is on the loader's path"),
    ("cudnn.versions", {"copies": (cudnn(SYSTEM, None),)}, f"the version of {SYSTEM} is unknown"),
    ("cudnn.cuda", {"without": ("cudnn",)}, NONE),
    ("cudnn.cuda", {"without": ("cuda",)}, "no CUDA toolkit was found to compare with"),
    (
        "cudnn.cuda",
        {"copies": (cudnn("/usr/lib/libcudnn.so.8", "8.9.7"),), "without": ("cudnn",)},
        "compatibility of cuDNN 8.9.7 with CUDA 12.4.1 is unknown",
    ),
    ("cudnn.driver", {"without": ("cudnn",)}, NONE),
    (
        "cudnn.driver",
        {"environment": "jetson"},
        "Jetson Linux has driver versions of its own",
    ),
    ("cudnn.driver", {"module": None, "without": ("driver",)}, "no driver was found"),
    (
        "cudnn.driver",
        {"copies": (cudnn("/usr/lib/libcudnn.so.8", "8.9.7"),), "without": ("cudnn",)},
        "compatibility of cuDNN 8.9.7 with driver 550.54.15 is unknown",
    ),
]


@pytest.mark.parametrize(("identity", "changes", "reason"), SKIPS)
def test_skip(answer: Any, identity: str, changes: dict[str, Any], reason: str) -> None:
    result = answer(identity, **dict(changes))
    # The component is named, so that the first check fails where all of them are skipped.
    assert (result.status, result.reason) in {("skip", reason), ("fail", f"required, but {reason}")}
