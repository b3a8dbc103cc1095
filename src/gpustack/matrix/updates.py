"""The facts in use: those of the installation, or a later update that ``gpustack matrix update`` installed.

A folder of updates holds ``generations/NUMBER``, each compiled as a wheel has them, and a link ``current`` to one of
them, which is replaced as a whole: a process sees the facts before or after an update. ``feed`` writes
them.
"""

from __future__ import annotations

import fcntl
import os
import re
from contextlib import suppress
from pathlib import Path

from gpustack.matrix.owned import is_owned
from gpustack.matrix.store import Store, open_store, read_index

SYSTEM = Path("/var/lib/gpustack/facts")
"""The updates of root, which all users read."""
VARIABLE = "GPUSTACK_FACTS"
"""The environment variable that names another folder of updates."""
GENERATIONS = "generations"
CURRENT = "current"
SITE = "site"
"""The folder of the overlay with what the package repositories of this host offer."""
_HELD: dict[Path, int] = {}
"""The generations that this process reads, open and locked: an update removes none of them."""


def own_folder() -> Path:
    """The folder of updates that this user writes."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    if os.geteuid() == 0:
        return SYSTEM
    home = os.environ.get("XDG_DATA_HOME", "")
    # os.path: no error without a home
    base = home if home.startswith("/") else os.path.expanduser("~/.local/share")  # noqa: PTH111
    return Path(base) / "gpustack" / "facts"


def folders() -> tuple[Path, ...]:
    """The folders of updates that are read, this user's own first. What another user may have written is not read."""
    named = (own_folder(),) if os.environ.get(VARIABLE) else tuple(dict.fromkeys((own_folder(), SYSTEM)))
    return tuple(folder for folder in named if is_owned(folder))


def newest_store() -> tuple[Store, Path | None]:
    """The latest facts, and the generation that they are read from (None: the installation's own).

    Raises MatrixError (exit 2) if an installation lacks its own.
    """
    found, origin = open_store(), None
    for folder in folders():
        generation = current(folder)
        index = read_index(generation) if generation is not None and _hold(generation) else None
        if index is not None and index.date > found.index.date:
            found, origin = Store(index, generation, {}), generation
    return found, origin


def current(folder: Path) -> Path | None:
    """The generation in use of a folder of updates; None without one."""
    try:
        target = os.readlink(folder / CURRENT)  # noqa: PTH115 (compared as text)
    except OSError:
        return None
    if not re.fullmatch(rf"{GENERATIONS}/[0-9]+", target) or not is_owned(folder / GENERATIONS):
        return None
    generation = folder / target
    return generation if is_owned(generation) else None


def site_overlays() -> tuple[Path, ...]:
    """The overlays with what the package repositories of this host offer."""
    return tuple(place for folder in folders() if is_owned(place := folder / SITE))[:1]


def _hold(generation: Path) -> bool:
    """Keep an update of another process from removing a generation while this one reads it."""
    if generation in _HELD:
        return True
    with suppress(OSError):
        descriptor = os.open(generation, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return False
        _HELD[generation] = descriptor
        return True
    return False
