"""The tree to install into: this machine, or a folder entered by chroot. Links never lead out of it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from gpustack.errors import GpustackError
from gpustack.install.changes.names import native

_MOST_LINKS = 40


class InstallRoot(Struct, frozen=True):
    """``root`` None is this machine."""

    root: Path | None = None

    @property
    def is_live(self) -> bool:
        """Whether it is the running system."""
        return self.root is None

    def place(self, path: str) -> Path:
        """The path on this machine of ``path`` in the tree; a link in the last place is not followed.

        Here and in ``followed`` names are in the form of ``names.safe``.
        """
        path = native(path)
        if self.root is None:
            return Path(path)
        folder, _, name = os.path.normpath(path).rpartition("/")
        return self._resolved(folder) / name if name else self._resolved(folder)

    def places(self, paths: Iterable[str]) -> dict[str, str]:
        """The same for many paths: each folder is resolved once."""
        folders: dict[str, str] = {}
        found = {}
        for path in paths:
            folder, _, name = path.rpartition("/")
            if folder not in folders:
                folders[folder] = str(self.followed(folder or "/"))
            found[path] = f"{folders[folder]}/{native(name)}"
        return found

    def followed(self, path: str) -> Path:
        """The path on this machine of ``path`` in the tree, with links followed inside the tree."""
        return Path(native(path)) if self.root is None else self._resolved(native(path))

    def _resolved(self, path: str) -> Path:
        root = str(self.root)
        todo = [name for name in reversed(path.split("/")) if name not in {"", "."}]
        done: list[str] = []
        links = 0
        while todo:
            name = todo.pop()
            if name == "..":
                done = done[:-1]
                continue
            here = "/".join((root, *done, name))
            try:
                link = os.readlink(here)  # noqa: PTH115 (plain text: this runs for every part of every path)
            except OSError:
                done.append(name)
                continue
            links += 1
            if links > _MOST_LINKS:
                msg = "too many levels of symbolic links"
                raise GpustackError(msg, code="unsafe-path", where=path)
            done = [] if link.startswith("/") else done
            todo += [part for part in reversed(link.split("/")) if part not in {"", "."}]
        return Path("/".join((root, *done)))
