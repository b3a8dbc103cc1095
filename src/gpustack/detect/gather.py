"""Runs the probes: from a root directory or the running machine to Evidence. Changes nothing, needs no root."""

from __future__ import annotations

import binascii
import datetime as dt
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpustack.detect import probes
from gpustack.detect.bus import ABOVE, read_bus
from gpustack.detect.environments.read import EnvironmentReader
from gpustack.detect.evidence import CommandOutput, Evidence, Fault
from gpustack.detect.kernel_modules import read_modules
from gpustack.detect.machine import Machine, ThisMachine
from gpustack.detect.packages_db import PackageReader, wanted_names
from gpustack.detect.parse import toolkit
from gpustack.detect.parse.libraries import loader_folders
from gpustack.detect.parse.packages import XBPS, all_packages
from gpustack.detect.parse.pci import BASE, guest_addresses
from gpustack.detect.parse.release_files import PATTERNS as RELEASE_FILES
from gpustack.detect.parse.repositories import fingerprints
from gpustack.detect.services import ServiceReader
from gpustack.detect.setup import EFIVARS, SetupReader
from gpustack.detect.tree import MissingFileError, Tree, UnusableFileError, printable
from gpustack.errors import UsageError
from gpustack.system.run import LocalRunner, Runner

LONG_LINE = 400
"""A log line longer than this, in characters, is cut down to the packages that matter."""

_DENIED = os.strerror(13)


def gather(
    root: Path | None = None,
    *,
    runner: Runner | None = None,
    packages: tuple[str, ...] = (),
    python: str = "",
    with_logs: bool = True,
) -> Evidence:
    """The evidence of the running machine, or of the tree below ``root`` (files only, no command runs).

    ``packages`` are looked up besides those that always matter. ``python`` is an interpreter, absolute inside the
    root, whose environment is read wherever it is.

    Raises UsageError if ``root`` is not a folder.
    """
    if root is not None and not root.is_dir():
        msg = f"{str(root)!r} is not a folder"
        raise UsageError(
            msg,
            code="not-a-folder",
            where="--root",
            hint="give the root of a file system tree: a mounted image, a chroot",
        )
    here = ThisMachine(runner or LocalRunner())
    return gathered(
        Tree(str(root) if root is not None else "/"), here, packages=packages, python=python, with_logs=with_logs
    )


def gathered(
    tree: Tree, machine: Machine, *, packages: tuple[str, ...] = (), python: str = "", with_logs: bool = True
) -> Evidence:
    """The evidence in ``tree``; if that is the whole of ``machine``, also what only the running machine can report."""
    work = _Gatherer(tree)
    work.static()
    if with_logs:
        work.old_logs()
    read_bus(work)
    work.setup()
    reader = PackageReader(work.tree, packages)
    status = reader.dpkg_status()
    if status is not None:
        work.files["/var/lib/dpkg/status"] = status
    names = reader.xbps_names()
    if names:
        work.listings[XBPS] = names
    rpms = reader.rpm_lines()
    # Debian's rpm is a tool for foreign packages: without a database file it has no information.
    if not rpms and tree.is_whole and (status is None or reader.has_unread_rpms):
        rpms = _rpm_answer(machine.runner, work.tree, packages)
    work.faults.update(reader.faults)
    if with_logs:
        work.logs(machine.runner)
        services = ServiceReader(work.tree, work.files)
        services.logs()
        work.commands.update(services.journal(machine.runner))
        work.marks.update(services.named())
    if tree.is_whole:
        work.running(machine, rpms)
    work.libraries()
    work.environments(python)
    return Evidence(
        files=work.files,
        links=work.links,
        listings=work.listings,
        blobs=work.blobs,
        marks=work.marks,
        commands=work.commands,
        rpms=rpms,
        environ=work.environ,
        nvml=work.nvml,
        faults=tuple(Fault(path=path, reason=reason) for path, reason in sorted(work.faults.items())),
        date=dt.datetime.now(tz=dt.timezone.utc).date().isoformat(),
        live=tree.is_whole,
    )


def _definitions(text: str) -> str:
    """The definitions of a header: its numbers are facts, its text is the vendor's."""
    return "".join(f"{line}\n" for line in text.splitlines() if line.lstrip().startswith("#define "))


