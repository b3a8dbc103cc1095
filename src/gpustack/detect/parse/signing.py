"""Who signed a kernel module, and the certificates of key files and of the firmware, read as far as their ids."""

from __future__ import annotations

from collections.abc import Iterator

MAGIC = b"~Module signature appended~\n"
INFO = 12
"""Length of the structure before the magic text: kinds, lengths, and the signature's length in its last four bytes."""

LONGEST = 64 << 10
"""No signature of a module is longer, in bytes."""

_X509 = bytes.fromhex("a159c0a5e494a74a87b5ab155c2bf072")
"""The kind of list that holds certificates, a5c059a1-94e4-4aa7-87b5-ab155c2bf072 as the firmware stores it."""
_SEQUENCE, _SET, _INTEGER = 0x30, 0x31, 2
_COMMON_NAME = bytes.fromhex("550403")
_KEY_ID = bytes.fromhex("551d0e")


def elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Tag and content of each DER element, as far as they are whole."""
    at = 0
    while at + 2 <= len(data):
        size, start = data[at + 1], at + 2
        if size & 0x80:
            digits = size & 0x7F
            size, start = int.from_bytes(data[start : start + digits], "big"), start + digits
        if start + size > len(data):
            return
        yield data[at], data[start : start + size]
        at = start + size


def _inside(data: bytes, *tags: int) -> bytes:
    """The content of the first element of each tag in turn, one in the other; b"" where one is missing."""
    for tag in tags:
        data = next((content for found, content in elements(data) if found == tag), b"")
    return data


def signature_length(tail: bytes) -> int:
    """How long the signature before ``tail`` is, the last bytes of a module; 0 without one."""
    if not tail.endswith(MAGIC) or len(tail) < INFO + len(MAGIC):
        return 0
    length = int.from_bytes(tail[-len(MAGIC) - 4 : -len(MAGIC)], "big")
    return length if length <= LONGEST else 0


def signer(signature: bytes) -> tuple[str, str]:
    """The id of the key that made a PKCS#7 signature, and the issuer's common name; "" for what it does not hold.

    The id is the certificate's serial number or, where the signature names the key itself, the key's identifier.
    """
    signed = _inside(signature, _SEQUENCE, 0xA0, _SEQUENCE)
    infos = [content for tag, content in elements(signed) if tag == _SET]
    parts = list(elements(_inside(infos[-1], _SEQUENCE))) if infos else []
    if len(parts) < 2:
        return "", ""
    tag, who = parts[1]
    if tag == 0x80:
        return who.hex().upper(), ""
    return _integer(who), _common_name(_inside(who, _SEQUENCE))


def certificate(data: bytes) -> tuple[str, str]:
    """Serial number and key identifier of a certificate; "" for what it does not hold."""
    body = _inside(data, _SEQUENCE, _SEQUENCE)
    extensions = _inside(body, 0xA3, _SEQUENCE)
    key = next((content for _, content in elements(extensions) if content[2:5] == _KEY_ID), b"")
    return _integer(body), _inside(_inside(key, 4), 4).hex().upper()


def certificates(variable: bytes) -> Iterator[bytes]:
    """The certificates in a variable of the firmware, whose first four bytes are its attributes."""
    at = 4
    while at + 28 <= len(variable):
        size, head, each = (int.from_bytes(variable[at + n : at + n + 4], "little") for n in (16, 20, 24))
        if size < 28 or at + size > len(variable):
            return
        if variable[at : at + 16] == _X509 and each > 16:
            for start in range(at + 28 + head, at + size - each + 1, each):
                yield variable[start + 16 : start + each]
        at += size


def _integer(data: bytes) -> str:
    """The first integer among the elements, as modinfo writes a serial number: hexadecimal without leading zeros."""
    number = _inside(data, _INTEGER)
    return number.lstrip(b"\0").hex().upper()


def _common_name(name: bytes) -> str:
    for _, group in elements(name):
        kind, *value = elements(_inside(group, _SEQUENCE))
        if kind[1] == _COMMON_NAME and value:
            return value[0][1].decode("utf-8", "replace")
    return ""
