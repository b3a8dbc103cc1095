"""Copies of libraries in load order: which ones a program could load, and which one the loader uses."""

from __future__ import annotations

import re

from gpustack.detect.evidence import Evidence
from gpustack.detect.probes import STANDARD_LIBRARY_FOLDERS
from gpustack.model.host import Copy
from gpustack.patterns import later
from gpustack.system.paths import matches

_NAME = later(r"(lib\w+)\.so\.(\d+)((?:\.\d+)*)")
_DRIVER = later(r"\d{3}(?:\.\d+)+")
_LIBRARY_PATH = later(r"^[ \t]*LD_LIBRARY_PATH=[\"']?([^\"'\n]*)", re.MULTILINE)
MAX_FOLDERS = 200
MAX_TEXT = 20_000
MAX_LINES = 100
SONAMES = {
    "driver": "libcuda", "cudnn": "libcudnn", "tensorrt": "libnvinfer", "nccl": "libnccl", "cuda-runtime": "libcudart",
    "tensorrt-rtx": "libtensorrt_rtx",
}  # fmt: skip
"""The library that represents each component."""

_WHEELS = {
    "cudnn": r"nvidia_cudnn_\w+", "nccl": r"nvidia_nccl_\w+", "tensorrt": r"tensorrt_(?:cu\d+_)?libs",
    "tensorrt-rtx": r"tensorrt_rtx_cu\d+_libs",
}  # fmt: skip
_WHEEL_FOLDERS = {
    "nvidia/cudnn/lib": "cudnn", "nvidia/nccl/lib": "nccl", "tensorrt_libs": "tensorrt",
    "tensorrt_rtx_libs": "tensorrt-rtx",
}  # fmt: skip


def loader_folders(evidence: Evidence) -> tuple[str, ...]:
    """The folders that the dynamic loader searches, in its order: LD_LIBRARY_PATH, ld.so.conf, the standard ones."""
    found: dict[str, None] = {}
    for part in library_path(evidence):
        found[part] = None
    for line in _configured(evidence):
        found[line] = None
    for folder in STANDARD_LIBRARY_FOLDERS:
        found[folder] = None
    return tuple(found)[:MAX_FOLDERS]


def library_path(evidence: Evidence) -> tuple[str, ...]:
    """The folders of LD_LIBRARY_PATH: the process's own, else that of /etc/environment."""
    text = evidence.environ.get("LD_LIBRARY_PATH")
    if text is None:
        match = _LIBRARY_PATH.search(evidence.text("/etc/environment") or "")
        text = match[1] if match else ""
    return tuple(part.rstrip("/") or "/" for part in text.split(":") if part.startswith("/"))


def _configured(evidence: Evidence) -> list[str]:
    text = evidence.text("/etc/ld.so.conf")
    if text is None:
        text = "include /etc/ld.so.conf.d/*.conf"
    lines: list[str] = []
    for raw in text[:MAX_TEXT].splitlines()[:MAX_LINES]:
        line = raw.partition("#")[0].strip()
        if line.startswith("include"):
            pattern = line.removeprefix("include").strip()
            pattern = pattern if pattern.startswith("/") else f"/etc/{pattern}"
            included = [path for path in sorted(evidence.files) if matches(path, pattern)]
            parts = [part for path in included for part in evidence.files[path][:MAX_TEXT].splitlines()]
        else:
            parts = [line]
        folders = (part.partition("#")[0].strip() for part in parts)
        lines.extend(folder.rstrip("/") or "/" for folder in folders if folder.startswith("/"))
    return lines


def find_copies(evidence: Evidence) -> tuple[Copy, ...]:
    """Every copy of the libraries of interest: those on the loader's path first, in its order, then the others.

    The first one of each soname on the path wins.
    """
    on_path = [folder for folder in loader_folders(evidence) if folder in evidence.listings]
    others = [folder for folder in evidence.listings if folder not in on_path]
    copies: list[Copy] = []
    won: set[tuple[str, str]] = set()
    for folder in (*on_path, *others):
        for copy in _folder_copies(evidence, folder):
            key = (copy.component, copy.soname or "")
            wins = folder in on_path and key not in won
            if wins:
                won.add(key)
            copies.append(_marked(copy, wins=wins))
    return tuple(copies)


def _marked(copy: Copy, *, wins: bool) -> Copy:
    return Copy(
        component=copy.component, path=copy.path, version=copy.version, soname=copy.soname, owner=copy.owner, wins=wins
    )


def _folder_copies(evidence: Evidence, folder: str) -> list[Copy]:
    named = [match for name in evidence.listings[folder] if ".so." in name and (match := _NAME.fullmatch(name))]
    found = []
    for component, stem in SONAMES.items():
        by_soname: dict[str, str] = {}
        for match in (match for match in named if match[1] == stem):
            name = match[0]
            soname = f"{stem}.so.1" if component == "driver" else f"{stem}.so.{match[2]}"
            if soname not in by_soname or len(name) < len(by_soname[soname]):
                by_soname[soname] = name
        for soname, name in sorted(by_soname.items()):
            version = _version_at(evidence, folder, name, stem)
            place = "cuda-compat" if component == "driver" and "/compat" in folder else component
            owner = _wheel_owner(evidence, folder)
            found.append(Copy(component=place, path=f"{folder}/{name}", version=version, soname=soname, owner=owner))
    return found


def _version_at(evidence: Evidence, folder: str, name: str, stem: str) -> str | None:
    """The version in the name of the file that a link points to; libcuda.so.1.1 (WSL, Jetson) contains none."""
    for _ in range(8):
        target = evidence.links.get(f"{folder}/{name}")
        if target is None:
            break
        mark = evidence.marks.get(f"{folder}/{name}", "")
        name = (mark if mark.startswith("file ") else target).rpartition("/")[2]
    match = _NAME.fullmatch(name)
    if match and match[1] == stem and match[3] and (stem != "libcuda" or _DRIVER.fullmatch(match[2] + match[3])):
        return match[2] + match[3]
    wheel = _wheel_owner(evidence, folder)
    return wheel.rpartition(" ")[2] if wheel else None


def _wheel_owner(evidence: Evidence, folder: str) -> str | None:
    """The wheel that owns a copy inside a Python environment: its name and version."""
    for tail, component in _WHEEL_FOLDERS.items():
        if not folder.endswith("/" + tail):
            continue
        for name in evidence.listings.get(folder.removesuffix("/" + tail), ()):
            match = re.fullmatch(rf"({_WHEELS[component]})-([\w.+!]+)\.dist-info", name)
            if match:
                return f"wheel {match[1].replace('_', '-')} {match[2]}"
    return None


def driver_library(copies: tuple[Copy, ...]) -> Copy | None:
    """The libcuda that programs load: the winner on the path, else any other copy with a known version."""
    mine = [copy for copy in copies if copy.component == "driver"]
    winners = [copy for copy in mine if copy.wins]
    return next((copy for copy in (*winners, *mine) if copy.version), winners[0] if winners else None)
