"""Processor architectures and their names in the kernel, repositories, archives and images, and among people."""

from __future__ import annotations

from msgspec import Struct


class Architecture(Struct, frozen=True, kw_only=True):
    """One architecture. ``name`` is what ``uname -m`` prints.

    ``words`` are further names in package databases and kernels, ``nicknames`` those that people use. ``folders``
    are those of NVIDIA's repositories for servers, ``boards`` those for Jetsons, ``retired`` those that only a
    withdrawn key signs: a host may have one, no plan takes it. ``archives`` is the word in the platform of an archive
    for Linux ("linux-sbsa"), ``windows`` the one for Windows, ``deb`` Debian's name, and ``image`` the platform of
    container images, "" where no image is rendered for it.
    """

    name: str
    words: tuple[str, ...]
    folders: tuple[str, ...]
    archives: str
    windows: str
    deb: str
    image: str = ""
    boards: tuple[str, ...] = ()
    retired: tuple[str, ...] = ()
    nicknames: tuple[str, ...] = ()


ARCHITECTURES = (
    Architecture(
        name="x86_64",
        words=("amd64",),
        folders=("x86_64",),
        archives="x86_64",
        windows="x86_64",
        deb="amd64",
        image="linux/amd64",
        nicknames=("x64",),
    ),
    Architecture(
        name="aarch64",
        words=("arm64",),
        folders=("sbsa",),
        archives="sbsa",
        windows="arm64",
        deb="arm64",
        image="linux/arm64",
        boards=("arm64", "aarch64"),
        nicknames=("sbsa",),
    ),
    Architecture(
        name="ppc64le",
        words=("ppc64el",),
        folders=("ppc64le",),
        retired=("ppc64el",),
        archives="ppc64le",
        windows="ppc64le",
        deb="ppc64el",
    ),
)
"""Every architecture that NVIDIA's software exists for."""

_BY_WORD = {
    word: one for one in ARCHITECTURES for word in (one.name, *one.words, *one.folders, *one.boards, *one.nicknames)
}


def architecture(word: str | None) -> Architecture | None:
    """The architecture with this name in any vocabulary; None if unknown."""
    return _BY_WORD.get(word or "")


def debian_name(word: str, default: str = "") -> str:
    """Debian's name for an architecture, ``default`` if the name is unknown."""
    found = architecture(word)
    return found.deb if found is not None else default
