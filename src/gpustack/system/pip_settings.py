"""The package index that the user's pip is set to, read from the places that pip reads, in its order."""

from __future__ import annotations

import configparser
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

_SECTIONS = ("global", "install")
"""The sections that `pip install` reads; the later one wins, whatever the file."""

_INDEX = re.compile(r"(?:https?|file)://[^\s\"'\\<>]+")
_LOGIN = re.compile(r"(?<=://)[^/@]*@")

Read = Callable[[Path], str]
"""Reads a file as text. Raises OSError or UnicodeDecodeError."""


def read_text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def default_index(environment: Mapping[str, str], home: Path, read: Read = read_text) -> str:
    """The address of the index in place of pip's default, without name and password; "" if none is set."""
    given = environment.get("PIP_INDEX_URL", "").strip()
    return address_of(given or _configured(environment, home, read))


def address_of(text: str) -> str:
    """An address of an index without name and password; "" for what is none."""
    plain = _LOGIN.sub("", text.strip())
    return plain.rstrip("/") if _INDEX.fullmatch(plain) else ""


def has_login(text: str) -> bool:
    """Whether an address has a name or a password in it."""
    return _LOGIN.search(text) is not None


def _configured(environment: Mapping[str, str], home: Path, read: Read) -> str:
    found: dict[str, str] = {}
    for text in _texts(environment, home, read):
        entries = configparser.RawConfigParser(strict=False)
        try:
            entries.read_string(text)
        except configparser.Error:
            continue  # as a pip that reads none of it
        for section in _SECTIONS:
            names = dict(entries.items(section)) if entries.has_section(section) else {}
            for name, value in names.items():
                if name.replace("_", "-").lstrip("-") == "index-url":
                    found[section] = value
    return next((found[section] for section in reversed(_SECTIONS) if section in found), "")


def _texts(environment: Mapping[str, str], home: Path, read: Read) -> Iterator[str]:
    """Pip's files, the last of which wins: system, user, virtual environment, the one that a variable names.

    That one replaces the user's, and the null device in its place all of them.
    """

    def texts(*paths: Path) -> Iterator[str]:
        for path in paths:
            with suppress(OSError, UnicodeDecodeError):
                yield read(path)

    named = environment.get("PIP_CONFIG_FILE", "")
    if named == os.devnull:
        return
    own = [*texts(Path(named))] if named else []
    folders = environment.get("XDG_CONFIG_DIRS", "/etc/xdg").split(":")
    yield from texts(*(Path(folder, "pip", "pip.conf") for folder in folders if folder), Path("/etc/pip.conf"))
    if not own:
        settings = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
        yield from texts(home / ".pip" / "pip.conf", settings / "pip" / "pip.conf")
    if environment.get("VIRTUAL_ENV"):
        yield from texts(Path(environment["VIRTUAL_ENV"]) / "pip.conf")
    yield from own
