"""The address of the package index that this machine's pip uses: it is named in no file of the project."""

from __future__ import annotations

import os
import re
import subprocess
import sys

_DEFAULT = re.compile(r"--index-url <url> .*?\(default (\S+)\)")


def index_address() -> str:
    """The simple index of pip's configuration, without a slash at its end; pip's own default where none is set."""
    address = os.environ.get("PIP_INDEX_URL") or _pip("config", "get", "global.index-url") or _default()
    return address.strip().rstrip("/")


def _default() -> str:
    """The default that pip's help names. Raises OSError if it names none."""
    found = _DEFAULT.search(" ".join(_pip("download", "--help").split()))
    if found is None:
        msg = "pip names no package index: set PIP_INDEX_URL to the address of a simple index"
        raise OSError(msg)
    return found[1]


def _pip(*words: str) -> str:
    """What pip prints, in lines that are not broken; "" where it fails."""
    command = [sys.executable, "-m", "pip", *words]
    wide = {**os.environ, "COLUMNS": "1000", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    return subprocess.run(command, env=wide, capture_output=True, text=True, check=False).stdout
