"""Hosts on which something is wrong or missing, and what the quick checks say of them, by the program's own facts.

Commands are answered from a script; nothing of this machine is looked at.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.failures.conftest import Ask, Compare, Scripted, says, told
from tests.unit.verify.conftest import HEALTHY, LIBRARIES

from gpustack.model.host import Copy, Host, Installed, KernelModule


def changed(**changes: Any) -> Host:
    """The healthy host, with changes; ``gpu`` are those of its GPU, ``versions`` those of what is installed."""
    gpu = changes.pop("gpu", {})
    versions = changes.pop("versions", {})
    installed = {
        **HEALTHY.installed,
        **{name: Installed(version=version, method="network") for name, version in versions.items()},
    }
    fields = {"gpus": (msgspec.structs.replace(HEALTHY.gpus[0], **gpu),), "installed": installed, **changes}
    return msgspec.structs.replace(HEALTHY, **fields)


def library(component: str, version: str | None, *, soname: str = "", wins: bool = True) -> Copy:
    name = soname or f"lib{component}.so.1"
    return Copy(component=component, path=f"{LIBRARIES}/{name}", version=version, soname=name, wins=wins)


NOTHING = changed(installed={}, copies=(), module=None)
CONTAINER = changed(environment="container")
H200 = {"name": "H200", "pci_id": "10de:2335", "compute_capability": "9.0", "fabric": "nvswitch", "nvenc": 0}
NCCL = library("nccl", "2.21.5", soname="libnccl.so.2")

QUICK: dict[str, tuple[str, Host, Scripted]] = {
    "packages over a module": (
        "driver.version",
        changed(installed={"driver": Installed(version="560.35.03", packaged="560.35.03", packages=("nvidia-open",))}),
        Scripted(),
    ),
    "held by nouveau": ("driver.module", changed(gpu={"bound": "nouveau"}), Scripted()),
    "another installation": (
        "driver.version",
        changed(
            installed={"driver": Installed(version="560.35.03", packaged="560.35.03", packages=("nvidia-open",))},
            copies=(),
        ),
        Scripted(),
    ),
    "no fabric manager": ("driver.fabric-manager", changed(gpu=H200, nvswitches=4), Scripted()),
    "perhaps a fabric manager": ("driver.fabric-manager", changed(gpu=H200), Scripted()),
    "driver past the GPU": (
        "driver.supports-gpu",
        changed(
            gpu={"name": "Tesla K80", "pci_id": "10de:102d", "driver_first": "340", "driver_last": "470"},
            module=KernelModule(version="550.54.15", flavour="proprietary", loaded=True),
        ),
        Scripted(),
    ),
    "no toolkit": ("cuda.toolkit", NOTHING, Scripted()),
    "old driver for the toolkit": ("cuda.driver", changed(versions={"cuda": "13.0.2"}), Scripted()),
    "gcc too new": ("cuda.host-compiler", changed(gcc="15.1.0"), Scripted()),
    "GPU too new": ("cuda.gpu", changed(gpu={"compute_capability": "12.0", "name": "RTX 5090"}), Scripted()),
    "no cudnn": ("cudnn.found", NOTHING, Scripted()),
    "cudnn for another cuda": (
        "cudnn.cuda",
        changed(
            versions={"cuda": "10.2.89", "cudnn": "9.14.0.64"},
            copies=(library("cudnn", "9.14.0", soname="libcudnn.so.9"),),
        ),
        Scripted(),
    ),
    "cudnn of unknown version without library": (
        "cudnn.found",
        changed(installed={"cudnn": Installed(method="tar", path="/opt/cudnn")}, copies=()),
        Scripted(),
    ),
    "nvidia-smi without a word": (
        "driver.nvml",
        changed(gpu={"uuid": None}),
        Scripted({"nvidia-smi": says(code=255)}),
    ),
    "no nccl": ("nccl.found", NOTHING, Scripted()),
    "nccl without library": ("nccl.found", changed(versions={"nccl": "2.21.5"}), Scripted()),
    "nccl without version": ("nccl.cuda", changed(copies=(library("nccl", None, soname="libnccl.so.2"),)), Scripted()),
    "nccl without toolkit": ("nccl.cuda", changed(installed={}, copies=(NCCL,)), Scripted()),
    "nccl of another cuda": (
        "nccl.cuda",
        changed(copies=(library("nccl", "2.28.9", soname="libnccl.so.2"),), versions={"cuda": "10.2.89"}),
        Scripted(),
    ),
    "nccl unknown": (
        "nccl.cuda",
        changed(copies=(library("nccl", "9.99.9", soname="libnccl.so.2"),)),
        Scripted(),
    ),
    "no headers": ("nv-codec-headers.found", NOTHING, Scripted()),
    "no headers beside an ffmpeg": ("nv-codec-headers.found", changed(versions={"ffmpeg": "7.1"}), Scripted()),
    "headers that pkg-config misses": (
        "nv-codec-headers.found",
        changed(versions={"nv-codec-headers": "13.0.19.0"}),
        Scripted({"pkg-config": says(code=1)}),
    ),
    "driver too old for headers": (
        "nv-codec-headers.driver",
        changed(versions={"nv-codec-headers": "13.0.19.0"}),
        Scripted({"pkg-config": says("13.0.19.0\n")}),
    ),
    "driver ancient for headers": (
        "nv-codec-headers.driver",
        changed(
            versions={"nv-codec-headers": "13.0.19.0"},
            module=KernelModule(version="304.137", flavour="proprietary", loaded=True),
        ),
        Scripted({"pkg-config": says("13.0.19.0\n")}),
    ),
    "headers of the future": (
        "nv-codec-headers.driver",
        changed(versions={"nv-codec-headers": "99.0.0.0"}),
        Scripted({"pkg-config": says("99.0.0.0\n")}),
    ),
    "headers but no driver": (
        "nv-codec-headers.driver",
        changed(installed={"nv-codec-headers": Installed(version="13.0.19.0")}, copies=(), module=None),
        Scripted({"pkg-config": says("13.0.19.0\n")}),
    ),
    "headers in a container without driver": (
        "nv-codec-headers.driver",
        changed(
            installed={"nv-codec-headers": Installed(version="13.0.19.0")},
            copies=(),
            module=None,
            environment="container",
        ),
        Scripted({"pkg-config": says("13.0.19.0\n")}),
    ),
    "headers, no compiler": (
        "nv-codec-headers.compile",
        changed(versions={"nv-codec-headers": "13.0.19.0"}),
        Scripted({"pkg-config --modversion": says("13.0.19.0\n"), "pkg-config --cflags": says("\n")}),
    ),
    "headers that do not compile": (
        "nv-codec-headers.compile",
        changed(versions={"nv-codec-headers": "13.0.19.0"}),
        Scripted(
            {
                "pkg-config --modversion": says("13.0.19.0\n"),
                "pkg-config --cflags": says("\n"),
                "cc": says(code=1, err="api.c:2:10: fatal error: ffnvcodec/nvEncodeAPI.h: No such file or directory\n"),
            }
        ),
    ),
    "two copies of headers": (
        "nv-codec-headers.compile",
        changed(versions={"nv-codec-headers": "13.0.19.0"}),
        Scripted(
            {
                "pkg-config --modversion": says("13.0.19.0\n"),
                "pkg-config --cflags": says("\n"),
                "cc": says(),
                "/": says("12.1\n"),
            }
        ),
    ),
    "headers that print nothing": (
        "nv-codec-headers.compile",
        changed(versions={"nv-codec-headers": "13.0.19.0"}),
        Scripted(
            {
                "pkg-config --modversion": says("13.0.19.0\n"),
                "pkg-config --cflags": says("\n"),
                "cc": says(),
                "/": says(code=1),
            }
        ),
    ),
    "no triton": ("triton.found", HEALTHY, Scripted()),
    "no triton to judge": ("triton.driver", HEALTHY, Scripted()),
    "triton without release": ("triton.driver", changed(versions={"triton": "0.0.1"}), Scripted()),
    "driver too old for triton": (
        "triton.driver",
        changed(
            versions={"triton": "25.08"}, module=KernelModule(version="450.80.02", flavour="proprietary", loaded=True)
        ),
        Scripted(),
    ),
    "triton without driver": (
        "triton.driver",
        changed(installed={"triton": Installed(version="25.08")}, copies=(), module=None),
        Scripted(),
    ),
    "no server named": ("triton.live", HEALTHY, Scripted()),
    "no server of our own": ("triton.own-server", HEALTHY, Scripted()),
}


def test_what_is_said_of_hosts(ask: Ask, compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    texts: dict[str, str] = {}
    for name, (identity, host, runner) in QUICK.items():
        result = ask(identity, host, on=runner)
        texts |= told(f"{name}, {identity}", result)
        more = {"detail": result.detail, "expected": result.expected, "actual": result.actual}
        texts |= {f"{name}, {identity} {part}": text for part, text in more.items() if text}
    compare("hosts", texts)


BINARY = """#!/bin/sh
case "$2" in
-version) echo "ffmpeg version {version} Copyright (c) 2000-2025 the FFmpeg developers"; exit {code};;
-encoders) printf ' ------\\n{encoders}';;
-decoders) printf ' ------\\n{decoders}';;
-filters) printf '{filters}';;
-hwaccels) printf 'Hardware acceleration methods:\\n{accelerations}';;
*) exit {otherwise};;
esac
"""
NVENC = r" V....D h264_nvenc           NVIDIA NVENC H.264 encoder (codec h264)\n"
SOFTWARE = r" V....D libx264              libx264 H.264\n"
CUVID = r" V..... h264_cuvid           Nvidia CUVID H264 decoder (codec h264)\n"


def ffmpeg(folder: Path, name: str, *, api: str = "", code: int = 0, otherwise: int = 0, **parts: str) -> str:
    """A script in the place of an FFmpeg, that lists what it is told; ``api`` as a real one carries it inside.

    Asked its version it ends with ``code``, asked for anything but lists with ``otherwise``.
    """
    fields = {"version": "7.1.1", "encoders": SOFTWARE, "decoders": "", "filters": "", "accelerations": "", **parts}
    path = folder / name
    text = BINARY.format(code=code, otherwise=otherwise, **fields).encode() + b"exit 0\n"
    if api:
        major, minor = (int(part) for part in api.split("."))
        words = [(1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 1)]
        made = [bytes((major, 0, number, 0x70 | minor | high << 7)) for number, high in words]
        text += b"nvenc API version\n" + b"".join(made)
    path.write_bytes(text)
    path.chmod(0o755)
    return str(path)


FFMPEGS: dict[str, tuple[str, dict[str, Any], Host]] = {
    "no FFmpeg of that name": ("ffmpeg.found", {"name": "", "path": "/nonexistent/ffmpeg"}, HEALTHY),
    "broken": ("ffmpeg.found", {"code": 127}, HEALTHY),
    "no NVIDIA code": ("ffmpeg.compiled", {}, HEALTHY),
    "no encoder": ("ffmpeg.driver", {"decoders": CUVID}, HEALTHY),
    "headers not told": ("ffmpeg.driver", {"encoders": NVENC}, HEALTHY),
    "driver too old": ("ffmpeg.driver", {"encoders": NVENC, "api": "13.0"}, HEALTHY),
    "driver ancient": (
        "ffmpeg.driver",
        {"encoders": NVENC, "api": "13.0"},
        changed(module=KernelModule(version="304.137", flavour="proprietary", loaded=True)),
    ),
    "headers of the future": ("ffmpeg.driver", {"encoders": NVENC, "api": "29.0"}, HEALTHY),
    "no driver": (
        "ffmpeg.driver",
        {"encoders": NVENC, "api": "13.0"},
        changed(installed={}, copies=(), module=None),
    ),
    "no GPU": ("ffmpeg.driver", {"encoders": NVENC, "api": "13.0"}, changed(gpus=())),
    "no NVDEC": ("ffmpeg.nvdec", {"encoders": NVENC}, HEALTHY),
    "chip without encoder": ("ffmpeg.sessions", {"encoders": NVENC}, changed(gpu=H200)),
}


def test_what_is_said_of_an_ffmpeg(ask: Ask, compare: Compare, tmp_path: Path) -> None:
    """A script stands for each build: what FFmpeg lists of itself is all that these checks read."""
    texts: dict[str, str] = {}
    for number, (name, (identity, parts, host)) in enumerate(FFMPEGS.items()):
        path = parts.pop("path", "") if "path" in parts else ffmpeg(tmp_path, f"ffmpeg-{number}", **parts)
        result = ask(identity, host, given={"ffmpeg": path})
        texts |= told(f"{name}, {identity}", result)
    compare("ffmpegs", texts)


ENGINES = {
    "missing": None,
    "empty": b"",
    "zip": b"PK\x03\x04" + bytes(100),
    "whole": b"ftrt" + bytes(12) + (100).to_bytes(8, "little") + bytes((10, 3, 0, 26)) + bytes(72),
}


NO_TENSORRT: dict[str, Any] = {"tensorrt libraries": (), "tensorrt bindings": ()}


def test_what_is_said_of_tensorrt(ask: Ask, compare: Compare, tmp_path: Path) -> None:
    nothing = Scripted()
    texts: dict[str, str] = {}
    for identity in (
        "tensorrt.found",
        "tensorrt.versions",
        "tensorrt.fit",
        "tensorrt.engine",
        "tensorrt.build",
        "tensorrt.rtx",
    ):
        texts |= told(f"nothing here, {identity}", ask(identity, HEALTHY, on=nothing, known=NO_TENSORRT))
    for name, content in ENGINES.items():
        path = tmp_path / f"{name}.plan"
        if content is not None:
            path.write_bytes(content)
        for release in ("", "24.08", "99.01"):
            given = {"engine": str(path), **({"release": release} if release else {})}
            result = ask("tensorrt.engine", HEALTHY, on=nothing, known=NO_TENSORRT, given=given)
            if result.status != "pass":
                texts |= told(f"engine {name}, release {release or 'none'}", result)
    too_old = changed(
        versions={"tensorrt": "10.3.0.26", "cuda": "10.2.89"}, module=KernelModule(version="440.33.01", loaded=True)
    )
    texts |= told("old cuda", ask("tensorrt.fit", too_old, on=nothing, known=NO_TENSORRT))
    new_gpu = changed(versions={"tensorrt": "8.6.1.6"}, gpu={"name": "RTX 5090", "compute_capability": "12.0"})
    texts |= told("new GPU", ask("tensorrt.fit", new_gpu, on=nothing, known=NO_TENSORRT))
    alone = changed(
        installed={"tensorrt": Installed(version="10.3.0.26")}, copies=(), module=None, gpu={"compute_capability": None}
    )
    texts |= told("nothing to compare with", ask("tensorrt.fit", alone, on=nothing, known=NO_TENSORRT))
    unknown = changed(installed={"tensorrt": Installed(version="99.1.0.1")})
    texts |= told("unknown", ask("tensorrt.fit", unknown, on=nothing, known=NO_TENSORRT))
    compare("tensorrt", texts)
