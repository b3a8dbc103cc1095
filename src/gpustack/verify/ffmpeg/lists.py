"""Reads what an FFmpeg program reports about itself: version, configuration, and the lists of its parts."""

from __future__ import annotations

import re

from msgspec import Struct

_VERSION = re.compile(r"^ffmpeg version (?P<word>\S+)", re.MULTILINE)
_RELEASE = re.compile(r"^n?(\d+\.\d+(?:\.\d+)*)")
_CONFIGURATION = re.compile(r"^\s*configuration: (.*)$", re.MULTILINE)
_LIBAVCODEC = re.compile(r"^\s*libavcodec\s+(\d+)\.", re.MULTILINE)
_CODEC = re.compile(r"^ [ASV.][F.][S.][X.][B.][D.] (\S+)", re.MULTILINE)
# Releases before 7.1 mark filters with three letters (T, S, C), later ones with two.
_FILTER = re.compile(r"^ [T.][S.][C.]? (\S+)\s+\S+->\S+", re.MULTILINE)
RELEASE_OF_LIBAVCODEC = {57: "3", 58: "4", 59: "5", 60: "6", 61: "7", 62: "8", 63: "9"}
"""The major release of FFmpeg that a libavcodec belongs to: builds of a branch's head print no release number."""


class About(Struct, frozen=True, kw_only=True):
    """What ``ffmpeg -version`` reports. ``version`` is the release's numbers, "" without one; ``word`` as printed.

    ``major`` is the release's first number, by libavcodec where the program was not built from a release; 0 unknown.
    """

    word: str = ""
    version: str = ""
    major: int = 0
    options: tuple[str, ...] = ()

    def is_before(self, major: int, minor: int = 0) -> bool:
        """Whether this is an older release than ``major.minor``; a program of unknown release counts as newer."""
        if not self.major:
            return False
        numbers = tuple(int(part) for part in self.version.split(".")) if self.version else (self.major, 99)
        return numbers < (major, minor)

    @property
    def every_frame(self) -> tuple[str, ...]:
        """The options that keep every frame once: none is dropped or repeated to keep a frame rate."""
        return ("-vsync", "0") if self.is_before(5, 1) else ("-fps_mode", "passthrough")


def about(text: str) -> About:
    """Read the output of ``ffmpeg -version``."""
    word = _VERSION.search(text)
    release = _RELEASE.match(word["word"]) if word else None
    configuration = _CONFIGURATION.search(text)
    library = _LIBAVCODEC.search(text)
    major = RELEASE_OF_LIBAVCODEC.get(int(library[1]), "0") if library else "0"
    return About(
        word=word["word"] if word else "",
        version=release[1] if release else "",
        major=int(release[1].partition(".")[0]) if release else int(major),
        options=tuple(configuration[1].split()) if configuration else (),
    )


def codecs(text: str) -> frozenset[str]:
    """The names in the output of ``ffmpeg -encoders`` or ``ffmpeg -decoders``."""
    _, ruled, listed = text.partition("------")
    return frozenset(_CODEC.findall(listed)) if ruled else frozenset()


def filters(text: str) -> frozenset[str]:
    """The names in the output of ``ffmpeg -filters``."""
    return frozenset(_FILTER.findall(text))


def accelerations(text: str) -> frozenset[str]:
    """The names in the output of ``ffmpeg -hwaccels``."""
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("Hardware acceleration methods"):
            return frozenset(name for rest in lines if (name := rest.strip()))
    return frozenset()
