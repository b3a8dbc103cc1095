"""Every FFmpeg on this machine: those on PATH, those with a folder of their own, and those inside Python wheels."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from gpustack.system.paths import glob
from gpustack.system.run import Runner
from gpustack.verify.ffmpeg import lists

_CONDAS = ("miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba")
_FOLDERS = (
    "usr/local/bin",
    "usr/bin",
    "opt/*/bin",
    "usr/local/ffmpeg*/bin",
    "usr/lib/jellyfin-ffmpeg",
    "usr/share/jellyfin-ffmpeg",
    "snap/bin",
    "home/linuxbrew/.linuxbrew/bin",
    "nix/var/nix/profiles/default/bin",
    "opt/*/envs/*/bin",
    *(f"{home}/{conda}/{below}" for home in ("root", "home/*") for conda in _CONDAS for below in ("bin", "envs/*/bin")),
)
"""Folders of FFmpegs that are not on the PATH. Flatpak's are in its runtimes, which only its own programs can load."""

_ORIGINS = {"/snap/": "snap", "/jellyfin-ffmpeg/": "Jellyfin", "/.linuxbrew/": "Homebrew", "/nix/": "Nix"}
"""The origin of a program by a part of its path. A snap's is a link to the program that starts all snaps."""
_WHEELS = ("imageio_ffmpeg/binaries/ffmpeg*", "ffmpeg/binaries/ffmpeg*", "static_ffmpeg/bin/*/ffmpeg")
_PYTHONS = (
    "usr/lib/python3*/*-packages",
    "usr/local/lib/python3*/*-packages",
    "opt/*/lib/python3*/site-packages",
    "opt/*/.venv/lib/python3*/site-packages",
)


class Location(Struct, frozen=True, kw_only=True):
    """The path of an FFmpeg, and its origin: distribution, own build, wheel, conda, or a path from the user."""

    path: str
    origin: str
    on_path: bool = False


class Program(Struct, frozen=True, kw_only=True):
    """One FFmpeg with what it says about itself. ``error`` says why it would not run; the lists are then empty.

    ``api`` is the NVENC API it was compiled for, "" where that is not known. ``is_run`` is false where its package
    alone identifies it.
    """

    place: Location
    about: lists.About = lists.About()
    encoders: frozenset[str] = frozenset()
    decoders: frozenset[str] = frozenset()
    filters: frozenset[str] = frozenset()
    accelerations: frozenset[str] = frozenset()
    api: str = ""
    error: str = ""
    is_run: bool = True

    @property
    def path(self) -> str:
        return self.place.path

    @property
    def has_nvenc(self) -> bool:
        return any(name.endswith("_nvenc") for name in self.encoders)

    @property
    def has_nvdec(self) -> bool:
        return "cuda" in self.accelerations or any(name.endswith("_cuvid") for name in self.decoders)

    @property
    def called(self) -> str:
        """The program with its version and origin, for a sentence."""
        not_run = "" if self.is_run else ", not run"
        return f"{self.path} ({self.about.word or 'version unknown'}, {self.place.origin}{not_run})"


def find_places(search: str, *, root: Path = Path("/"), pythons: Iterable[str] = ()) -> tuple[Location, ...]:
    """The FFmpegs below ``root``, each file once: those on the PATH ``search`` first, in its order.

    ``pythons`` are further folders of Python packages to look into.
    """
    found: dict[str, Location] = {}

    def take(path: Path, origin: str, *, on_path: bool = False) -> None:
        try:
            state = path.stat()
            key = str(path.resolve())
        except (OSError, RuntimeError):
            return
        if stat.S_ISREG(state.st_mode) and os.access(path, os.X_OK):
            found.setdefault(key, Location(path=str(path), origin=origin, on_path=on_path))

    for path, origin, on_path in _candidates(search, root, pythons):
        take(path, origin, on_path=on_path)
    return tuple(found.values())


def _candidates(search: str, root: Path, pythons: Iterable[str]) -> Iterator[tuple[Path, str, bool]]:
    """Where an FFmpeg may be, its origin if it is, and whether that is on the PATH."""
    for folder in search.split(os.pathsep):
        if folder.startswith("/"):
            path = root / folder.lstrip("/") / "ffmpeg"
            yield path, _origin(path, root), True
    for pattern in _FOLDERS:
        for below in map(Path, glob(pattern, root)):
            yield below / "ffmpeg", _origin(below / "ffmpeg", root), False
    libraries = [path for pattern in _PYTHONS for path in glob(pattern, root)]
    for library in (*libraries, *pythons):
        for pattern in _WHEELS:
            for path in map(Path, glob(pattern, library)):
                yield path, f"wheel {path.relative_to(library).parts[0].replace('_', '-')}", False


def _origin(path: Path, root: Path) -> str:
    real = os.path.realpath(path)
    below = "/" + os.path.relpath(real, os.path.realpath(root))
    asked = "/" + os.path.relpath(path, root)
    known = next((origin for part, origin in _ORIGINS.items() if part in asked or part in below), None)
    if known:
        return known
    if (Path(real).parent.parent / "conda-meta").is_dir():
        return "conda"
    if below.startswith(("/usr/bin/", "/usr/lib/", "/bin/")):
        return "distribution"
    return "own build"


def identify(place: Location, runner: Runner) -> Program:
    """The version and build of the program at ``place``, without its lists."""
    said = runner.run((place.path, "-hide_banner", "-version"), timeout=20)
    if said.code != 0:
        last = (said.err.strip().splitlines() or [""])[-1]
        return Program(place=place, error=said.error or last or f"exit status {said.code}")
    return Program(place=place, about=lists.about(said.out))


def describe(place: Location, runner: Runner) -> Program:
    """The version, build and lists of the program at ``place``."""

    def ask(switch: str) -> str:
        return runner.run((place.path, "-hide_banner", switch), timeout=20).out

    own = identify(place, runner)
    if own.error:
        return own
    return Program(
        place=place,
        about=own.about,
        encoders=lists.codecs(ask("-encoders")),
        decoders=lists.codecs(ask("-decoders")),
        filters=lists.filters(ask("-filters")),
        accelerations=lists.accelerations(ask("-hwaccels")),
        api=_api(place, runner),
    )


def _api(place: Location, runner: Runner) -> str:
    """The NVENC API inside the program, else inside the libavcodec that it loads."""
    from gpustack.verify.ffmpeg.binary import nvenc_api  # noqa: PLC0415 (not needed to name a program)

    for path in (Path(place.path), *_libavcodec(place, runner)):
        try:
            compiled = nvenc_api(path)
        except (OSError, ValueError):
            continue
        if compiled is not None:
            return compiled.api
    return ""


def _libavcodec(place: Location, runner: Runner) -> tuple[Path, ...]:
    listed = runner.run(("ldd", place.path), timeout=10).out
    found = (line.partition("=>")[2].split() for line in listed.splitlines() if "libavcodec" in line)
    return tuple(Path(words[0]) for words in found if words and words[0].startswith("/"))


def choose_program(programs: Iterable[Program]) -> Program | None:
    """The one to test: the first on PATH with NVIDIA support, else any such, else the first that runs."""
    able = [one for one in programs if not one.error]
    gpu = [one for one in able if one.has_nvenc or one.has_nvdec]
    first = next((one for one in gpu if one.place.on_path), None)
    return first or next(iter(gpu), None) or next(iter(able), None)
