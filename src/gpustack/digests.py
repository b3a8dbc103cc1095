"""Digests of short texts by Python's own code: hashlib loads OpenSSL (docs/start-up.md has the figure)."""

from __future__ import annotations

import sys


def sha256_hex(data: bytes) -> str:
    """The SHA-256 of ``data`` in hexadecimal digits. Files are digested by `gpustack.system.hashed`."""
    # ruff: noqa: PLC0415 (the module that holds it differs between releases of Python, and a build may lack it)
    try:
        if sys.version_info >= (3, 12):
            from _sha2 import sha256
        else:
            from _sha256 import sha256  # type: ignore[import-not-found]
    except ImportError:
        from hashlib import sha256
    return str(sha256(data).hexdigest())
