"""The key of one bundle: it signs the bundle's indexes, and its secret half is deleted when the bundle is complete."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from gpustack.errors import GpustackError
from gpustack.system.run import LocalRunner

_NO_GPG = "install GnuPG (gnupg or gnupg2)"


class BundleKey:
    """A throw-away signing key. ``close`` ends its agent and removes it."""

    def __init__(self) -> None:
        # The agent's socket has a name of limited length, so the home has a short path.
        self._home = Path(tempfile.mkdtemp(prefix="gpustack-key-"))
        told = self._gpg(
            "--status-fd",
            "1",
            "--passphrase",
            "",
            "--quick-generate-key",
            "gpustack bundle",
            "rsa3072",
            "sign",
            "never",
        )
        self.fingerprint = told.partition("KEY_CREATED P ")[2].split()[0]

    def sign(self, path: Path, target: Path, *, clear: bool = False) -> None:
        """Write the signature of ``path`` to ``target``: detached and armoured, or around the text itself."""
        way = ("--clearsign",) if clear else ("--armor", "--detach-sign")
        self._gpg("--digest-algo", "SHA512", "--output", str(target), *way, str(path))

    def export(self, folder: Path) -> None:
        """The public half as key.gpg and, armoured, as key.asc."""
        self._gpg("--output", str(folder / "key.gpg"), "--export", self.fingerprint)
        self._gpg("--armor", "--output", str(folder / "key.asc"), "--export", self.fingerprint)

    def close(self) -> None:
        """Remove the key."""
        LocalRunner().run(("gpgconf", "--homedir", str(self._home), "--kill", "all"))
        shutil.rmtree(self._home, ignore_errors=True)

    def _gpg(self, *words: str) -> str:
        argv = ("gpg", "--homedir", str(self._home), "--batch", "--yes", "--no-tty", *words)
        done = LocalRunner().run(argv, timeout=120.0)
        if done.code != 0:
            msg = f"gpg failed: {done.error or done.err.strip()}"
            raise GpustackError(msg, code="command-failed", where="bundle", hint=_NO_GPG)
        return done.out


def signer_of(document: bytes, signature: bytes, keyring: bytes, where: str) -> str:
    """The full fingerprint of the key in ``keyring`` that alone signed ``document``. Raises GpustackError.

    gpgv reads from this process: a file could have been replaced by the time it is opened again.
    """
    with ExitStack() as stack:
        names = [stack.enter_context(_in_memory(content)) for content in (keyring, signature, document)]
        done = LocalRunner().run(("gpgv", "--status-fd", "1", "--keyring", *names), timeout=60.0)
    good = [line.split() for line in done.out.splitlines() if line.startswith("[GNUPG:] VALIDSIG ")]
    if done.code != 0 or len(good) != 1:
        why = done.error or (done.err.strip().splitlines() or ["no signature"])[-1]
        msg = f"the signature is not valid: {why}"
        hint = _NO_GPG if done.error else CHANGED
        raise GpustackError(msg, code="signature-refused", where=where, hint=hint)
    return good[0][-1]


CHANGED = "the bundle was changed or damaged: copy it again, or make it again"


@contextmanager
def _in_memory(content: bytes) -> Iterator[str]:
    """A path under which child processes can read ``content``."""
    with os.fdopen(os.memfd_create("gpustack"), "wb") as file:
        file.write(content)
        file.flush()
        yield f"/proc/{os.getpid()}/fd/{file.fileno()}"


def fingerprint_of(keyring: bytes) -> str:
    """The fingerprint of the one OpenPGP key (version 4, no subkeys) in ``keyring``.

    Raises ValueError if it contains anything else: package managers trust every key of a keyring. The packets are those
    of RFC 4880, sections 4.2, 5.5.2 and 12.2.
    """
    keys = []
    at = 0
    while at < len(keyring):
        tag, body, at = _packet(keyring, at)
        if tag == _KEY and body[:1] == b"\x04":
            whole = b"\x99" + len(body).to_bytes(2, "big") + body
            keys.append(hashlib.sha1(whole, usedforsecurity=False).hexdigest().upper())
        elif tag not in {_USER, _SIGNATURE}:
            msg = f"holds more than a key of version 4: a packet of the kind {tag}"
            raise ValueError(msg)
    if len(keys) != 1:
        msg = f"holds {len(keys)} keys: {', '.join(keys) or 'none'}"
        raise ValueError(msg)
    return keys[0]


_SIGNATURE, _KEY, _USER = 2, 6, 13


def _packet(raw: bytes, at: int) -> tuple[int, bytes, int]:
    """The kind and the content of the packet at ``at``, and the start of the next one. Raises ValueError."""
    head, rest = raw[at], raw[at + 1 : at + 6]
    widths = {0: 1, 1: 2, 2: 4}
    if head & 0xC0 == 0xC0 and rest:
        tag = head & 0x3F
        if rest[0] < 192:
            width, length = 1, rest[0]
        elif rest[0] < 224:
            width, length = 2, ((rest[0] - 192) << 8) + int.from_bytes(rest[1:2], "big") + 192
        else:
            width, length = 5, int.from_bytes(rest[1:5], "big")
    else:
        tag, width = (head >> 2) & 0x0F, widths.get(head & 3, 0)
        length = int.from_bytes(rest[:width], "big")
    begin = at + 1 + width
    # Bodies in parts, or as long as the file: no key is exported in that form.
    if not head & 0x80 or not width or (head & 0x40 and rest[:1] and 224 <= rest[0] < 255) or begin + length > len(raw):
        msg = "is not an OpenPGP key"
        raise ValueError(msg)
    return tag, raw[begin : begin + length], begin + length


def dearmored(text: str) -> bytes:
    """The content of ``text``, which must be one armoured key. Raises ValueError."""
    lines = text.strip().split("\n")
    if (lines[0], lines[-1]) != (_BEGIN, _END) or text.count("-----BEGIN") != 1 or "" not in lines:
        msg = "is not one armoured OpenPGP key"
        raise ValueError(msg)
    body = [line for line in lines[lines.index("") + 1 : -1] if not line.startswith("=")]
    return base64.b64decode("".join(body), validate=True)


_BEGIN, _END = (f"-----{word} PGP PUBLIC KEY BLOCK-----" for word in ("BEGIN", "END"))
