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
from collections.abc import Callable, Iterator
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from gpustack.detect.bug_report import KERNEL, START, Entries, excerpt, functions, read_bug_report
from gpustack.detect.environments.names import DISTRIBUTIONS
from gpustack.detect.evidence import CommandOutput, Evidence
from gpustack.detect.gpu_names import resolve_gpu
from gpustack.detect.parse.driver import DRIVER_VERSION
from gpustack.detect.probes import DOCKER
from gpustack.detect.products import Products
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

LOG = "/root/pasted.log"
"""Where lines of programs stand: it is read as the log of a single program."""

_PREFIX = "/opt/pasted"
"""Where the distributions of Python stand."""

_DECORATION = later(r"\x1b\[[0-9;]*[A-Za-z]|^(?:> ?)+|\s+$")
_FENCE = later(r"\s*(?:```|~~~)")
_KERNEL = later(
    r"\[ *\d+\.\d+\] |(?:\w{3} +\d+ [\d:]{8}|\d{4}-\d\d-\d\dT\S+) \S+ kernel: |.{0,60}?\bNVRM: |nvidia-modeset: "
)
_BUILD = later(r".*(/var/lib/dkms/nvidia[\w-]*/[\d.]+/build/)\S+ .*error|DKMS make\.log for (nvidia[\w-]*)-([\d.]+) ")
_INSTALLER = later(r"nvidia-installer log file '/var/log/nvidia-installer\.log'")
_SMI = later(rf"\|?\s*NVIDIA-SMI \S+\s+(?:Driver|KMD) Version: ({DRIVER_VERSION})\b")
_DRIVER = later(rf"\W*(?:Nvidia driver(?: version)?|GPU Firmware:)\W{{1,40}}({DRIVER_VERSION})$", re.IGNORECASE)
_SMI_GPU = later(r"\|\s+\d+\s+(\S.*?)\s+(?:On|Off|N/A)\s*\|\s*([0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)\s")
_GPU = later(
    r"\W*(?:(?:GPU models and configuration *: )?GPU \d+:|Model:(?=\s+NVIDIA))\s+"
    r"((?:NVIDIA|Tesla|GeForce|Quadro|TITAN) [^()]*?)\s*(?:\(UUID.*)?$"
)
_GPU_IS = later(
    r"\W*(?:(?:NVIDIA )?GPU(?: model| type| name)?s?|Graphics(?: card| processor)?|Video card)\W{1,8}"
    r"(?:\d ?x )?((?:NVIDIA |GeForce |Quadro |Tesla |TITAN |RTX |GTX |GT |MX|[AHLBVTPK]\d|GH|GB|DGX|Jetson)"
    r"[\w -]{1,40})",
    re.IGNORECASE,
)
"""A GPU as a form for reports of problems asks for it."""

_GPU_NAME = later(
    r"\b((?:GeForce )?(?:RTX|GTX) ?(?:PRO )?A?\d{3,4}(?: ?Ti\b| ?Super\b)*|Tesla [A-Z]\d{1,3}\w?|GeForce MX ?\d{3})",
    re.IGNORECASE,
)
"""A GPU's name in a sentence."""

_JETSON = later(r"\bJetson (?:AGX )?(Nano|TX2|Xavier|Orin|Thor)(?: NX| Nano| Super)*", re.IGNORECASE)
_SOCS = {"nano": "tegra210", "tx2": "tegra186", "xavier": "tegra194", "orin": "tegra234", "thor": "tegra264"}
_SERVER = later(r"x86_64|amd64|NVIDIA-SMI \d|Windows", re.IGNORECASE)
"""Signs that the text is about another machine than the Jetson that it names."""

_TEGRA = later(r"# R\d+ \(release\), REVISION: ")
_FAILED = later(
    r"NVIDIA-SMI has failed because .*|Failed to initialize NVML: (?!Unknown Error).*|No devices were found$"
)
_LIBRARY = later(rf"NVML library version: ({DRIVER_VERSION}|\d+\.\d+)$")
_TABLE = later(r"[|+][-=+ ]+[|+]$|\|.*\|$|.* *: (?:Could not collect|N/A)$")
"""The other lines of nvidia-smi's table, and what PyTorch's collect_env did not find."""

