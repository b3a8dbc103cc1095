"""Whose files are trusted: facts decide what is installed as root."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def is_owned(folder: Path) -> bool:
    """Whether it is a folder, not a link, that only root and this user can have written in."""
    try:
        found = folder.lstat()
    except (OSError, ValueError):
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid in {0, os.geteuid()} and not found.st_mode & 0o022
