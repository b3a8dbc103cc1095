"""Saving evidence as a folder: a test fixture and a support bundle, without names of machines or persons."""

from __future__ import annotations

import base64
import posixpath
import re
from pathlib import Path
from typing import Any

import msgspec

from gpustack.detect.evidence import RECORD, CommandOutput, Evidence, Fault
from gpustack.detect.gather import gather
from gpustack.detect.probes import NAMES
from gpustack.errors import GpustackError
from gpustack.patterns import later

SCHEMA = "gpustack/evidence/v1"
_IPV4 = r"(?:\d{1,3}\.){3}\d{1,3}(?![\w.])"
"""Looks like many a version (10.13.3.9), so it is only replaced if the text around it is about an address."""

_ADDRESSES = (
    (re.compile(r"\b(?:[0-9a-f]{2}:){5}[0-9a-f]{2}\b", re.IGNORECASE), "00:00:00:00:00:00"),
    (re.compile(r"\b(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE), "GPU-redacted"),
    (re.compile(r"\b(?!8be4df61-)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE),
    "00000000-0000-0000-0000-000000000000"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "0" * 32),
    (re.compile(rf"(?:(?<=://)|(?<=@)|(?<=inet )|(?<=from )|(?<=to )|(?<=addr )|(?<=ip=)){_IPV4}"), "192.0.2.1"),
    (re.compile(rf"(?<![\w.]){_IPV4}(?=[:/]\d)"), "192.0.2.1"),
    (re.compile(r"(?<![\w:])(?!00:00:)(?:[0-9a-f]{1,4}:){4,7}[0-9a-f]{1,4}(?![\w:])", re.IGNORECASE), "2001:db8::1"),
    (re.compile(r"(?<=/home/)[^/\s:]+"), "user"),
    (re.compile(r"(?<=://)[^/@\s]+@"), ""),
    (re.compile(r"[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,5}"), "user@example.org"),
    (re.compile(r"\([\w.-]{1,64}@[\w.-]{1,64}\)"), "(builder@example)"),
    (re.compile(r"(?im)^([ \t]*(?:serial|uuid|hostname|host_name|machine-id)[ \t]*[:=]).*$"), r"\1 redacted"),
    (re.compile(r"(?m)^((?:\w{3} [ \d]\d [\d:]{8}|\d{4}-\d\d-\d\dT[\d:.+-]+)) [\w.-]+ "), r"\1 host "),
)  # fmt: skip
"""The replacements in every text, in this order."""

KEPT_ENVIRON = ("NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "container")
"""The variables of the first process that say what a container may use; others can hold secrets."""

PROCESS_ENVIRON = "/proc/1/environ"


class Sidecar(msgspec.Struct, frozen=True, kw_only=True):
    """The evidence that is not in the files of the tree; the fields are those of Evidence."""

    schema: str = SCHEMA
    date: str = ""
    live: bool = False
    marks: dict[str, str] = {}
    commands: dict[str, CommandOutput] = {}
    rpms: tuple[str, ...] = ()
    environ: dict[str, str] = {}
    nvml: dict[str, Any] | None = None
    faults: tuple[Fault, ...] = ()
    listings: dict[str, tuple[str, ...]] = {}


def redact_text(text: str) -> str:
    """A text without addresses, identities, host and user names."""
    for pattern, replacement in _ADDRESSES:
        text = pattern.sub(replacement, text)
    return text


def redact(evidence: Evidence) -> Evidence:
    """Evidence without serials, UUIDs, host names, user names, network addresses and third parties' keys."""
    files = {redact_text(path): redact_text(text) for path, text in evidence.files.items() if _is_kept(path, text)}
    process = evidence.files.get(PROCESS_ENVIRON)
    if process is not None:
        kept = [line for line in process.splitlines() if line.partition("=")[0] in KEPT_ENVIRON]
        files[PROCESS_ENVIRON] = redact_text("\n".join(kept) + "\n")
    plain = msgspec.to_builtins(evidence)
    plain["marks"] = {
        path: mark for path, mark in plain["marks"].items() if not mark.startswith("key") or _OWN_WORDS.search(path)
    }
    for name in ("links", "marks", "environ", "listings", "commands", "nvml", "faults", "rpms"):
        plain[name] = _redact_value(plain[name])
    return msgspec.convert({**plain, "files": files}, Evidence)


_OWN_WORDS = later(r"nvidia|cuda|cudnn|nvinfer|tensorrt|nccl|nouveau|nova", re.IGNORECASE)
_SHARED_FOLDERS = (
    "/etc/apt/sources.list", "/etc/apt/preferences", "/etc/yum.repos.d/", "/etc/zypp/repos.d/", "/etc/modprobe.d/",
    "/usr/lib/modprobe.d/", "/lib/modprobe.d/", "/run/modprobe.d/", "/etc/environment",
)  # fmt: skip
"""Shared configuration: what is not about NVIDIA is private."""


def _is_kept(path: str, text: str) -> bool:
    return path not in {PROCESS_ENVIRON, *NAMES} and (
        not path.startswith(_SHARED_FOLDERS) or bool(_OWN_WORDS.search(text))
    )


def _redact_value(value: object) -> object:
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, dict):
        hidden = {"uuid", "serial", "board_id"}
        return {redact_text(str(k)): None if k in hidden else _redact_value(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_redact_value(item) for item in value]
    return value


def record(evidence: Evidence, folder: Path) -> None:
    """Write the redacted evidence: ``root/`` is a readable tree of the files, ``evidence.json`` holds the rest.

    Raises GpustackError if the folder cannot be written or is not empty.
    """
    clean = redact(evidence)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            msg = f"{str(folder)!r} is not empty"
            raise GpustackError(msg, code="folder-not-empty", where="--record", hint="give a new folder")
        _write_root(clean, folder / "root")
        sidecar = {name: getattr(clean, name) for name in Sidecar.__struct_fields__ if name != "schema"}
        text = msgspec.json.format(msgspec.json.encode(Sidecar(**sidecar)), indent=1)
        (folder / RECORD).write_bytes(text + b"\n")
    except OSError as exc:
        msg = f"cannot be written: {exc.strerror or exc}"
        raise GpustackError(
            msg, code="not-writable", where=str(folder), hint="give a folder that can be created"
        ) from exc


def _write_root(evidence: Evidence, root: Path) -> None:
    """The files as a tree; a link is a small file with its target, as archives without links store it."""
    contents: dict[str, bytes] = {path: target.encode() for path, target in sorted(evidence.links.items())}
    for path, text in evidence.files.items():
        contents.setdefault(path, text.encode("utf-8", "replace"))
    for path, content in evidence.blobs.items():
        contents.setdefault(path, base64.b64decode(content))
    for folder, names in evidence.listings.items():
        for name in names:
            contents.setdefault(f"{folder.rstrip('/')}/{name}", b"")
    for path, data in contents.items():
        _write(root, _behind_links(path, evidence.links), data)


def _behind_links(path: str, links: dict[str, str]) -> str:
    """The path with links among its folders replaced by their targets."""
    for _ in range(8):
        folders = [path[:at] for at in range(1, len(path)) if path[at] == "/"]
        link = next((folder for folder in folders if folder in links), None)
        if link is None:
            break
        path = posixpath.normpath(posixpath.join(posixpath.dirname(link), links[link])) + path[len(link) :]
    return path


def _write(root: Path, path: str, data: bytes) -> None:
    parts = [part for part in path.split("/") if part not in {"", ".", ".."}]
    place = root.joinpath(*parts)
    above = [parent for parent in place.parents if parent.is_relative_to(root)]
    if place.exists() or any(parent.is_file() for parent in above):
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data)


def read_record(folder: Path) -> Evidence | None:
    """The evidence of a recorded folder, None for other folders. Raises GpustackError if it is broken."""
    path = folder / RECORD
    if not path.is_file() or not (folder / "root").is_dir():
        return None
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Sidecar)
    except (OSError, msgspec.DecodeError, UnicodeError) as exc:
        msg = f"is not recorded evidence: {exc}"
        raise GpustackError(
            msg, code="unreadable-record", where=str(path), hint="`gpustack detect --record DIR` writes it"
        ) from exc
    if found.schema != SCHEMA:
        return None
    rest = {name: getattr(found, name) for name in Sidecar.__struct_fields__ if name != "schema"}
    return msgspec.structs.replace(gather(folder / "root"), **rest)