_BUS = later(
    r"\s*(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] .*\[[0-9a-f]{4}:[0-9a-f]{4}\]|\s+Kernel driver in use: "
)
_RELEASE = later(r"(?:ID|VERSION_ID|ID_LIKE|PLATFORM_ID|VERSION_CODENAME|VARIANT_ID)=\S")
_SYSTEM = later(
    r"(?:.*\b(?:OS(?: Version| Image)?|Operating System|Description|Distro|Distribution|Linux distribution|Host OS)|"
    r"PRETTY_NAME)\W{1,40}"
    r"((?:Ubuntu|Debian|Fedora|CentOS|Rocky|Alma|Red Hat|RHEL|Oracle|openSUSE|SUSE|Arch|Manjaro|Pop!_OS|Linux ?Mint|"
    r"Amazon|Azure|Kali|NixOS)[\w .!/-]*)",
    re.IGNORECASE,
)
_UNAME = later(r"Linux \S+ (\d+\.\d+\.\d\S*) .*?\b(x86_64|aarch64|ppc64le)\b")
_KERNEL_IS = later(
    r"\W*(?:Linux )?Kernel(?: Version| release)?\W{1,8}(?:Linux )?(\d+\.\d+\.\d+[\w.+~-]*)$", re.IGNORECASE
)
_DPKG = later(r"([hirpu])([cHUFWti])R? +([a-z0-9][a-z0-9+.-]+)(?::\w+)? +(\d\S*) +(amd64|arm64|all|i386)\b")
_WANTED = {"i": "install", "h": "hold", "r": "deinstall", "p": "purge", "u": "unknown"}
_STATES = {
    "i": "installed", "F": "half-configured", "U": "unpacked", "H": "half-installed", "W": "triggers-awaited",
    "t": "triggers-pending", "c": "config-files",
}  # fmt: skip
_RPM = later(r"([\w.+-]+)-([\w.+~^]+)-([\w.+~^]+)\.(x86_64|aarch64|noarch)$")
_LSMOD = later(r"(nvidia(?:_\w+)?|nouveau|nova_core|vfio_pci) +(\d+) +(\d+)(?: +([\w,]+))?$")
_NVRM = later(r"NVRM version: ")
_SECURE = later(r"SecureBoot (?:enabled|disabled)$")
_OPTIONS = later(r"BOOT_IMAGE=\S+ ")
_NVCC = later(r"Cuda compilation tools, release (\d+\.\d+),|CUDA runtime version *: (\d+\.\d+)\.\d+$")
"""By nvcc's own build number, which several releases of CUDA share: it tells the first two numbers of theirs."""
_TORCH = later(r"PyTorch version *: (\d\S*)$")
_WHEEL = later(r"(?:\[(?:pip3?|conda)\] )?([A-Za-z][\w.-]*?)(?:==| {1,60})(\d[\w.+!]*)(?: +pypi_0)?(?: +pypi)?$")
_PYTHON = later(r"\W*Python(?: version)?\W{1,40}(3\.\d+)(?:\.\d+)?\b", re.IGNORECASE)
_PLATFORM = later(r"Python platform *: Linux-(\d+\.\d+\.\d\S*)-(x86_64|aarch64)-")
_GLIBC = later(r"Libc version *: glibc-([\d.]+)$|ldd \([^)]*\) ([\d.]+)$")
_DKMS = later(r"(nvidia[\w-]*)(?:/|, )([\d.]+), (\d\S+), (x86_64|aarch64): (?:installed|built)")


def _dpkg(one: re.Match[str]) -> tuple[str, str]:
    status = f"Package: {one[3]}\nStatus: {_WANTED[one[1]]} ok {_STATES[one[2]]}\n"
    return "/var/lib/dpkg/status", f"{status}Architecture: {one[5]}\nVersion: {one[4]}\n"


