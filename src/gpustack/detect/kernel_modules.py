"""The driver's modules on disk: for which kernels they are there, whether modprobe finds them, and who signed them."""

from __future__ import annotations

import binascii
from typing import Protocol

from gpustack.detect import probes
from gpustack.detect.parse import signing
from gpustack.detect.tree import MissingFileError, Tree, UnusableFileError
from gpustack.patterns import later
from gpustack.system.run import reading

_MODULE = later(r"(?:nvidia|nouveau)\.ko(?:\.\w+)?")
TAIL = signing.LONGEST + signing.INFO + len(signing.MAGIC)
"""So much of a module's end holds its signature."""

_PIECE = 1 << 20
LOADED = "/proc/driver/nvidia/version"


class _Stream(Protocol):
    """What is read piece by piece."""

    def read(self, size: int, /) -> bytes: ...


class Work(Protocol):
    """What collects one machine's evidence."""

    tree: Tree
    files: dict[str, str]
    marks: dict[str, str]
    blobs: dict[str, str]
    listings: dict[str, tuple[str, ...]]

    def link(self, path: str) -> None: ...
    def listing(self, path: str, kept: str | None = None) -> None: ...
    def read(self, path: str, limit: int) -> bytes: ...


def read_modules(work: Work) -> dict[str, bytes]:
    """For each installed kernel: its headers, and the driver's modules; the ends of signed modules, by path."""
    tails: dict[str, bytes] = {}
    for name in work.listings.get("/lib/modules", ())[-20:]:
        here = f"/lib/modules/{name}"
        work.link(f"{here}/build")
        if work.tree.is_folder(f"{here}/build"):
            work.marks[f"{here}/build"] = "there"
        folders = [path for folder in probes.MODULE_FOLDERS for path in work.tree.glob(f"{here}/{folder}", limit=30)]
        mine = [path for folder in folders for path in _modules(work, folder)]
        if mine and LOADED not in work.files:
            _index(work, here)
        for path in mine:
            tail = _tail(work, path, name)
            if tail.endswith(signing.MAGIC):
                tails[path] = tail
    for module in work.listings.get("/var/lib/dkms", ()):
        work.listing(f"/var/lib/dkms/{module}")
        for version in work.listings.get(f"/var/lib/dkms/{module}", ()):
            if version[:1].isdigit():
                work.listing(f"/var/lib/dkms/{module}/{version}")
    return tails


def _modules(work: Work, folder: str) -> list[str]:
    """The paths of the module nvidia in a folder, whose listing is kept."""
    try:
        names = work.tree.listing(folder) or ()
    except UnusableFileError:
        return []
    found = tuple(name for name in names if _MODULE.fullmatch(name))
    if found:
        work.listings[folder] = found
    return [f"{folder}/{name}" for name in found if name.startswith("nvidia.ko")]


def _index(work: Work, here: str) -> None:
    """Whether modprobe's index of a kernel names the module."""
    data = work.read(f"{here}/modules.dep", probes.INDEX_LIMIT)
    if data and b"nvidia.ko" not in data:
        work.marks[f"{here}/modules.dep"] = "without nvidia"


def _tail(work: Work, path: str, kernel: str) -> bytes:
    """The end of a module, where its signature is; a mark says whether there is one.

    A packed module is unpacked only where its signature decides: Secure Boot is on, and the running kernel lacks it.
    """
    try:
        if path.endswith(".ko"):
            tail = work.tree.read_bytes(path, TAIL, tail=True)
        elif _decides(work, kernel):
            tail = _unpacked_tail(work, path)
        else:
            return b""
    except (MissingFileError, UnusableFileError):
        return b""
    except (OSError, EOFError, ValueError) as exc:
        work.marks[path] = f"unread {exc}"
        return b""
    if len(tail) >= len(signing.MAGIC):
        work.marks[path] = "signed" if tail.endswith(signing.MAGIC) else "unsigned"
    return tail


def _decides(work: Work, kernel: str) -> bool:
    running = work.files.get("/proc/sys/kernel/osrelease", "").strip()
    told = [data for path, data in work.blobs.items() if "/SecureBoot-" in path]
    return (
        LOADED not in work.files
        and kernel in {running, ""}
        and any(binascii.a2b_base64(one)[-1:] == b"\1" for one in told)
    )


def _unpacked_tail(work: Work, path: str) -> bytes:
    """The end of a packed module. Raises OSError, EOFError, ValueError where it cannot be unpacked here."""
    place = work.tree.root + work.tree.resolve(path)
    if path.endswith(".xz"):
        import lzma  # noqa: PLC0415 (few modules are unpacked)

        try:
            with lzma.open(place) as stream:
                return _end_of(stream)
        except lzma.LZMAError as exc:
            raise ValueError(str(exc)) from exc
    if path.endswith(".gz"):
        import gzip  # noqa: PLC0415

        with gzip.open(place) as stream:
            return _end_of(stream)
    if not path.endswith(".zst"):
        msg = "packed in a way that is not read here"
        raise ValueError(msg)
    with reading(("zstd", "--decompress", "--stdout", "--quiet", "--", place)) as stream:
        return _end_of(stream)


def _end_of(stream: _Stream) -> bytes:
    kept = b""
    while piece := stream.read(_PIECE):
        kept = (kept + piece)[-TAIL:]
    return kept
