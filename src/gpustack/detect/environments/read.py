"""Reads Python environments from files: no package is imported and no interpreter runs."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gpustack.detect.environments import names
from gpustack.detect.tree import MissingFileError, Tree, UnusableFileError

if TYPE_CHECKING:
    from gpustack.detect.environments.elf import Content

FIELDS = ("Name", "Version", "Requires-Python", "Requires-Dist")
"""The fields of METADATA that are kept; of Requires-Dist those that name a distribution that matters."""

FOLDER = rf"(?i:{names.DISTRIBUTIONS}|{names.REMOVED})-[\w.+!]+\.dist-info"
"""The folder of a distribution that matters."""

_REQUIRED = rf"(?i:{names.DISTRIBUTIONS})(?![\w-])"


class EnvironmentReader:
    """Reads one tree; what is found is added to ``files``, ``listings`` and ``marks``."""

    def __init__(
        self,
        tree: Tree,
        files: dict[str, str],
        listings: dict[str, tuple[str, ...]],
        marks: dict[str, str],
    ) -> None:
        self.tree = tree
        self.files = files
        self.listings = listings
        self.marks = marks

    def read(self, folders: Iterable[str]) -> tuple[str, ...]:
        """Every environment of ``folders`` (of packages) and the usual places; the folders with something in them."""
        named = (f"{prefix}/lib/python3*/site-packages" for prefix in self._declared())
        patterns = (*names.PLACES, *named)
        usual = (path for pattern in patterns for path in self.tree.glob(pattern, limit=names.MAX_ENVIRONMENTS))
        seen: set[str] = set()
        found: list[str] = []
        for place in (*folders, *usual):
            try:
                real = self.tree.resolve(place)
                here = () if real in seen else self.tree.listing(place) or ()
            except (MissingFileError, UnusableFileError):  # an environment of somebody else
                continue
            seen.add(real)
            mine = distributions(here)
            if len(found) < names.MAX_ENVIRONMENTS and (mine or self._conda(place)):
                found.append(place)
                self.listings[place] = mine[: names.MAX_DISTRIBUTIONS]
                self._environment(place)
        return tuple(found)

    def _declared(self) -> Iterator[str]:
        """The environments that Jupyter's kernels start, and that conda lists."""
        for path in (path for pattern in names.KERNELS for path in self.tree.glob(pattern, limit=50)):
            started = re.search(r'"argv"\s*:\s*\[\s*"(/[^"*?\[\\]+)/bin/[^"/]+"', self._text(path))
            if started is not None:
                yield started[1]
        for path in (path for pattern in names.CONDA_LISTS for path in self.tree.glob(pattern, limit=50)):
            yield from re.findall(r"(?m)^(/[^*?\[\n]+)$", self._text(path))[: names.MAX_ENVIRONMENTS]

    def _text(self, path: str) -> str:
        try:
            return self.tree.read_text(path, names.TEXT_LIMIT)
        except (MissingFileError, UnusableFileError):
            return ""

    def _conda(self, place: str) -> bool:
        """Whether conda installed something that matters into the environment of a folder of packages."""
        folder = f"{prefix_of(place)}/conda-meta"
        try:
            kept = tuple(name for name in self.tree.listing(folder) or () if re.fullmatch(names.CONDA, name))
        except UnusableFileError:
            return False
        if kept:
            self.listings[folder] = kept[: names.MAX_DISTRIBUTIONS]
        return bool(kept)

    def _environment(self, place: str) -> None:
        for name in self.listings[place]:
            self._metadata(f"{place}/{name}/METADATA")
        for path in (f"{prefix_of(place)}/pyvenv.cfg", *(f"{place}/{name}" for name in names.TEXTS)):
            with contextlib.suppress(MissingFileError, UnusableFileError):
                self.files[path] = self.tree.read_text(path, names.TEXT_LIMIT)
        for pattern in names.LIBRARIES:
            for path in self.tree.glob(f"{place}/{pattern}", limit=4):
                self._library(path)
        for path in self.tree.glob(f"{place}/{names.CODECS}", limit=1):
            self._codecs(path)

    def _metadata(self, path: str) -> None:
        try:
            text = self._head(path, names.METADATA_LIMIT).decode("utf-8", "replace")
        except UnusableFileError as exc:
            self.marks[path] = str(exc)
            return
        except MissingFileError:
            text = ""
        if not text.strip():
            # A tree with names alone proves nothing; a real installation has a RECORD.
            if self.tree.exists(f"{path.removesuffix('METADATA')}RECORD"):
                self.marks[path] = "is missing or empty"
            return
        self.files[path] = kept_fields(text)

    def _head(self, path: str, limit: int) -> bytes:
        handle = self.tree.open_stream(path)
        try:
            return os.read(handle, limit)
        except OSError as exc:
            raise UnusableFileError(exc.strerror or str(exc)) from exc
        finally:
            os.close(handle)

    def _library(self, path: str) -> None:
        from gpustack.detect.environments.elf import read_library  # noqa: PLC0415 (hosts without frameworks)

        try:
            handle = self.tree.open_stream(path)
        except (MissingFileError, UnusableFileError, OSError):
            return
        try:
            content = read_library(handle)
        finally:
            os.close(handle)
        if content is not None:
            self.marks[path] = _as_mark(content)

    def _codecs(self, path: str) -> None:
        """Whether PyAV's own libavcodec has decoders of NVDEC."""
        try:
            handle = self.tree.open_stream(path)
        except (MissingFileError, UnusableFileError, OSError):
            return
        try:
            self.marks[path] = "cuvid" if _contains(handle, names.DECODER, names.CODEC_LIMIT) else "no cuvid"
        except OSError:
            return
        finally:
            os.close(handle)


def kept_fields(text: str) -> str:
    """The fields of a METADATA file that matter, one in each line."""
    head = re.split(r"\r?\n\r?\n", text, maxsplit=1)[0]
    fields = (line.partition(":") for line in head.splitlines())
    kept = [
        f"{name}: {value.strip()}"
        for name, _, value in fields
        if name in FIELDS and (name != "Requires-Dist" or re.match(_REQUIRED, value.strip().replace("-", "_")))
    ]
    return "".join(f"{line}\n" for line in kept)


def distributions(here: tuple[str, ...]) -> tuple[str, ...]:
    """The dist-infos that matter among the names in a folder of packages; none where only common ones do."""
    likely = [name for name in here if name.endswith(".dist-info") and name.lower().startswith(names.STARTS)]
    if all(name.partition("-")[0] in names.COMMON for name in likely):
        return ()
    return tuple(name for name in likely if re.fullmatch(FOLDER, name))


def prefix_of(place: str) -> str:
    """The prefix of a folder of packages: /opt/venv of /opt/venv/lib/python3.12/site-packages."""
    return re.sub(r"/(?:lib|lib64)/python3[\w.]*/(?:site|dist)-packages$", "", place)


def _as_mark(content: Content) -> str:
    parts = {
        "needs": content.needed,
        "sm": tuple(map(str, content.sm)),
        "ptx": tuple(map(str, content.ptx)),
    }
    return "; ".join(f"{name} {','.join(values)}" for name, values in parts.items() if values)


def _contains(handle: int, word: bytes, limit: int) -> bool:
    """Whether ``word`` is in the first ``limit`` bytes."""
    rest, left = b"", limit
    while left > 0 and (piece := os.read(handle, 1 << 20)):
        if word in rest + piece:
            return True
        rest, left = piece[-len(word) :], left - len(piece)
    return False
