"""Digests by Python's own code are those of hashlib."""

from __future__ import annotations

import hashlib

import pytest

from gpustack.digests import sha1_hex, sha256_hex


@pytest.mark.parametrize("data", [b"", b"abc", bytes(range(256)) * 700])
def test_they_are_those_of_hashlib(data: bytes) -> None:
    assert sha256_hex(data) == hashlib.sha256(data).hexdigest()
    assert sha1_hex(data) == hashlib.sha1(data, usedforsecurity=False).hexdigest()
