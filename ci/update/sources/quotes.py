"""Sums of files that others quote: recipes, lock files, scripts and notes. They confirm rows and add none.

A line or a paragraph names one file and its sum; what names files in other ways has a form in ``quote_forms``.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence

from update.form import text_of
from update.record import Body, FileSum, Given, refuse
from update.sources import quote_forms
from update.sources.index import wheels_of

HAND_OUT = "the lines that name a file and its sum, a blank line between places"
_WORD = re.compile(r"[^\s\"'`|,;<>(){}=#]+")
_FILE = re.compile(r"[A-Za-z0-9][\w.+-]{0,200}\.(?:tar\.(?:gz|xz|zst)|tgz|zip|whl|run|exe|deb|rpm|pub)")
_DEBIAN = re.compile(r"([a-z0-9+-]+)_([\d.]+)\.orig(\.tar\.\w+)")
_FINGERPRINT = re.compile(r"\b[0-9A-F]{32}([0-9A-F]{8})\b")
_SUM = re.compile(r"(?<![0-9a-zA-Z])(?:[0-9a-f]{64}|[0-9a-f]{32})(?![0-9a-zA-Z])|sha256-[A-Za-z0-9+/]{43}=")
_PARAGRAPHS = re.compile(r"\n[ \t]*\}?[ \t]*\n")
_NO_VERSION = "sed '/^Version/d'"
"""What takes the line with the version out of a key before its sum is made."""


def rows(bodies: Sequence[Body]) -> Given:
    """The sum of every file that a body names."""
    return Given((), sums=tuple(dict.fromkeys(one for body in bodies for one in _sums(body))))


def _sums(body: Body) -> Iterator[FileSum]:
    if re.fullmatch(r".*/simple/[a-z0-9-]+/", body.address):
        yield from (FileSum(one.file, "sha256", one.sha256) for one in wheels_of(body))
        return
    read = next((form for pattern, form in quote_forms.FORMS.items() if re.search(pattern, body.address)), None)
    found = list(read(body) if read else _paired(body))
    if not found:
        raise refuse(body.address, "quotes the sum of no file")
    for file, quoted in found:
        digest = base64.b64decode(quoted[7:]).hex() if quoted.startswith("sha256-") else quoted
        without = _NO_VERSION in text_of(body)
        yield FileSum(
            file, "md5" if len(digest) == 32 else f"sha256{'_without_version_line' if without else ''}", digest
        )


def _paired(body: Body) -> Iterator[tuple[str, str]]:
    for paragraph in _PARAGRAPHS.split(text_of(body)):
        lines = [line for line in paragraph.splitlines() if _SUM.search(line)]
        for part in lines if all(map(_file, lines)) else [paragraph]:
            sums = set(_SUM.findall(part))
            if not sums:
                continue
            file = _file(part)
            if not file or len(sums) != len(set(map(len, sums))):
                raise refuse(body.address, f"has sums of which it is not clear whose they are: {part[:150]!r}")
            yield from ((file, one) for one in sums)


def _file(text: str) -> str:
    """The one file that a text names, by its address if it has one; "" for none or several."""
    named: dict[str, str] = {}
    for word in sorted(_WORD.findall(_FINGERPRINT.sub(r"\1.pub", text))):
        home, _, name = word.rstrip(".:").rpartition("/")
        if _FILE.fullmatch(name) and any(map(str.isdigit, name)):
            name = _DEBIAN.sub(r"\1-\2\3", name)
            named[name] = f"{home}/{name}" if home.startswith("http") else name
    return next(iter(named.values())) if len(named) == 1 else ""
