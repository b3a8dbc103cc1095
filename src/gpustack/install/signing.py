"""A key made for one bundle: it signs the bundle's indexes, its secret half is gone when the bundle is done."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from gpustack.errors import GpustackError
from gpustack.system.run import LocalRunner

_NO_GPG = "install GnuPG (gnupg or gnupg2)"


class BundleKey:
    """A throw-away signing key. ``close`` ends its agent and removes it."""

    def __init__(self) -> None:
        # The agent's socket has a name of limited length, so the home is where paths are short.
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
            raise GpustackError(msg, where="bundle", hint=_NO_GPG)
        return done.out


def signer_of(path: Path, signature: Path, keyring: Path) -> str:
    """The whole fingerprint of the key in ``keyring`` that signed ``path``. Raises GpustackError where none did."""
    argv = ("gpgv", "--status-fd", "1", "--keyring", str(keyring), str(signature), str(path))
    done = LocalRunner().run(argv, timeout=60.0)
    good = [line.split() for line in done.out.splitlines() if line.startswith("[GNUPG:] VALIDSIG ")]
    if done.code != 0 or not good:
        why = done.error or (done.err.strip().splitlines() or ["no signature"])[-1]
        msg = f"the signature does not hold: {why}"
        hint = _NO_GPG if done.error else "the bundle was changed or damaged: copy it again, or make it again"
        raise GpustackError(msg, where=str(path), hint=hint)
    return good[0][-1]
