"""Digests of short texts by Python's own code: hashlib loads OpenSSL, which takes longer than all of them together."""

# ruff: noqa: PLC0415 (the modules that hold them differ between releases of Python, and may be missing from a build)

from __future__ import annotations

import sys


def sha256_hex(data: bytes) -> str:
    """The SHA-256 of ``data`` in hexadecimal digits. Files are digested by `gpustack.system.hashed`."""
    try:
        if sys.version_info >= (3, 12):
            from _sha2 import sha256
        else:
            from _sha256 import sha256  # type: ignore[import-not-found]
    except ImportError:
        from hashlib import sha256
    return str(sha256(data).hexdigest())


def sha1_hex(data: bytes) -> str:
    """The SHA-1 of ``data`` in hexadecimal digits, for formats that ask for it."""
    try:
        from _sha1 import sha1  # type: ignore[import-not-found]
    except ImportError:
        from hashlib import sha1
    return str(sha1(data, usedforsecurity=False).hexdigest())