_KINDS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], tuple[str, str]]], ...] = (
    (_KERNEL, lambda one: (KERNEL, one.string)),
    (_BUILD, lambda one: (f"{one[1] or f'/var/lib/dkms/{one[2]}/{one[3]}/build/'}make.log", one.string)),
    (_INSTALLER, lambda one: ("/var/log/nvidia-installer.log", one.string)),
    (_SMI, lambda one: ("driver", one[1])),
    (_DRIVER, lambda one: ("driver", one[1])),
    (_SMI_GPU, lambda one: ("gpu", f"{one[2]} {one[1]}")),
    (_GPU, lambda one: ("gpu", f" {one[1]}")),
    (_GPU_IS, lambda one: ("named", one[1])),
    (_TEGRA, lambda one: ("/etc/nv_tegra_release", one.string)),
    (_FAILED, lambda one: ("failed", one[0])),
    (_LIBRARY, lambda one: ("library", one[1])),
    (_TABLE, lambda one: ("table", one[0])),
    (_BUS, lambda one: ("bus", one.string.lstrip() if one[0][:1] != "\t" else one.string)),
    (_RELEASE, lambda one: ("/etc/os-release", one.string)),
    (_SYSTEM, lambda one: ("system", one.string[one.start(1) :])),
    (_UNAME, lambda one: ("kernel", f"{one[1]} {one[2]}")),
    (_KERNEL_IS, lambda one: ("kernel", f"{one[1]} ")),
    (_DPKG, _dpkg),
    (_RPM, lambda one: ("rpm", f"{one[1]}\t\t{one[2]}\t{one[3]}\t{one[4]}\t")),
    (_LSMOD, lambda one: ("/proc/modules", f"{one[1]} {one[2]} {one[3]} {one[4] or '-'}, Live 0x0")),
    (_NVRM, lambda one: ("/proc/driver/nvidia/version", one.string)),
    (_SECURE, lambda one: ("mokutil --sb-state", one[0])),
    (_OPTIONS, lambda one: ("/proc/cmdline", one.string)),
    (_NVCC, lambda one: ("toolkit", one[1] or one[2])),
    (_TORCH, lambda one: ("wheel", f"torch {one[1]}")),
    (_WHEEL, lambda one: ("wheel", f"{one[1]} {one[2]}")),
    (_PYTHON, lambda one: ("python", one[1])),
    (_PLATFORM, lambda one: ("kernel", f"{one[1]} {one[2]}")),
    (_GLIBC, lambda one: ("confstr CS_GNU_LIBC_VERSION", f"glibc {one[1] or one[2]}")),
    (_DKMS, lambda one: (f"/var/lib/dkms/{one[1]}/{one[2]}/{one[3]}/{one[4]}/module", "")),
)
"""What lines say, in the order in which they are tried: the file that a line is of, and its text there; else a kind."""


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
    told: dict[str, list[str]] = defaultdict(list)
    log = ""
    for raw in html.unescape(text).splitlines():
        line = _DECORATION.sub("", raw[:WIDTH])
        if _FENCE.match(line):
            log = ""
            continue
        where, what = (log, line) if log else _kind(line)
        told[where].append(what)
        if where.startswith("/var/") and where.endswith(".log") and where != KERNEL:
            log = where  # to the end of its block
    entries: Entries = {path: ("t", "".join(f"{line}\n" for line in told[path])) for path in told if path[:1] == "/"}
    if not told["gpu"] and not told["named"]:
        told["named"] += [one[1] for one in islice(_GPU_NAME.finditer(text), MANY)]
    for part in (_system(told, matrix), _python(told), _daemon(text), _jetson(text)):
        entries.update({path: ("t", content) for path, content in part})
    functions([["lspci", *told["bus"]]], entries)
    found = excerpt(entries, _nvml(told, Products(matrix)))
    for command in told.keys() & {"mokutil --sb-state", "confstr CS_GNU_LIBC_VERSION"}:
        found.commands[command] = CommandOutput(code=0, out=told[command][0])
    found = replace(found, rpms=tuple(sorted(set(told["rpm"]))))
    is_empty = not (found.files.keys() - {"/etc/os-release"} or found.commands or found.nvml or found.rpms)
    return None if is_empty else found


def _kind(line: str) -> tuple[str, str]:
    for pattern, kind in _KINDS:
        if (match := pattern.match(line)) and (pattern is not _WHEEL or _matters(match[1])):
            return kind(match)
    return LOG, line


def _matters(name: str) -> bool:
    return re.fullmatch(DISTRIBUTIONS, name.replace("-", "_").lower()) is not None


def _system(told: dict[str, list[str]], matrix: Matrix) -> Iterator[tuple[str, str]]:
    """The system that the text names, the kernel, and CUDA's toolkit."""
    for name in told["system"] if "/etc/os-release" not in told else ():
        try:
            row, version = parse_system(_spelled(name), matrix)
        except GpustackError:
            continue
        yield "/etc/os-release", f'ID={row.id}\nVERSION_ID="{version}"\n'
        break
    for release in [one.partition(" ")[0] for one in told["kernel"]][:1]:
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


def _jetson(text: str) -> Iterator[tuple[str, str]]:
    """The device tree of the Jetson that the text is about."""
    found = _JETSON.search(text)
    if found and not _SERVER.search(text):
        yield "/proc/device-tree/compatible", f"nvidia,{_SOCS[found[1].lower()]}"
        yield "/proc/device-tree/model", f"NVIDIA {found[0]}"


def _nvml(told: dict[str, list[str]], products: Products) -> dict[str, Any] | None:
    """What the driver said of its GPUs, as NVML would: by the first table that names it, else why it failed."""
    if told["failed"]:
        return {"error": told["failed"][0], **({"library": told["library"][0]} if told["library"] else {})}
    named = {} if told["gpu"] else _named(told["named"], products)
    if len(named) == 1:
        return {"driver": next(iter(told["driver"]), None), "gpus": list(named.values())}
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
    told |= {} if device else {"kind": known.kind, "nvenc": known.nvenc, "architecture": known.architecture}
    return {**told, "compute_capability": known.compute_capability, "device_id": device}