class _Gatherer:
    """Collects one machine's evidence, piece by piece."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.files: dict[str, str] = {}
        self.links: dict[str, str] = {}
        self.listings: dict[str, tuple[str, ...]] = {}
        self.blobs: dict[str, str] = {}
        self.marks: dict[str, str] = {}
        self.commands: dict[str, CommandOutput] = {}
        self.environ: dict[str, str] = {}
        self.prefixes: tuple[str, ...] = ()
        self.nvml: dict[str, Any] | None = None
        self.faults: dict[str, str] = {}

    def static(self) -> None:
        """Everything at fixed places."""
        for path in probes.TEXTS:
            self.text(path)
        for path in probes.QUIET_TEXTS:
            self.quiet_text(path)
        for path in (path for pattern in probes.TEXT_GLOBS for path in self.tree.glob(pattern, limit=200)):
            name = path.rpartition("/")[2]
            if not name.endswith(".h") or not name.startswith("cudnn") or name.startswith(probes.CUDNN_HEADERS):
                self.text(path)
        if not {"/etc/os-release", "/usr/lib/os-release"} & (self.files.keys() | self.faults.keys()):
            for path in (path for pattern in RELEASE_FILES for path in self.tree.glob(pattern, limit=50)):
                self.text(path)
        for path in probes.LISTINGS:
            self.listing(path, probes.KEPT_NAMES.get(path))
        self.places()

    def old_logs(self) -> None:
        """The ends of package managers' logs and of the kernel's."""
        for path in probes.LOGS:
            self.log(path)

    def places(self) -> None:
        """Links, key files, and files whose existence alone matters."""
        for path in probes.LINKS:
            self.link(path)
        for path in (path for pattern in probes.BLOB_GLOBS for path in self.tree.glob(pattern, limit=50)):
            self.blob(path)
        toolkits = [name for name in self.listings.get("/usr/local", ()) if name.startswith("cuda")]
        tools = [f"/usr/local/{name}/bin/{tool}" for name in toolkits for tool in ("nvcc", "cuda-uninstaller")]
        for path in (*probes.MARKS, *tools):
            if self.tree.exists(path):
                self.marks[path] = "there"

    def text(self, path: str) -> None:
        try:
            text = self.tree.read_text(path, probes.TEXT_LIMIT)
            self.files[path] = _definitions(text) if path.endswith(".h") else text
        except MissingFileError:
            pass
        except UnusableFileError as exc:
            self.faults[path] = str(exc)

    def quiet_text(self, path: str) -> None:
        try:
            data = self.tree.read_bytes(path, probes.TEXT_LIMIT)
        except (MissingFileError, UnusableFileError):
            return
        self.files[path] = data.decode("utf-8", "replace").replace("\0", "\n")

    def log(self, path: str) -> None:
        try:
            data = self.tree.read_bytes(path, probes.LOG_LIMIT, tail=True)
        except (MissingFileError, UnusableFileError):
            return
        kept = [_telling(line) for line in _with_words(data.decode("utf-8", "replace"))]
        if kept:
            self.files[path] = "\n".join(kept[-200:]) + "\n"

    def logs(self, runner: Runner) -> None:
        """What the kernel and Fabric Manager wrote since the last boot, on a machine that may have a GPU."""
        if (
            not self.listings.get("/sys/bus/pci/devices", ("unknown",))
            and "/proc/driver/nvidia/version" not in self.files
        ):
            return
        from gpustack.detect.kernel_log import read_fabric_log, read_log  # noqa: PLC0415 (a machine without GPU)

        above = (path.rpartition("/")[2] for path, mark in self.marks.items() if mark == ABOVE)
        found = read_log(self.tree, runner, (*self.listings.get("/sys/bus/pci/devices", ()), *above))
        self.marks["kernel log"] = f"{found.path} {found.note}".strip()
        for log in (found, read_fabric_log(self.tree)):
            if log.path.startswith("/var/log/") and not log.path.endswith(".journal"):
                known = set(log.lines)
                before = [line for line in self.files.get(log.path, "").splitlines() if line not in known]
                self.files[log.path] = "".join(f"{line}\n" for line in (*before, *log.lines))
            elif log.path:
                self.commands[log.path if log.path == "dmesg" else "journalctl"] = CommandOutput(
                    code=0, out="\n".join(log.lines)
                )

    def listing(self, path: str, kept: str | None = None) -> None:
        try:
            names = self.tree.listing(path)
        except UnusableFileError as exc:
            if str(exc) != _DENIED:
                self.faults[path] = str(exc)
            return
        if names is not None:
            self.listings[path] = tuple(name for name in names if kept is None or re.match(kept, name))

    def link(self, path: str) -> None:
        target = self.tree.link(path)
        if target is None:
            return
        self.links[path] = target
        if not self.tree.leads_somewhere(path):
            self.marks[path] = "dangling"

    def blob(self, path: str) -> None:
        data = self.read(path, probes.BLOB_LIMIT)
        if "/efivars/" in path:
            self.blobs[path] = binascii.b2a_base64(data, newline=False).decode("ascii")
            return
        prints = fingerprints(data)
        old = " 7FA2AF80" if b"7fa2af80" in data.lower() and not prints else ""
        self.marks[path] = f"key {' '.join(prints)}{old}".strip()

    def read(self, path: str, limit: int) -> bytes:
        return self.tree.bytes_if_any(path, limit)

    def setup(self) -> None:
        """Keys, failed builds, engines, services and licences."""
        ServiceReader(self.tree, self.files).settings()
        for place in (place for path, text in self.files.items() for place in guest_addresses(path, text)):
            if BASE in self.listings and not self.tree.exists(f"{BASE}/{place}.0"):
                self.marks[f"{BASE}/{place}.0"] = "missing"
        SetupReader(self.tree, self.files, self.marks).read(self.listings.get(EFIVARS, ()), read_modules(self))

    def running(self, machine: Machine, rpms: tuple[str, ...]) -> None:
        """What only the running machine can report."""
        self.files.setdefault("/proc/sys/kernel/osrelease", machine.release + "\n")
        self.files["/proc/sys/kernel/arch"] = machine.architecture + "\n"
        environ = machine.environ
        self.environ = {name: printable(environ[name]) for name in probes.ENVIRON if name in environ}
        programs = environ.get("PATH", "").split(":")[: probes.MAX_PREFIXES]
        self.prefixes = tuple(path.removesuffix("/bin") for path in programs if re.fullmatch(r"/.+/bin", path))
        if machine.glibc:
            self.commands["confstr CS_GNU_LIBC_VERSION"] = CommandOutput(code=0, out=machine.glibc)
        for argv in self._wanted_commands(machine, rpms):
            done = machine.runner.run(argv, timeout=5.0)
            if done.code is not None:
                answer = CommandOutput(code=done.code, out=done.out[:4000], err=done.err[:1000])
                self.commands[" ".join(argv)] = answer
        if any(path in self.marks for path in ("/dev/nvidiactl", "/dev/dxg")):
            self.nvml = machine.nvml()

    def _wanted_commands(self, machine: Machine, rpms: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        has_module = any(
            "nvidia" in name for folder in self.listings for name in self.listings[folder] if ".ko" in name
        )
        for argv in probes.COMMANDS:
            place = machine.program(argv[0])
            if not place or (argv[0] == "modinfo" and not has_module):
                continue
            # Loading the libraries of a distribution's FFmpeg costs more than all else here; its package is enough.
            owner = "ffmpeg" if argv[0] == "ffmpeg" else toolkit.gcc_package(self.links) if argv[0] == "gcc" else ""
            if not owner or not self._is_packaged(owner, argv[0], place, rpms):
                yield argv

    def _is_packaged(self, package: str, name: str, place: str, rpms: tuple[str, ...]) -> bool:
        """Whether the program at ``place`` belongs to a package, and no other one of its name is known."""
        if place not in {f"/usr/bin/{name}", f"/bin/{name}"} or f"/usr/local/bin/{name}" in self.marks:
            return False
        status = self.files.get("/var/lib/dpkg/status", "")
        packages = all_packages(Evidence(files={"/var/lib/dpkg/status": status}, rpms=rpms))
        # Debian's package "gcc" is a set of links with its own version numbers.
        found = (one for one in packages if one.name == package and one.installed)
        return any(one.manager == "rpm" or package != "gcc" for one in found)

    def libraries(self) -> None:
        """The libraries of interest in every folder on the loader's path and in the usual other places."""
        configured = loader_folders(Evidence(files=self.files, environ=self.environ))
        others = [path for pattern in probes.OTHER_LIBRARY_GLOBS for path in self.tree.glob(pattern, limit=60)]
        seen: set[str] = set()
        for folder in dict.fromkeys((*configured, *others)):
            self.library_folder(folder, seen)

    def library_folder(self, folder: str, seen: set[str]) -> None:
        try:
            real = self.tree.resolve(folder)
            names = () if real in seen else self.tree.listing(folder) or ()
        except (MissingFileError, UnusableFileError):
            return
        seen.add(real)
        found = tuple(
            name
            for name in names
            if name.startswith(probes.LIBRARY_STARTS) and re.fullmatch(probes.LIBRARY_NAMES, name)
        )
        if found:
            self.listings[folder] = found
            for name in found:
                self.library_link(f"{folder}/{name}")

    def library_link(self, path: str) -> None:
        """A library's link; if it leads through other folders, also the file at the end."""
        self.link(path)
        if "/" in self.links.get(path, "") and path not in self.marks:
            self.marks[path] = f"file {self.tree.final(path)}"

    def environments(self, python: str) -> None:
        """The Python environments: active, of ``python``, on the loader's path, and at the usual places."""
        active = (self.environ.get("VIRTUAL_ENV"), self.environ.get("CONDA_PREFIX"))
        given = (python.rpartition("/bin/")[0], (self.tree.final(python) or "").rpartition("/bin/")[0])
        prefixes = dict.fromkeys(prefix for prefix in (*given, *active, *self.prefixes) if prefix)
        own = [path for prefix in prefixes for path in self.tree.glob(f"{prefix}/lib/python3*/site-packages")]
        # A wheel's folder on the loader's path: its neighbours identify the wheel.
        tails = tuple(f"/{tail}" for tail in probes.WHEEL_LIBRARIES)
        own += [folder.removesuffix(tail) for folder in self.listings for tail in tails if folder.endswith(tail)]
        reader = EnvironmentReader(self.tree, self.files, self.listings, self.marks)
        seen: set[str] = set()
        for place in reader.read(own):
            for folder in probes.WHEEL_LIBRARIES:
                self.library_folder(f"{place}/{folder}", seen)


