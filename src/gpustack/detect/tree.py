"""Reading below a root directory: links never lead outside, nothing blocks, and every read has a limit."""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from itertools import islice

from gpustack.patterns import later
from gpustack.system.paths import among, has_wildcard

MAX_HOPS = 40
MAX_ENTRIES = 20_000
MAX_FLAT_LINK = 256
"""The longest text file that may represent a link, in bytes."""

_LINK_TEXT = later(r"[\w.+:@/~-]+")


class MissingFileError(Exception):
    """There is no such file below the root."""


class UnusableFileError(Exception):
    """The file exists but cannot be used; the text says why."""


class Tree:
    """A file system tree. All paths in arguments and results are absolute inside the root.

    Some archives store a symbolic link as a small text file with the target; those count as links. ``is_whole`` is
    whether this is the tree of the machine that commands ask.
    """

    def __init__(self, root: str) -> None:
        self.root = os.path.realpath(root).rstrip("/")
        self.is_whole = not self.root
        self._states: dict[str, os.stat_result | None] = {}
        self._folders: dict[str, tuple[str, ...]] = {}
        self._walked: dict[str, str | MissingFileError | UnusableFileError] = {}

    def state_at(self, resolved: str) -> os.stat_result:
        """The state of what is there, which may be a link. Raises OSError."""
        return os.lstat(self.root + resolved)

    def target_at(self, resolved: str) -> str:
        """The target of the link there. Raises OSError."""
        return os.readlink(self.root + resolved)  # noqa: PTH115 (hot path)

    def open_at(self, resolved: str) -> int:
        """A descriptor of what is there. Raises OSError."""
        return os.open(self.root + resolved, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)

    def names_at(self, resolved: str) -> list[str]:
        """The first names in the folder there. Raises OSError."""
        with os.scandir(self.root + resolved) as entries:
            return [entry.name for entry in islice(entries, MAX_ENTRIES)]

    def resolve(self, path: str, *, follow_last: bool = True) -> str:
        """The path without links and dots. Raises MissingFileError or UnusableFileError (looping links)."""
        folder, _, name = path.rpartition("/")
        if not folder or name in {"", ".", ".."}:
            return self._walk(path, follow_last=follow_last)
        here = f"{self._resolved_folder(folder).rstrip('/')}/{name}"
        if self._target_of(here, last=True, follow_last=follow_last) is None:
            return here
        return self._walk(path, follow_last=follow_last)

    def _resolved_folder(self, folder: str) -> str:
        """A folder without links and dots, resolved once: many paths share theirs."""
        if folder not in self._walked:
            try:
                self._walked[folder] = self._below_its_parent(folder)
            except (MissingFileError, UnusableFileError) as exc:
                self._walked[folder] = exc
        found = self._walked[folder]
        if isinstance(found, str):
            return found
        raise type(found)(*found.args)

    def _below_its_parent(self, folder: str) -> str:
        above, _, name = folder.rpartition("/")
        if above and name not in {"", ".", ".."} and folder.count("/") <= MAX_HOPS:
            here = f"{self._resolved_folder(above).rstrip('/')}/{name}"
            if self._target_of(here, last=False, follow_last=True) is None:
                return here
        return self._walk(f"{folder}/.")

    def _walk(self, path: str, *, follow_last: bool = True) -> str:
        pending = deque(path.split("/"))
        done: list[str] = []
        hops = 0
        while pending:
            part = pending.popleft()
            if part in {"", "."}:
                continue
            if part == "..":
                del done[-1:]
                continue
            here = "/" + "/".join((*done, part))
            target = self._target_of(here, last=not pending, follow_last=follow_last)
            if target is None:
                done.append(part)
                continue
            hops += 1
            if hops > MAX_HOPS:
                msg = "symbolic links run in a circle"
                raise UnusableFileError(msg)
            if target.startswith("/"):
                done.clear()
            pending.extendleft(reversed(target.split("/")))
        return "/" + "/".join(done)

    def _target_of(self, here: str, *, last: bool, follow_last: bool) -> str | None:
        state = self._state(here)
        if stat.S_ISLNK(state.st_mode):
            return None if last and not follow_last else self.target_at(here)
        if stat.S_ISREG(state.st_mode) and not last:
            target = self._flat_target(here, state)
            if target is None:
                raise MissingFileError(here)
            return target
        return None

    def _state(self, here: str) -> os.stat_result:
        if here not in self._states:
            try:
                self._states[here] = self.state_at(here)
            except OSError as exc:
                if exc.errno not in {errno.ENOENT, errno.ENOTDIR}:
                    raise UnusableFileError(exc.strerror or str(exc)) from exc
                self._states[here] = None
            except ValueError as exc:  # a NUL in the name
                raise MissingFileError(here) from exc
        state = self._states[here]
        if state is None:
            raise MissingFileError(here)
        return state

    def _flat_target(self, here: str, state: os.stat_result) -> str | None:
        if not 0 < state.st_size <= MAX_FLAT_LINK:
            return None
        try:
            return as_link(self._read(here, MAX_FLAT_LINK).decode("utf-8", "replace"))
        except UnusableFileError:
            return None

    def _read(self, resolved: str, limit: int, *, tail: bool = False) -> bytes:
        try:
            handle = self.open_at(resolved)
        except OSError as exc:
            raise UnusableFileError(exc.strerror or str(exc)) from exc
        try:
            state = os.fstat(handle)
            if not stat.S_ISREG(state.st_mode):
                msg = "is a folder" if stat.S_ISDIR(state.st_mode) else "is not a regular file"
                raise UnusableFileError(msg)
            if tail and state.st_size > limit:
                os.lseek(handle, -limit, os.SEEK_END)
            return _read_all(handle, limit, cut=tail)
        except OSError as exc:
            raise UnusableFileError(exc.strerror or str(exc)) from exc
        finally:
            os.close(handle)

    def read_bytes(self, path: str, limit: int, *, tail: bool = False) -> bytes:
        """The content, at most ``limit`` bytes (with ``tail``: the last ones). Raises as ``resolve`` does."""
        return self._read(self.resolve(path), limit, tail=tail)

    def bytes_if_any(self, path: str, limit: int, *, tail: bool = False) -> bytes:
        """The content as ``read_bytes`` has it, or nothing where the file is missing or cannot be read."""
        try:
            return self.read_bytes(path, limit, tail=tail)
        except (MissingFileError, UnusableFileError):
            return b""

    def read_text(self, path: str, limit: int, *, tail: bool = False) -> str:
        """The content as text; raises UnusableFileError for binary data. A flattened link is followed."""
        seen = path
        for _ in range(MAX_HOPS):
            data = self.read_bytes(seen, limit, tail=tail)
            if b"\0" in data:
                msg = "holds binary data"
                raise UnusableFileError(msg)
            text = data.decode("utf-8", "replace")
            target = as_link(text) if len(data) <= MAX_FLAT_LINK and "/" in text else None
            follow = _joined(seen, target) if target else None
            if follow is None or not self.is_file(follow):
                return text
            seen = follow
        msg = "links run in a circle"
        raise UnusableFileError(msg)

    def open_stream(self, path: str) -> int:
        """A descriptor of a regular file to read in pieces; the caller closes it."""
        resolved = self.resolve(path)
        try:
            handle = self.open_at(resolved)
        except OSError as exc:
            raise UnusableFileError(exc.strerror or str(exc)) from exc
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            msg = "is not a regular file"
            raise UnusableFileError(msg)
        return handle

    def link(self, path: str) -> str | None:
        """The target of the link at ``path`` as written there; None if it is not a link."""
        try:
            resolved = self.resolve(path, follow_last=False)
            state = self._state(resolved)
            if stat.S_ISLNK(state.st_mode):
                return printable(self.target_at(resolved))
            return self._flat_target(resolved, state) if stat.S_ISREG(state.st_mode) else None
        except (MissingFileError, UnusableFileError, OSError):
            return None

    def final(self, path: str) -> str | None:
        """The end of the links from ``path`` on, flattened ones too; None if they run in a circle."""
        for _ in range(MAX_HOPS):
            target = self.link(path)
            if target is None:
                return path
            path = target if target.startswith("/") else f"{path.rpartition('/')[0]}/{target}"
        return None

    def leads_somewhere(self, path: str) -> bool:
        """Whether the links from ``path`` on end at something that exists."""
        end = self.final(path)
        return end is not None and self.exists(end)

    def listing(self, path: str) -> tuple[str, ...] | None:
        """The sorted names in a folder (the first MAX_ENTRIES), or None. Raises UnusableFileError."""
        try:
            resolved = self.resolve(path)
        except MissingFileError:
            return None
        if resolved not in self._folders:
            try:
                names = self.names_at(resolved)
            except NotADirectoryError:
                target = self.link(path)
                follow = _joined(path, target) if target else None
                return self.listing(follow) if follow and follow != path and self.is_folder(follow) else None
            except OSError as exc:
                raise UnusableFileError(exc.strerror or str(exc)) from exc
            self._folders[resolved] = tuple(sorted(n for n in names if n.isascii() or n == printable(n)))
        return self._folders[resolved]

    def _mode(self, path: str) -> int:
        try:
            return self._state(self.resolve(path)).st_mode
        except (MissingFileError, UnusableFileError):
            return 0

    def exists(self, path: str) -> bool:
        return self._mode(path) != 0

    def is_file(self, path: str) -> bool:
        return stat.S_ISREG(self._mode(path))

    def is_folder(self, path: str) -> bool:
        return path == "/" or stat.S_ISDIR(self._mode(path))

    def glob(self, pattern: str, *, limit: int = 2000) -> list[str]:
        """The matching paths, sorted; ``*``, ``?`` and ``[]`` match within one component."""
        found = [""]
        parts = pattern.strip("/").split("/")
        for part in parts:
            if not has_wildcard(part):
                found = [f"{head}/{part}" for head in found]
                continue
            step: list[str] = []
            for head in found:
                try:
                    names = self.listing(head or "/") or ()
                except UnusableFileError:
                    names = ()
                step += [f"{head}/{name}" for name in among(names, part)]
            found = step[:limit]
        if has_wildcard(parts[-1]):  # a folder has just listed these names
            return found
        return [path for path in found if self.exists(path) or self.link(path) is not None]


def printable(text: str) -> str:
    """A file name as printable text; bytes that are not UTF-8 are replaced."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def as_link(text: str) -> str | None:
    """The target in the text of a flattened link: one word of path characters without a line break."""
    return text if _LINK_TEXT.fullmatch(text) and text.strip(".") else None


def _joined(path: str, target: str) -> str | None:
    return os.path.normpath(target if target.startswith("/") else f"{os.path.dirname(path)}/{target}")  # noqa: PTH120


def _read_all(handle: int, limit: int, *, cut: bool) -> bytes:
    pieces: list[bytes] = []
    left = limit + 1
    while left > 0:
        piece = os.read(handle, min(left, 1 << 16))
        if not piece:
            break
        pieces.append(piece)
        left -= len(piece)
    data = b"".join(pieces)
    if len(data) > limit and not cut:
        msg = f"is longer than {limit} bytes"
        raise UnusableFileError(msg)
    return data[:limit]
