"""A host of which only a text is at hand: a thread, a job's log, outputs of commands that somebody pasted together.

A line that a known command or file prints becomes a part of what that is on a host; other lines are the kernel's log by
their form, or a program's. Such a text is an excerpt: what it does not hold is not known.
"""

from __future__ import annotations

import gzip
import html
import json
import re
import sys
import zlib
from collections import defaultdict
from collections.abc import Iterator
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from gpustack.detect.bug_report import (
    KERNEL,
    START,
    Entries,
    excerpt,
    functions,
    read_bug_report,
    told_by_the_driver,
)
from gpustack.detect.evidence import CommandOutput, Evidence
from gpustack.detect.gpu_names import resolve_gpu
from gpustack.detect.pasted.below import Below
from gpustack.detect.pasted.lines import LOG, kind_of
from gpustack.detect.pasted.prose import is_wsl, jetson, told_in
from gpustack.detect.probes import DOCKER, QUERY
from gpustack.detect.products import Products
from gpustack.detect.scene import BY_NAME
from gpustack.detect.system_names import parse_system
from gpustack.errors import GpustackError, UsageError
from gpustack.matrix.index import Matrix
from gpustack.patterns import later

LARGEST = 256 << 20
"""So many bytes of an unpacked report are read; one with the dumps of eight GPUs has 60 MB."""

LONGEST = 4 << 20
"""So many bytes of the end of any other text: its lines are tried one by one."""

WIDTH, MANY = 2000, 100
"""A line is read to this width, and so many places where a document may begin are tried."""

_PREFIX = "/opt/pasted"
"""Where the distributions of Python stand."""

_QUERY = later(
    r"=+NVSMI LOG=+$|GPU [0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d$|"
    r" {4}(?:GPU Link Info|Fabric|Remapped Rows|ECC Errors|Clocks (?:Throttle|Event) Reasons|Retired Pages)$"
)
_OF_QUERY = later(r"$| |=+NVSMI|GPU [0-9A-F]{8}:|[A-Z][\w ]* : ")
"""Where `nvidia-smi -q` begins, and its other lines."""

_TABLE = frozenset({"driver", "gpu", "table"})
_ODD = later(r"ERR!|CUDA Version: +(?:N/A|ERR!)|Unknown Error")
"""Kinds of the lines of nvidia-smi's table, and what makes one of them a failure."""

_LSPCI = later(
    r"((?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] (VGA compatible controller|3D controller|Display controller)): "
    r"NVIDIA Corporation (?:Device ([0-9a-f]{4})\b|.*?\[([^\]]+)\])"
)
_CLASSES = {"VGA compatible controller": "0300", "3D controller": "0302", "Display controller": "0380"}
"""A GPU in a list of lspci without numbers, and the classes by name."""

_NIX_BUILD = later(
    r"nvidia-(?:x11|open)-(?:(?P<driver>\d{3}\.[\d.]*\d)-(?P<kernel>\d\.[\d.]*\d)|"
    r"(?P<on>\d\.[\d.]*\d)-(?P<of>\d{3}\.[\d.]*\d))\b"
)
"""nixpkgs' names of a driver's modules have the kernel too, in older releases after the driver."""

_MISSED = later(r"Module nvidia\S* not found in directory /\S*lib/modules/(\d[\w.+~-]*)")
"""modprobe looks into the folder of the running kernel."""

_DECORATION = later(r"\x1b\[[0-9;]*[A-Za-z]|^(?:> ?)+|\s+$")
_FENCE = later(r"\s*(?:```|~~~)")


def read_text(path: Path, matrix: Matrix) -> Evidence:
    """The evidence in the text at ``path`` (``-``: standard input), which may be packed.

    Raises UsageError if it cannot be read, or has nothing of a host with NVIDIA GPUs.
    """
    text = _unpacked(path)
    if START in text[:4096]:
        return read_bug_report(text)
    found = None if "\0" in text[:4096] else read_pasted(text[-LONGEST:], matrix)
    if found is None:
        msg = f"{str(path)!r} is no folder, and no text with lines about a GPU host"
        raise UsageError(
            msg,
            code="not-a-folder",
            where="--root",
            hint="--root requires the root folder of a file system tree, the report of nvidia-bug-report.sh, or a text"
            " with logs and outputs of commands",
        )
    return found


def without_places(said: str, name: str) -> str:
    """What is said of a host of a text, without the places that its lines were given: those of no file of the host."""
    return said.replace(LOG, name).replace(f"{_PREFIX}/bin/python", "python3").replace(_PREFIX, name)