def _with_words(text: str) -> list[str]:
    """The lines of a log that contain one of the words: searched word by word, not line by line, for speed."""
    starts: dict[int, int] = {}
    for word in probes.LOG_WORDS:
        at = text.find(word)
        while at >= 0:
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
            starts[text.rfind("\n", 0, at) + 1] = end
            at = text.find(word, end)
    lines = (line for start, end in sorted(starts.items()) for line in text[start:end].splitlines())
    return [line for line in lines if any(word in line for word in probes.LOG_WORDS)]


def _telling(line: str) -> str:
    """A log line; of one that lists hundreds of packages only the relevant ones."""
    if len(line) <= LONG_LINE:
        return line
    head, _, rest = line.partition(": ")
    parts = [part for part in rest.split("), ") if any(word in part for word in probes.LOG_WORDS)]
    return f"{head}: {'), '.join(parts)}"[:2000]


RPM_QUERY = ("rpm", "-qa", "--qf", r"%{NAME}\t%{EPOCH}\t%{VERSION}\t%{RELEASE}\t%{ARCH}\t%{VENDOR}\n")
"""Asks rpm for all packages where its database can only be read by itself."""


def _rpm_answer(runner: Runner, tree: Tree, packages: tuple[str, ...]) -> tuple[str, ...]:
    if not tree.exists("/usr/bin/rpm"):
        return ()
    done = runner.run(RPM_QUERY, timeout=20.0)
    wanted = wanted_names(packages)
    lines = done.out.splitlines() if done.code == 0 else []
    return tuple(sorted(line.replace("(none)", "") for line in lines if wanted.fullmatch(line.partition("\t")[0])))
