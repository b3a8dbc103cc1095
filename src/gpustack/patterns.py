"""Regular expressions that are compiled when something is first searched for.

Of about 200 that ``detect`` may ask, a host without logs asks a quarter. Compiling them all is a third of what it
costs (docs/start-up.md).
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


class _Later:
    """Stands for a compiled expression; each method is looked up once."""

    def __init__(self, text: str | bytes, flags: int) -> None:
        self._of = (text, flags)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (whatever re.Pattern has)
        text, flags = self._of
        found = getattr(re.compile(text, flags), name)
        setattr(self, name, found)
        return found


def later(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """The expression; a fault in it shows when it is first asked, which a test does for all of them."""
    return cast("re.Pattern[AnyStr]", _Later(text, flags))