def _unpacked(path: Path) -> str:
    """The text at a path. A report that ends early, as of a full disk, is read to its end."""
    data = bytearray()  # a large report comes in thousands of pieces
    try:
        if str(path) == "-":
            data += sys.stdin.buffer.read(LARGEST)
        else:
            _read(path, data)
    except (EOFError, zlib.error):
        pass
    except OSError as exc:
        msg = f"{str(path)!r} cannot be read: {exc.strerror or exc}"
        raise UsageError(msg, code="unreadable-file", where="--root") from exc
    return data.decode("utf-8", "replace")


def _read(path: Path, data: bytearray) -> None:
    with path.open("rb") as plain:
        is_packed = plain.read(2) == b"\x1f\x8b"
    opened: gzip.GzipFile | BufferedReader = gzip.open(path) if is_packed else path.open("rb")  # noqa: SIM115
    with opened as file:
        while len(data) < LARGEST and (piece := file.read1(1 << 20)):  # each piece is kept, also if the next is cut off
            data += piece


def read_pasted(text: str, matrix: Matrix) -> Evidence | None:
    """The evidence in a text; None if nothing in it is about a host with NVIDIA GPUs."""
    text = html.unescape(text)
    told = _told(text)
    told[KERNEL] += list(_of_kernel(told[LOG], matrix))
    entries: Entries = {path: ("t", "".join(f"{line}\n" for line in told[path])) for path in told if path[:1] == "/"}
    if is_wsl(text):
        entries["/proc/sys/fs/binfmt_misc/WSLInterop"] = ("t", "enabled\n")
    for part in (_system(told, matrix), _python(told), _daemon(text), jetson(text)):
        entries.update({path: ("t", content) for path, content in part})
    products = Products(matrix)
    functions([["lspci", *(_numbered(line, products) for line in told["bus"])]], entries)
    query = "\n".join(told[QUERY])
    found = excerpt(entries, _nvml(told, products, query), query)
    for command in told.keys() & {"mokutil --sb-state", "confstr CS_GNU_LIBC_VERSION"}:
        found.commands[command] = CommandOutput(code=0, out=told[command][0])
    found = replace(found, rpms=tuple(sorted(set(told["rpm"]))), pasted=_plain(text))
    is_empty = not (found.files.keys() - {"/etc/os-release"} or found.commands or found.nvml or found.rpms)
    return None if is_empty else found


def _plain(text: str) -> str:
    """The text without marks of quotes and colours."""
    return "\n".join(_DECORATION.sub("", raw[:WIDTH]) for raw in text.splitlines())


def _told(text: str) -> dict[str, list[str]]:
    """What the text tells, by file and kind; of what commands and files say nothing, what its sentences do."""
    told: dict[str, list[str]] = defaultdict(list)
    log, below = "", Below()
    for raw in text.splitlines():
        line = _DECORATION.sub("", raw[:WIDTH])
        if _FENCE.match(line) or (log == QUERY and not _OF_QUERY.match(line)):
            log = ""
        if _FENCE.match(line):
            continue
        if _QUERY.match(line):
            log = QUERY
        where, what = (log, line) if log else below.tells(line) or kind_of(line)
        told[where].append(what)
        if where in _TABLE and _ODD.search(line):
            told[LOG].append(line)
        if where.startswith("/var/") and where.endswith(".log") and where != KERNEL:
            log = where  # to the end of its block
    built = None if told["driver"] else _NIX_BUILD.search(text)
    if built is not None:
        told["driver"].append(built["driver"] or built["of"])
        told["kernel"].insert(0, f"{built['kernel'] or built['on']} ")
    is_known = {kind for kind in told if told[kind]} | ({"named"} if told["gpu"] else set())
    for kind, value in told_in(told[LOG]):
        if kind not in is_known or kind == "wheel":
            told[kind].append(value)
    return told


def _of_kernel(lines: list[str], matrix: Matrix) -> Iterator[str]:
    """Lines with a message of the kernel that somebody quoted without its time or its driver's mark."""
    rows = [row["wants"] for row in matrix.rows("driver-errors", "kernel_log", dict) if row["log"] == "kernel"]
    for line in lines:
        if any(all(words in line for words in wants) for wants in rows):
            yield line


def _system(told: dict[str, list[str]], matrix: Matrix) -> Iterator[tuple[str, str]]:
    """The system that the text names, the kernel, and CUDA's toolkit."""
    named = (*told["system"], *(["NixOS"] if told["nix"] else []))
    for name in named if "/etc/os-release" not in told else ():
        try:
            row, version = parse_system(_spelled(name), matrix)
        except GpustackError:
            continue
        yield "/etc/os-release", f'ID={row.id}\nVERSION_ID="{version}"\n'
        break
    missed = [one for line in told[LOG] for one in _MISSED.findall(line)]
    for release in [one.partition(" ")[0] for one in (*told["kernel"], *told["nix"], *missed) if one][:1]:
        yield "/proc/sys/kernel/osrelease", f"{release}\n"
    machines = [
        word for one in (*told["kernel"], *told["system"]) for word in re.findall(r"x86_64|aarch64|ppc64le", one)
    ]
    for machine in machines[:1]:
        yield "/proc/sys/kernel/arch", f"{machine}\n"
    for version in told["toolkit"][:1]:
        yield f"/usr/local/cuda-{version}/version.json", json.dumps({"cuda": {"name": "CUDA SDK", "version": version}})


