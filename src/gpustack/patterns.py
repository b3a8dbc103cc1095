"""Regular expressions that are compiled when they are first used: a run needs few of all that its modules hold."""

from __future__ import annotations

import re
from typing import AnyStr, cast


def late(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """The same as ``re.compile``, done at the first use: a fault in ``text`` shows there."""
    return cast("re.Pattern[AnyStr]", _Late(text, flags))


class _Late:
    """Stands in for a compiled pattern; each of its methods is looked up there once."""

    def __init__(self, text: str | bytes, flags: int) -> None:
        self._text = text
        self._flags = flags

    def __getattr__(self, name: str) -> object:
        found = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, found)
        return found
