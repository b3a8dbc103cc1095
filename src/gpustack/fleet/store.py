"""Reading and writing the folders of a fleet."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from gpustack.errors import DocumentError, GpustackError
from gpustack.fleet import layout
from gpustack.model.fleet import Fleet, FleetPlan
from gpustack.model.host import Host
from gpustack.system.files import write_atomically

_T = TypeVar("_T")


def write_document(path: Path, document: object) -> None:
    """Write a document as JSON, complete or not at all. Raises GpustackError if it cannot be written."""
    write_text(path, msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a file and the folder for it. Raises GpustackError if that fails."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text)
    except OSError as exc:
        msg = f"cannot be written: {exc.strerror or exc}"
        hint = "make room there, or choose another --out"
        raise GpustackError(msg, code="not-writable", where=str(path), hint=hint) from exc


def write_fleet(folder: Path, fleet: Fleet, hosts: Mapping[str, Host]) -> None:
    """Write the host documents, and last the document that names them. Raises GpustackError."""
    for name, host in hosts.items():
        write_document(layout.host_file(folder, name), host)
    for member in fleet.hosts:
        if member.name not in hosts and layout.is_name(member.name):
            layout.host_file(folder, member.name).unlink(missing_ok=True)
    write_document(layout.fleet_file(folder), fleet)


def load_fleet(folder: Path) -> Fleet:
    """The fleet of a folder. Raises DocumentError."""
    return _load(layout.fleet_file(folder), Fleet, "`gpustack fleet detect -i INVENTORY --out DIR` writes it")


def load_host(folder: Path, name: str) -> Host:
    """What a host of a folder is. Raises DocumentError."""
    return _load(layout.host_file(folder, name), Host, "`gpustack fleet detect` writes it")


def load_plan(folder: Path) -> FleetPlan:
    """The plan of a folder. Raises DocumentError."""
    return _load(layout.plan_file(folder), FleetPlan, "`gpustack fleet plan DIR --out DIR` writes it")


def _load(path: Path, kind: type[_T], hint: str) -> _T:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except OSError as exc:
        msg = f"cannot be read: {exc.strerror or exc}"
        raise DocumentError(msg, code="unreadable-fleet", where=str(path), hint=hint) from exc
    except (msgspec.DecodeError, UnicodeError) as exc:
        msg = f"is not this kind of document: {exc}"
        raise DocumentError(msg, code="unreadable-fleet", where=str(path), hint=hint) from exc
