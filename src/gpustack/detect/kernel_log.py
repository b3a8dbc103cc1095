"""Reads the log of the running kernel: its lines about NVIDIA since the last boot, wherever the machine keeps them."""

from __future__ import annotations

import os
import re
import zlib

from msgspec import Struct

from gpustack.detect.services import JOURNALS
from gpustack.detect.tree import MissingFileError, Tree, UnusableFileError
from gpustack.system.run import Runner

FILES = ("kern.log", "messages", "syslog", "dmesg")
FABRIC = ("fabricmanager.log", "syslog", "messages")
BOOT = b"Linux version "
"""The kernel's first message: what stands before it is of an earlier boot."""

DMESG = ("dmesg",)
JOURNALCTL = ("journalctl", "--dmesg", "--boot", "--no-pager", "--quiet", "--output=short-iso")
"""Commands that print the kernel's messages."""

PIECE = 1 << 20
STEP = 1 << 17
"""So many bytes are searched at a time: they stay in the processor's cache."""

RARE = {BOOT: b"L", b"NVRM": b"V"}
"""A letter of a word that few lines have: looking for one byte takes a tenth of the time of looking for a word."""

_LINE, _OVERLAP = 1 << 12, 16
LARGEST = 256 << 20
"""The part of a log that is read, in bytes from its end."""

EARLIEST, LATEST = 400, 100
"""So many of the first and of the last lines are kept."""

WORDS = (
    b"NVRM",
    b"nvidia",
    b"vfio-pci",
    b"unavailable key",
    b"unsigned module",
    b"bbswitch: ",
    b"PM: suspend exit",
    b"dxgk",
)
"""Those about signatures: the kernel names no module where it refuses one for its signature."""

FAULTS = ("assign", "no space", "FAULT", "fault addr", "severity=", "not enough", "Link Down", "not present")
"""Words of lines about a fault of a device on the bus: those with the address of one of NVIDIA's count."""

_OLD_JOURNALS = 4
FABRIC_WORDS = (b"fabricmanager", b"fabric manager", b"fabric_manager")


class Log(Struct, frozen=True, kw_only=True):
    """The lines that matter, where they come from, and what could not be read."""

    path: str = ""
    lines: tuple[str, ...] = ()
    note: str = ""


def read_log(tree: Tree, runner: Runner | None, places: tuple[str, ...] = ()) -> Log:
    """The kernel's messages: of the running machine by dmesg, else from the text files, else from the journal.

    ``places`` are the addresses of NVIDIA's functions on the bus.
    """
    if tree.is_whole and runner is not None:
        done = runner.run(DMESG, timeout=5.0)
        if done.code == 0 and done.out:
            return Log(path="dmesg", lines=_bounded(_telling(done.out, places)))
    denied = ""
    for name in FILES:
        try:
            lines = _with_rotated(tree, name, WORDS)
        except UnusableFileError as exc:
            denied = denied or f"/var/log/{name}: {exc}"
            continue
        if lines is not None:
            return Log(path=f"/var/log/{name}", lines=_bounded(lines))
    return _journal(tree, runner, places) or Log(
        note=denied or "no file of /var/log and no journal holds the kernel's messages"
    )


def read_fabric_log(tree: Tree) -> Log:
    """What Fabric Manager wrote, from its own file and those of the log daemon."""
    for name in FABRIC:
        try:
            lines = _with_rotated(tree, name, FABRIC_WORDS, is_own=name.startswith("fabric"))
        except UnusableFileError:
            continue
        told = [line for line in lines or () if BOOT.decode() not in line]
        if told:
            return Log(path=f"/var/log/{name}", lines=_bounded(told))
    return Log()


def _telling(text: str, places: tuple[str, ...]) -> list[str]:
    """The lines with one of the words, and those that report a fault of a device at one of the places."""
    words = tuple(word.decode() for word in WORDS)
    short = tuple(place.removeprefix("0000:") for place in places)
    return [
        line
        for line in text.splitlines()
        if any(word in line for word in words)
        or (any(place in line for place in short) and any(word in line for word in FAULTS))
    ]


def _bounded(lines: list[str]) -> tuple[str, ...]:
    if len(lines) <= EARLIEST + LATEST:
        return tuple(lines)
    return (*lines[:EARLIEST], *lines[-LATEST:])


def _with_rotated(tree: Tree, name: str, words: tuple[bytes, ...], *, is_own: bool = False) -> list[str] | None:
    """The lines of a log since the last boot, from its rotated files too; None where there is no such log.

    Raises UnusableFileError where it is there and cannot be read.
    """
    path = f"/var/log/{name}"
    if not tree.exists(path):
        return None
    found, has_boot = _since_boot(tree, path, words)
    for older in () if has_boot or is_own else _rotated(tree, name):
        try:
            more, has_boot = _since_boot(tree, older, words)
        except UnusableFileError:
            break
        found = more + found
        if has_boot:
            break
    return found


def _rotated(tree: Tree, name: str) -> list[str]:
    """The rotated files of a log, the newest first: kern.log.1, kern.log.2.gz, or messages-20261101.gz."""
    names = [one for one in tree.listing("/var/log") or () if re.fullmatch(rf"{re.escape(name)}[.-]\d+(?:\.gz)?", one)]
    dated = sorted((one for one in names if one.startswith(f"{name}-")), reverse=True)
    counted = [one for one in names if one.startswith(f"{name}.")]
    counted.sort(key=lambda one: int(one.removeprefix(f"{name}.").partition(".")[0]))
    return [f"/var/log/{one}" for one in (counted or dated)[:3]]


