"""Throw-away keys: two for signing packages, and a certificate for the vendor's host names on loopback."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class SigningKeys:
    """A GnuPG home with a current and a retired key."""

    home: Path
    current: str
    retired: str

    def gpg(self, *words: str, data: bytes = b"") -> bytes:
        command = ["gpg", "--homedir", str(self.home), "--batch", "--yes", "--no-tty", *words]
        return subprocess.run(command, input=data, check=True, capture_output=True).stdout

    def public(self, fingerprint: str, *, armoured: bool = True) -> bytes:
        return self.gpg(*(["--armor"] if armoured else []), "--export", fingerprint)

    def clear_sign(self, data: bytes, fingerprint: str) -> bytes:
        return self.gpg("--local-user", fingerprint, "--digest-algo", "SHA512", "--clearsign", data=data)

    def detached(self, data: bytes, fingerprint: str) -> bytes:
        return self.gpg("--local-user", fingerprint, "--digest-algo", "SHA512", "--armor", "--detach-sign", data=data)

    def stop(self) -> None:
        subprocess.run(["gpgconf", "--homedir", str(self.home), "--kill", "all"], check=True, capture_output=True)


def make_signing_keys(home: Path) -> SigningKeys:
    home.mkdir(mode=0o700)
    made = SigningKeys(home, "", "")
    fingerprints = []
    for name in ("current", "retired"):
        user = f"{name} test key <{name}@gpustack.test>"
        words = ["--status-fd", "1", "--passphrase", "", "--quick-generate-key", user, "rsa3072", "sign", "never"]
        told = made.gpg(*words).decode()
        fingerprints.append(told.partition("KEY_CREATED P ")[2].split()[0])
    return SigningKeys(home, *fingerprints)


@dataclass(frozen=True)
class Certificate:
    """What a server shows (``chain``, ``key``), and the authority that a throw-away root is told to trust."""

    chain: Path
    key: Path
    authority: Path


def make_certificate(folder: Path, hosts: tuple[str, ...]) -> Certificate:
    folder.mkdir()
    made = Certificate(folder / "server.pem", folder / "server.key", folder / "authority.pem")
    extensions = folder / "extensions"
    names = ",".join(f"DNS:{host}" for host in hosts)
    extensions.write_text(f"subjectAltName={names}\nextendedKeyUsage=serverAuth\n")
    authority_key, request = str(folder / "authority.key"), str(folder / "request")
    new = ["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-batch"]
    signed_by = ["-CA", str(made.authority), "-CAkey", authority_key, "-CAcreateserial", "-extfile", str(extensions)]
    for command in (
        [*new, "-x509", "-days", "2", "-subj", "/CN=tests", "-keyout", authority_key, "-out", str(made.authority)],
        [*new, "-subj", f"/CN={hosts[0]}", "-keyout", str(made.key), "-out", request],
        ["openssl", "x509", "-req", "-days", "2", "-in", request, *signed_by, "-out", str(made.chain)],
    ):
        subprocess.run(command, check=True, capture_output=True)
    return made
