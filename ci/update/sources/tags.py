"""Tags of git repositories, as their servers list them over HTTPS (info/refs): releases that exist.

A tag is a release and its commit, and nothing about what the release requires.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from update.form import numbers, text_of
from update.record import Body, Found, Given, Row, refuse

HAND_OUT = "REPOSITORY.git/info/refs?service=git-upload-pack"


class Repository(NamedTuple):
    """Whose releases the tags are; ``tag`` has the version as its group, ``src`` is the key of the source."""

    component: str
    tag: str
    src: str
    first: str
    has_commits: bool = False
    """Whether the facts name the commit of each tag."""


REPOSITORIES = {
    "FFmpeg/nv-codec-headers": Repository("nv-codec-headers", r"n(\d+\.\d+\.\d+\.\d+)", "nvh", "8", has_commits=True),
    "FFmpeg/FFmpeg": Repository("ffmpeg", r"n(\d+\.\d+(?:\.\d+)?)", "fftags", "3.4", has_commits=True),
    "NVIDIA/nvidia-container-toolkit": Repository("container-toolkit", r"v(\d+\.\d+\.\d+)", "tags", "1.0.5"),
    "NVIDIA/nccl": Repository("nccl", r"v(\d+\.\d+\.\d+)-1", "git", "2.2"),
}
"""Triton's tags count the server, its releases the months of its container: tags do not name those."""

_ADDRESS = re.compile(r"https://github\.com/([\w.-]+/[\w.-]+)\.git/info/refs\?service=git-upload-pack")
_LINE = re.compile(r"([0-9a-f]{40}) (HEAD|refs/[\x21-\x7e]+)(?:\x00.*)?", re.DOTALL)
_LENGTH = re.compile(r"[0-9a-f]{4}")


def rows(bodies: Sequence[Body]) -> Given:
    """The releases that the tags name."""
    return of_repositories(bodies, _ADDRESS, REPOSITORIES, _releases)


def of_repositories(
    bodies: Sequence[Body],
    address: re.Pattern[str],
    known: Mapping[str, Repository],
    releases: Callable[[Body, Repository], Iterable[Row]],
) -> Given:
    """The releases of these bodies, each the tags of the known repository that its address names."""
    found: list[Found] = []
    for body in bodies:
        match = address.fullmatch(body.address)
        if match is None or match[1] not in known:
            raise refuse(body.address, "is not the list of tags of a known repository")
        about = known[match[1]]
        found += [Found(about.component, "releases", row) for row in releases(body, about)]
    return Given(tuple(found))


def _releases(body: Body, about: Repository) -> Iterator[Row]:
    commits: dict[str, str] = {}
    for line in _lines(body):
        known = _LINE.fullmatch(line)
        if known is None:
            raise refuse(body.address, f"has the line {line[:80]!r}")
        if known[2].startswith("refs/tags/"):
            # The commit of an annotated tag follows it, under the same name with ^{}.
            commits[known[2].removeprefix("refs/tags/").removesuffix("^{}")] = known[1]
    oldest = numbers(about.first)
    for tag, commit in commits.items():
        named = re.fullmatch(about.tag, tag)
        if named and numbers(named[1]) >= oldest:
            more = {"tag": tag, "commit": commit} if about.has_commits else {}
            yield {"version": named[1], **more, "src": [about.src]}


def _lines(body: Body) -> Iterator[str]:
    """The packets of the answer: each has its length in four hexadecimal digits; 0000 ends a group of them."""
    text, place = text_of(body), 0
    if not text.startswith("001e# service=git-upload-pack\n0000") or not text.endswith("0000"):
        raise refuse(body.address, "is not the whole list of a git server")
    place = 34
    while place < len(text) - 4:
        length = text[place : place + 4]
        size = int(length, 16) if _LENGTH.fullmatch(length) else 0
        if size < 5 or place + size > len(text) - 4:
            raise refuse(body.address, f"has a packet of the length {length!r}")
        yield text[place + 4 : place + size].removesuffix("\n")
        place += size


def packets(lines: Sequence[str]) -> bytes:
    """A list of tags in the form of a git server, for recording one from a copy of a repository."""
    parts = [f"{len(line) + 5:04x}{line}\n" for line in lines]
    return ("001e# service=git-upload-pack\n0000" + "".join(parts) + "0000").encode()