def _since_boot(tree: Tree, path: str, words: tuple[bytes, ...]) -> tuple[list[str], bool]:
    """The lines with one of the words since the last boot that the file shows, and whether it shows one."""
    handle = _open(tree, path)
    try:
        if path.endswith(".gz"):
            text = _unpacked(handle)
            boot = text.rfind(BOOT)
            has_boot, start = boot >= 0, text.rfind(b"\n", 0, max(boot, 0)) + 1
            lines = [text[start:].partition(b"\n")[0]] if has_boot else []
            lines += _lines(text, start, len(text), words)
        else:
            lines, has_boot = _of_file(handle, words)
    except (OSError, zlib.error) as exc:
        raise UnusableFileError(str(exc)) from exc
    finally:
        os.close(handle)
    return [line.decode("utf-8", "replace") for line in lines], has_boot


def _open(tree: Tree, path: str) -> int:
    try:
        return tree.open_stream(path)
    except MissingFileError as exc:
        raise UnusableFileError(str(exc)) from exc
    except OSError as exc:
        raise UnusableFileError(exc.strerror or str(exc)) from exc


def _of_file(handle: int, words: tuple[bytes, ...]) -> tuple[list[bytes], bool]:
    """One pass over the file, from its end to the last boot; of what it reads, only pieces with a word are taken apart.

    In a file of many pieces a piece counts if it holds the first word.
    """
    end = os.fstat(handle).st_size
    lowest = max(0, end - LARGEST)
    told = words[:1] if end - lowest > PIECE else words
    starts: dict[int, None] = {}
    boot = -1
    buffer = bytearray(STEP + _OVERLAP)  # one for all: memory that is new for each costs as much as the search
    for start in range(lowest + (end - 1 - lowest) // STEP * STEP, lowest - 1, -STEP):
        size = os.preadv(handle, [buffer], start)
        piece = buffer if size == len(buffer) else buffer[:size]
        if any(_holds(piece, word) for word in told):
            starts[lowest + (start - lowest) // PIECE * PIECE] = None
        if _holds(piece, BOOT):
            at = start + piece.rfind(BOOT)
            before = os.pread(handle, min(at, _LINE), max(0, at - _LINE))
            boot = at - len(before) + before.rfind(b"\n") + 1
            break
    lines = [_line_at(handle, boot)] if boot >= 0 else []
    for start in reversed(starts):
        head = max(lowest, start - _LINE)
        block = os.pread(handle, start - head + PIECE + _LINE, head)
        lines += _lines(block, max(start, boot) - head, start - head + PIECE, words)
        if len(lines) >= EARLIEST:
            rest = os.pread(handle, PIECE >> 6, max(0, end - (PIECE >> 6)))
            return lines + _lines(rest, 0, len(rest), words), boot >= 0
    return lines, boot >= 0


def _line_at(handle: int, place: int) -> bytes:
    return os.pread(handle, _LINE, place).partition(b"\n")[0]


def _holds(piece: bytearray, word: bytes) -> bool:
    return RARE.get(word, word) in piece and word in piece


def _unpacked(handle: int) -> bytes:
    """The text of a packed file."""
    unpack = zlib.decompressobj(wbits=31)
    parts, size = [], 0
    while size < LARGEST >> 2 and (packed := os.read(handle, PIECE)):
        parts.append(unpack.decompress(packed, LARGEST >> 2))
        size += len(parts[-1])
    return b"".join(parts)


def _lines(block: bytes, start: int, end: int, words: tuple[bytes, ...]) -> list[bytes]:
    """The lines in which one of the words stands between two places: searched word by word, for speed."""
    found: dict[int, int] = {}
    for word in words:
        at, count = block.find(word, start, end), 0
        while at >= 0 and count < EARLIEST:
            stop = block.find(b"\n", at)
            stop = len(block) if stop < 0 else stop
            found[block.rfind(b"\n", 0, at) + 1] = stop
            count += 1
            at = block.find(word, stop, end)
    return [block[first:stop] for first, stop in sorted(found.items())]


def _journal(tree: Tree, runner: Runner | None, places: tuple[str, ...]) -> Log | None:
    """The kernel's messages in the journal: by journalctl where it is there, else what the binary file shows."""
    folders = [folder for folder in JOURNALS if tree.is_folder(folder)]
    if not folders:
        return None
    if runner is not None:
        where = () if tree.is_whole else (f"--directory={tree.root}{folders[0]}",)
        done = runner.run((*JOURNALCTL, *where), timeout=5.0)
        found = _telling(done.out, places)
        if done.code == 0 and found:
            return Log(path="journalctl", lines=_bounded(found))
    files = [path for folder in folders for path in tree.glob(f"{folder}/*/system*.journal", limit=_OLD_JOURNALS)]
    try:
        lines = [line for path in files for line in _messages(tree, path)]
    except UnusableFileError as exc:
        return Log(note=f"the journal: {exc}")
    note = "read without journalctl: times and boots are unknown, packed messages unread"
    return Log(path=files[0], lines=_bounded(lines), note=note) if files else None


def _messages(tree: Tree, path: str) -> list[str]:
    """The messages about NVIDIA in a journal file, each once, in the order in which they first came."""
    handle = _open(tree, path)
    try:
        size = min(os.fstat(handle).st_size, LARGEST)
        found, rest, at = [], b"", 0
        while at < size:
            piece = rest + os.pread(handle, PIECE, at)
            at += PIECE
            found += (
                re.findall(rb"MESSAGE=([ -~\n]*(?:NVRM|nvidia)[ -~\n]*)", piece) if b"MESSAGE=NVRM" in piece else []
            )
            rest = piece[-4096:]
    except OSError as exc:
        raise UnusableFileError(exc.strerror or str(exc)) from exc
    finally:
        os.close(handle)
    return list(dict.fromkeys(line.decode("ascii", "replace") for message in found for line in message.splitlines()))
