"""Where problems were searched, and what could not be examined: missing, unreadable, not run."""

from __future__ import annotations

from collections.abc import Iterator

from gpustack.detect.parse.pci import BASE
from gpustack.detect.scene import Scene
from gpustack.detect.services import JOURNAL, LOGS
from gpustack.model.host import Looked, Unseen
from gpustack.system.paths import matches

_ABSENT = "not there"
_DENIED = "Permission denied"


def looked(scene: Scene) -> Looked:
    """Each kind of evidence, seen or not."""
    found = list(_areas(scene))
    return Looked(
        at=tuple(what for what, why in found if not why),
        not_at=tuple(Unseen(what=what, why=why) for what, why in found if why),
    )


def _areas(scene: Scene) -> Iterator[tuple[str, str]]:
    """Each kind of evidence with the reason why it could not be examined, or ""."""
    evidence = scene.evidence
    if evidence.excerpt:
        yield from _of_excerpt(scene)
        return
    yield "packages", "" if scene.packages else "no package database that can be read"
    yield "PCI bus", "" if BASE in evidence.listings else _ABSENT
    yield "loaded modules", "" if evidence.has("/proc/modules") else _ABSENT
    yield "kernel command line", "" if evidence.text("/proc/cmdline") is not None else _ABSENT
    yield "kernel log", _kernel_log(scene)
    journal = evidence.commands.get(JOURNAL)
    if journal is not None:
        yield "journal of services", "" if journal.code == 0 else journal.err
    has_log = any(matches(path, pattern) for path in evidence.files for pattern in LOGS)
    yield "logs of services and programs", "" if has_log else "none is there, or none has a line about GPUs"
    yield "package sources", "" if scene.sources else "none is there"
    yield "engine files of TensorRT", "not searched: `verify tensorrt --engine FILE` reads one"
    yield "NVML", _nvml(scene)
    if scene.environment == "bare-metal":
        yield "Secure Boot", "" if scene.secure_boot is not None else "the firmware does not tell"
    packed = {path: mark for path, mark in evidence.marks.items() if mark.startswith("unread ") and ".ko." in path}
    for path, mark in packed.items():
        yield f"signature of {path}", mark.removeprefix("unread ")
    bridges = [mark for path, mark in evidence.marks.items() if path.endswith("/config")]
    if len(scene.gpus) > 1:
        unread = "only root can read it" if "unread" in bridges else "no bridge with ACS was seen"
        yield "PCIe bridges (ACS)", "" if any(mark.startswith("acs ") for mark in bridges) else unread
    denied = sorted(fault.path for fault in evidence.faults if fault.reason == _DENIED)
    if denied:
        yield ", ".join(denied[:4]), "no permission to read"


def _of_excerpt(scene: Scene) -> Iterator[tuple[str, str]]:
    """What the text of a host has, and what it does not have."""
    evidence = scene.evidence
    found = {
        "packages": bool(scene.packages),
        "PCI bus": BASE in evidence.listings,
        "loaded modules": evidence.has("/proc/modules"),
        "kernel command line": evidence.text("/proc/cmdline") is not None,
        "kernel log": not _kernel_log(scene),
        "NVML": bool(evidence.nvml and (evidence.nvml.get("driver") or evidence.nvml.get("error"))),
        "Secure Boot": scene.secure_boot is not None,
    }
    yield from ((what, "" if is_there else "the text has nothing of it") for what, is_there in found.items())


def _kernel_log(scene: Scene) -> str:
    mark = scene.evidence.marks.get("kernel log")
    if mark is None:
        return "not asked: no NVIDIA GPU" if BASE in scene.evidence.listings else "not asked"
    path, _, note = mark.partition(" ")
    return "" if path.startswith("/var/log/") or path in {"dmesg", "journalctl"} else f"{path} {note}".strip()


def _nvml(scene: Scene) -> str:
    if scene.evidence.nvml is None:
        return "not asked: the driver is not loaded" if scene.evidence.live else "not asked: this is a tree of files"
    return "it does not answer" if "error" in scene.evidence.nvml else ""
