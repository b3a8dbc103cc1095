"""What several checks of one run find out once: which nvcc is taken, which cuDNN loads, what a built program said."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

T = TypeVar("T")


class Shared:
    """Answers by name, each worked out by the first check that asks, while others that ask for it wait."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._answers: dict[str, Any] = {}

    def once(self, name: str, make: Callable[[], T]) -> T:
        """The answer called ``name``, made by ``make`` if there is none yet. What ``make`` raises is not kept."""
        with self._lock:
            own = self._locks.setdefault(name, threading.Lock())
        with own:
            if name not in self._answers:
                self._answers[name] = make()
            return cast("T", self._answers[name])
