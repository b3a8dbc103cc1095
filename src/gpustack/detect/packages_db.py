"""Package databases read from their files: dpkg's status piece by piece, rpm's sqlite database read-only."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import cached_property

from gpustack.detect import probes
from gpustack.detect.names import Names
from gpustack.detect.tree import MissingFileError, Tree, UnusableFileError
from gpustack.patterns import later

STATUS_LIMIT = 96 << 20
"""The most bytes that are read of dpkg's status file."""

PIECE = 1 << 16
"""The bytes of one read: larger pieces are allocated each time, which costs more than the calls."""

STANZA_LIMIT = 1 << 20
RPM_LIMIT = 20_000
"""The most packages that are read of an rpm database."""

RPM_FOLDERS = ("/var/lib/rpm", "/usr/lib/sysimage/rpm", "/usr/share/rpm")
_FIELDS = later(rb"^(?:Package|Status|Version|Architecture|Maintainer|Source): [^\n]{0,400}", re.MULTILINE)
XBPS = "/var/db/xbps/pkgdb-*.plist"
_XBPS = later(rb"<key>pkgver</key>\s*<string>([\w.+-]{1,200})</string>")
_FIRST = b"Package: "
_NAME = later(rb"^Package: ([^\s]{1,200})", re.MULTILINE)


def wanted_names(names: Iterable[str] = ()) -> Names:
    """The names of relevant packages, and ``names``."""
    return Names(probes.PACKAGE_NAMES, tuple(names))


class PackageReader:
    """Reads the package databases of one tree; ``faults`` says what could not be read.

    ``has_unread_rpms`` means that there is an rpm database that only rpm itself can read. ``names`` are relevant
    packages besides those that always are.
    """

    def __init__(self, tree: Tree, names: Iterable[str] = ()) -> None:
        self.tree = tree
        self.faults: dict[str, str] = {}
        self.has_unread_rpms = False
        self._names = tuple(names)

    @cached_property
    def _wanted(self) -> Names:
        return wanted_names(self._names)

    def xbps_names(self) -> tuple[str, ...]:
        """The relevant packages of Void's database: name-version_revision."""
        for path in self.tree.glob(XBPS, limit=1):
            try:
                found = _XBPS.findall(self.tree.read_bytes(path, STATUS_LIMIT))
            except (MissingFileError, UnusableFileError) as exc:
                self.faults[path] = str(exc)
                return ()
            names = (name.decode("utf-8", "replace") for name in found)
            return tuple(sorted(name for name in names if self._wanted.fullmatch(name.rpartition("-")[0])))
        return ()

    def dpkg_status(self) -> str | None:
        """The relevant stanzas, with the relevant fields; None if there is no dpkg."""
        path = "/var/lib/dpkg/status"
        try:
            handle = self.tree.open_stream(path)
        except MissingFileError:
            return self._dpkg_folder()
        except UnusableFileError as exc:
            self.faults[path] = str(exc)
            return None
        try:
            return self._stanzas(handle, path)
        except OSError as exc:
            self.faults[path] = exc.strerror or str(exc)
            return None
        finally:
            os.close(handle)

    def _dpkg_folder(self) -> str | None:
        """The stanzas of images without a shell, which keep one file per package in status.d."""
        paths = self.tree.glob("/var/lib/dpkg/status.d/*", limit=2000)
        return "".join(map(self._stanza_file, paths)) if paths else None

    def _stanza_file(self, path: str) -> str:
        try:
            return self._kept(self.tree.read_bytes(path, STANZA_LIMIT))
        except (MissingFileError, UnusableFileError):
            return ""

    def _stanzas(self, handle: int, path: str) -> str:
        kept: list[str] = []
        rest = b""
        total = 0
        while piece := os.read(handle, PIECE):
            total += len(piece)
            if total > STATUS_LIMIT:
                self.faults[path] = f"is longer than {STATUS_LIMIT} bytes; the rest was not read"
                break
            whole = rest + piece
            stanzas = (whole.replace(b"\r\n", b"\n") if b"\r" in whole else whole).split(b"\n\n")
            rest = stanzas.pop()[:STANZA_LIMIT]
            kept.extend(map(self._kept, stanzas))
        kept.append(self._kept(rest))
        return "".join(kept)

    def _kept(self, stanza: bytes) -> str:
        if stanza.startswith(_FIRST):
            name = stanza[len(_FIRST) : max(0, stanza.find(b"\n"))].rstrip(b" \t")
        else:
            found = _NAME.search(stanza)
            name = found[1] if found is not None else b""
        if not self._wanted.fullmatch(name.decode("ascii", "replace")):
            return ""
        return "\n".join(line.decode("utf-8", "replace") for line in _FIELDS.findall(stanza)) + "\n\n"

    def rpm_lines(self) -> tuple[str, ...]:
        """Name, epoch, version, release, architecture, vendor of the relevant packages, tab-separated."""
        for folder in RPM_FOLDERS:
            path = f"{folder}/rpmdb.sqlite"
            if self.tree.is_file(path):
                return self._sqlite(path)
        for folder in RPM_FOLDERS:
            for name in ("Packages", "Packages.db"):
                if self.tree.is_file(f"{folder}/{name}"):
                    self.faults[f"{folder}/{name}"] = "is an rpm database in a format that only rpm itself reads"
                    self.has_unread_rpms = True
                    return ()
        return ()

    def _sqlite(self, path: str) -> tuple[str, ...]:
        import sqlite3  # noqa: PLC0415 (only hosts with rpm need it)
        from urllib.parse import quote  # noqa: PLC0415

        from gpustack.detect.parse.rpm_header import parse_header  # noqa: PLC0415

        lines: list[str] = []
        address = f"file:{quote(self.tree.root + self.tree.resolve(path))}?mode=ro&immutable=1"
        try:
            base = sqlite3.connect(address, uri=True, timeout=1.0)
        except sqlite3.Error as exc:
            self.faults[path] = f"cannot be opened: {exc}"
            self.has_unread_rpms = True
            return ()
        try:
            query = "SELECT blob FROM Packages WHERE length(blob) < 4000000 LIMIT ?"
            for (blob,) in base.execute(query, (RPM_LIMIT,)):
                header = parse_header(blob) if isinstance(blob, bytes) else None
                if header is not None and self._wanted.fullmatch(header[0]):
                    lines.append("\t".join(header))
        except (sqlite3.Error, MemoryError) as exc:
            self.faults[path] = f"cannot be read: {exc}"
            self.has_unread_rpms = True
        finally:
            base.close()
        return tuple(sorted(lines))
