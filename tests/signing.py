"""Certificates, signed kernel modules and the firmware's lists of keys, as bytes: what a test host has of them."""

from __future__ import annotations

import hashlib
import uuid

X509 = uuid.UUID("a5c059a1-94e4-4aa7-87b5-ab155c2bf072").bytes_le
SHIM = "605dab50-e046-4300-abb6-3dd810dd8b23"
GLOBAL = "8be4df61-93ca-11d2-aa0d-00e098032b8c"
RSA, SHA256, SIGNED, CN = (
    "2a864886f70d010101", "608648016503040201", "2a864886f70d010702", "550403",
)  # fmt: skip


def der(tag: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    size = len(body)
    if size < 128:
        return bytes([tag, size]) + body
    digits = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(digits)]) + digits + body


def _oid(digits: str) -> bytes:
    return der(6, bytes.fromhex(digits))


def _name(common: str) -> bytes:
    return der(0x30, der(0x31, der(0x30, _oid(CN), der(0x0C, common.encode()))))


def serial(common: str) -> bytes:
    """The serial number of the certificate of that name: 20 bytes, positive."""
    return b"\x3c" + hashlib.sha256(common.encode()).digest()[:19]


def certificate(common: str) -> bytes:
    """A self-issued certificate, its signature aside."""
    dates = der(0x30, der(0x17, b"250101000000Z"), der(0x17, b"350101000000Z"))
    key = der(0x30, der(0x30, _oid(RSA), der(5)), der(3, b"\0" + b"k" * 64))
    kind = der(0x30, _oid(RSA), der(5))
    body = der(0x30, der(0xA0, der(2, b"\2")), der(2, serial(common)), kind, _name(common), dates, _name(common), key)
    return der(0x30, body, kind, der(3, b"\0" + b"s" * 64))


def signed(common: str) -> bytes:
    """A kernel module with the signature of that key; "" is none."""
    module = b"\x7fELF" + b"\0" * 4000
    if not common:
        return module
    digest = der(0x30, _oid(SHA256))
    signer = der(
        0x30, der(2, b"\1"), der(0x30, _name(common), der(2, serial(common))), digest, der(0x30, _oid(RSA), der(5)),
        der(4, b"g" * 256),
    )  # fmt: skip
    data = der(0x30, der(2, b"\1"), der(0x31, digest), der(0x30, _oid("2a864886f70d010701")), der(0x31, signer))
    message = der(0x30, _oid(SIGNED), der(0xA0, data))
    tail = bytes([0, 0, 2, 0, 0, 0, 0, 0]) + len(message).to_bytes(4, "big")
    return module + message + tail + b"~Module signature appended~\n"


def enrolled(*names: str) -> bytes:
    """A variable of the firmware: its attributes, and the certificates of these names as lists."""
    found = b""
    for name in names:
        data = b"\0" * 16 + certificate(name)
        found += X509 + (28 + len(data)).to_bytes(4, "little") + bytes(4) + len(data).to_bytes(4, "little") + data
    return b"\6\0\0\0" + found
