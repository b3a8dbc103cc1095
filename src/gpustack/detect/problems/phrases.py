"""Phrases of failures, and what each means for a GPU stack: rows of the facts."""

import re
from collections.abc import Iterator

from msgspec import Struct

from gpustack.detect.scene import Scene
from gpustack.patterns import later

_OPTION = later(
    r"(?i)(?:unknown|unrecognized|invalid) (?:flag|option|shorthand flag)[: ]+'?\\?\"?(?P<name>-{0,2}[\w-]+)"
)

_GENERAL = {"any", "system"}
"""Kinds of phrases that programs of all kinds write."""


class Cause(Struct, frozen=True, kw_only=True):
    """What the line says, what to do, and whether this host shows it too (``sure``).

    ``general``: what the name of an error or a common phrase means everywhere, and not what this program says.
    ``row`` is the kind and the id of the row of phrases that says so.
    ``unless``: texts that stand near the line where another one tells its cause.
    """

    says: str
    fix: str
    sure: bool = False
    row: str = ""
    general: bool = False
    unless: tuple[str, ...] = ()
    src: tuple[str, ...] = ()


class Phrase(Struct, frozen=True, kw_only=True):
    """A row of the phrases: the groups of ``like`` stand in ``says`` and ``fix``.

    ``symptom``: several failures end with this line, of which the log may name the one.
    ``unless``: texts of the log that tell more than the line.
    ``words``, in lower case: every line that ``like`` finds holds one of them; () where that is not known.
    """

    id: str
    of: str
    like: str
    says: str
    fix: str
    order: int = 0
    sure: bool = False
    symptom: bool = False
    unless: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    src: tuple[str, ...] = ()


def said(scene: Scene, of: str, line: str) -> Cause | None:
    """The cause by the first phrase of this kind that the line has; of equal order by the one that finds most of it."""
    found = [(match, row) for row in _near(scene, of, line) if (match := re.search(row.like, line))]
    if not found:
        return None
    match, row = min(found, key=lambda one: (one[1].order, -len(one[0][0])))
    words = {name: word or "" for name, word in match.groupdict().items()}
    general = row.symptom or of in _GENERAL
    told = f"{row.of}/{row.id}"
    says, fix = row.says.format(**words), row.fix.format(**words)
    return Cause(says=says, fix=fix, sure=row.sure, row=told, general=general, unless=row.unless, src=row.src)


def _near(scene: Scene, of: str, text: str) -> Iterator[Phrase]:
    """The phrases of this kind of whose words the text has one: few, and only their expressions are compiled."""
    folded = text.lower()
    rows = scene.matrix.rows("log-lines", "phrases", Phrase)
    return (row for row in rows if row.of == of and (not row.words or any(word in folded for word in row.words)))


def may_state(scene: Scene, text: str) -> bool:
    """Whether a line of this text may be a message that `stated` knows."""
    return any(True for _ in _near(scene, "message", text))


def graphical(scene: Scene, line: str) -> Cause | None:
    """What a failure of a desktop or a graphics program means."""
    return said(scene, "graphics", line)


def stated(scene: Scene, line: str) -> Cause | None:
    """What a program's own message says, before a file or error in it is judged."""
    return said(scene, "message", line)


def transaction(scene: Scene, line: str) -> Cause | None:
    """What package managers, installers and programs report when a part was not installed, or is not found."""
    return said(scene, "install", line)


def system(scene: Scene, line: str) -> Cause | None:
    """What an error of the system means."""
    return said(scene, "system", line)


def plain(scene: Scene, line: str) -> Cause | None:
    """What the phrase of a failure in the line means."""
    option = _OPTION.search(line)
    if option is not None:
        return Cause(
            says=f"a program does not know the option {option['name']}: it is older or newer than its configuration",
            fix="compare the versions of the program and of what starts it; remove or rename the option",
        )
    return said(scene, "any", line)