def _spelled(name: str) -> str:
    """A system's name as ``--os`` takes it: of "CentOS Linux release 7.9.2009 (Core)" the name and two numbers."""
    plain = re.split(r"[^\w .!/-]", name.replace(" release ", " "))[0].strip(" .-")
    return re.sub(r"(\d+\.\d+)\.\d+\b", r"\1", plain)


def _python(told: dict[str, list[str]]) -> Iterator[tuple[str, str]]:
    """The distributions of the Python environment."""
    place = f"{_PREFIX}/lib/python{told['python'][0] if told['python'] else '3.12'}/site-packages"
    for name, version in dict(one.split(" ") for one in reversed(told["wheel"])).items():
        folder = f"{name.replace('-', '_').lower()}-{version}.dist-info"
        yield f"{place}/{folder}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"


def _daemon(text: str) -> Iterator[tuple[str, str]]:
    """Docker's configuration, wherever in the text it stands."""
    decoder = json.JSONDecoder()
    for start in islice(re.finditer(r"^[ \t]*(\{)", text, re.MULTILINE), MANY):
        try:
            found, _ = decoder.raw_decode(text, start.start(1))
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict) and found.keys() & {"runtimes", "default-runtime", "exec-opts", "default-shm-size"}:
            yield DOCKER, json.dumps(found)


def _numbered(line: str, products: Products) -> str:
    """A line of lspci with the numbers of the GPU that it names, as -nn prints it."""
    found = _LSPCI.match(line)
    if found is None or ": NVIDIA" not in line:
        return line
    device = found[3]
    if device is None:
        try:
            gpu = resolve_gpu(found[4], products)
        except GpustackError:
            return line
        known = gpu.pci_id or next(iter(gpu.devices or ()), "")
        device = known.removeprefix("10de:")
    return f"{found[1]} [{_CLASSES[found[2]]}]: NVIDIA Corporation [10de:{device}]" if device else line


def _nvml(told: dict[str, list[str]], products: Products, query: str) -> dict[str, Any] | None:
    """What the driver said of its GPUs, as NVML would: by the first table that names it, else why it failed."""
    if (answer := told_by_the_driver(query)) and (listed := answer.get("gpus")):
        gpus = [one if one["device_id"] else one | _gpu(one["name"] or "", one["bus_id"], products) for one in listed]
        return {**answer, "driver": answer["driver"] or next(iter(told["driver"]), None), "gpus": gpus}
    named = {} if told["gpu"] else _named(told["named"], products)
    alone: dict[str, Any] = {"gpus": list(named.values())} if len(named) == 1 else {}
    driver = {"driver": told["driver"][0]} if told["driver"] else {}
    if told["failed"]:
        library = {"library": told["library"][0]} if told["library"] else {}
        return {"error": told["failed"][0], **library, **driver, **alone}
    if alone:
        return {"driver": None, **driver, **alone}
    if not told["driver"]:
        return None
    gpus = [one.partition(" ") for one in told["gpu"]]
    with_bus = [one for one in gpus if one[0]] or gpus
    return {
        "driver": told["driver"][0],
        "gpus": [_gpu(name, bus, products) for bus, _, name in with_bus],
    }


def _named(names: list[str], products: Products) -> dict[str | None, dict[str, Any]]:
    """The GPUs that the text names in its own words, as far as these name a product."""
    found = {}
    for name in names:
        words = name.split(" x")[0].split()
        for length in range(min(len(words), 6), 0, -1):
            try:
                known = resolve_gpu(" ".join(words[:length]).removeprefix("NVIDIA "), products)
            except GpustackError:
                continue
            found[known.name] = {**_gpu(" ".join(words[:length]), "", products), "name": known.name}
            break
    return found


def _gpu(name: str, bus: str, products: Products) -> dict[str, Any]:
    """A GPU by the name that the driver gives it, which tells its device only where no other device has that name."""
    told: dict[str, Any] = {"name": name, "bus_id": bus or None}
    try:
        known = resolve_gpu(name.removeprefix("NVIDIA ").strip(), products)
    except GpustackError:
        return told
    device = int(known.pci_id[5:], 16) << 16 | 0x10DE if known.pci_id else None
    told |= {} if device else {field: getattr(known, field) for field in BY_NAME}
    return {**told, "compute_capability": known.compute_capability, "device_id": device}
