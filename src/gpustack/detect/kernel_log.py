"""Reads the log of the running kernel: its lines about NVIDIA since the last boot, wherever the machine keeps them."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator

from msgspec import Struct

from gpustack.detect.tree import MissingFileError, Tree, UnusableFileError
from gpustack.system.run import Runner

FILES = ("kern.log", "messages", "syslog", "dmesg")
FABRIC = ("fabricmanager.log", "syslog", "messages")
BOOT = b"Linux version "
"""The kernel's first message: what stands before it is of an earlier boot."""

PIECE = 1 << 20
LARGEST = 256 << 20
"""So much of the end of a log is looked at, in bytes."""

EARLIEST, LATEST = 1500, 300
"""So many of the first and of the last lines are kept."""

_WORDS = (b"NVRM", b"nvidia")
_OLD_JOURNALS = 4
_FABRIC_WORDS = (b"fabricmanager", b"fabric manager", b"fabric_manager")


class Log(Struct, frozen=True, kw_only=True):
    """The lines that matter, where they come from, and what could not be read."""

    path: str = ""
    lines: tuple[str, ...] = ()
    note: str = ""


def read_log(tree: Tree, runner: Runner | None) -> Log:
    """The kernel's messages: of the running machine by dmesg, else from the text files, else from the journal."""
    if tree.root == "" and runner is not None:
        done = runner.run(("dmesg",), timeout=5.0)
        if done.code == 0 and done.out:
            found = [line for line in done.out.splitlines() if "NVRM" in line or "nvidia" in line]
            return Log(path="dmesg", lines=_bounded(found))
    denied = ""
    for name in FILES:
        try:
            lines = _with_rotated(tree, name, _WORDS)
        except UnusableFileError as exc:
            denied = denied or f"/var/log/{name}: {exc}"
            continue
        if lines is not None:
            return Log(path=f"/var/log/{name}", lines=_bounded(lines))
    return _journal(tree, runner) or Log(
        note=denied or "no file of /var/log and no journal holds the kernel's messages"
    )


def read_fabric_log(tree: Tree) -> Log:
    """What Fabric Manager wrote, from its own file and those of the log daemon."""
    for name in FABRIC:
        try:
            lines = _with_rotated(tree, name, _FABRIC_WORDS, is_own=name.startswith("fabric"))
        except UnusableFileError:
            continue
        if lines:
            return Log(path=f"/var/log/{name}", lines=_bounded(lines))
    return Log()


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
        pieces = _unpacked(handle) if path.endswith(".gz") else _backwards(handle)
        kept: list[list[bytes]] = []
        for piece in pieces:
            boot = piece.rfind(BOOT)
            start = piece.rfind(b"\n", 0, boot) + 1 if boot >= 0 else 0
            found = _lines(piece[start:] if start else piece, words)
            kept.append(([piece[start : piece.find(b"\n", boot)]] if boot >= 0 else []) + found)
            if boot >= 0:
                break
    except (OSError, zlib.error) as exc:
        raise UnusableFileError(str(exc)) from exc
    finally:
        os.close(handle)
    lines = [line.decode("utf-8", "replace") for part in reversed(kept) for line in part]
    return lines, bool(kept) and bool(kept[-1]) and BOOT in kept[-1][0]


def _open(tree: Tree, path: str) -> int:
    try:
        return tree.open_stream(path)
    except MissingFileError as exc:
        raise UnusableFileError(str(exc)) from exc
    except OSError as exc:
        raise UnusableFileError(exc.strerror or str(exc)) from exc


def _backwards(handle: int) -> Iterator[bytes]:
    """A file from its end to its beginning, in pieces of whole lines."""
    end = os.fstat(handle).st_size
    lowest, rest = max(0, end - LARGEST), b""
    while end > lowest:
        start = max(lowest, end - PIECE)
        piece = os.pread(handle, end - start, start) + rest
        end = start
        cut = piece.find(b"\n") + 1 if start > lowest else 0
        rest = piece[:cut]
        yield piece[cut:] if cut else piece


def _unpacked(handle: int) -> Iterator[bytes]:
    """A packed file as one piece."""
    unpack = zlib.decompressobj(wbits=31)
    parts, size = [], 0
    while size < LARGEST // 4 and (packed := os.read(handle, PIECE)):
        parts.append(unpack.decompress(packed, LARGEST // 4))
        size += len(parts[-1])
    yield b"".join(parts)


def _lines(piece: bytes, words: tuple[bytes, ...]) -> list[bytes]:
    """The first lines of a piece with one of the words, and the last: searched word by word, for speed."""
    # Of a large log only pieces with the first word are taken apart: every grave message has it, or comes beside one.
    told = words[:1] if words is _WORDS and len(piece) >= PIECE >> 1 else words
    if all(piece.rfind(word) < 0 for word in told):
        return []
    starts: dict[int, int] = {}
    for word in words:
        at = piece.find(word)
        while at >= 0 and len(starts) < EARLIEST:
            end = piece.find(b"\n", at)
            end = len(piece) if end < 0 else end
            starts[piece.rfind(b"\n", 0, at) + 1] = end
            at = piece.find(word, end)
    found = [piece[start:end] for start, end in sorted(starts.items())]
    if len(starts) < EARLIEST:
        return found
    last = piece[piece.rfind(b"\n", 0, -(PIECE >> 4)) + 1 :].splitlines()
    return found + [line for line in last if words[0] in line]


def _journal(tree: Tree, runner: Runner | None) -> Log | None:
    """The kernel's messages in the journal: by journalctl where it is there, else what the binary file shows."""
    folders = [folder for folder in ("/var/log/journal", "/run/log/journal") if tree.is_folder(folder)]
    if not folders:
        return None
    if runner is not None:
        where = f"--directory={tree.root}{folders[0]}" if tree.root else "--quiet"
        command = ("journalctl", "--dmesg", "--boot", "--no-pager", "--quiet", "--output=short-iso", where)
        done = runner.run(command, timeout=5.0)
        found = [line for line in done.out.splitlines() if "NVRM" in line or "nvidia" in line]
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
