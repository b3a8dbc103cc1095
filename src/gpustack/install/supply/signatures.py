"""What may be trusted: keys by their full fingerprint, repositories over https or with signed metadata."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpustack.errors import GpustackError
from gpustack.install.root import InstallRoot
from gpustack.install.run.executor import Workplace
from gpustack.model.steps import Artifact, FileWrite

_LOCAL = re.compile(r"file:/|https?://(localhost|127\.\d+\.\d+\.\d+|\[::1\])[:/]")
_OFF = re.compile(
    r"trusted\s*[:=]\s*yes|allow-insecure\s*[:=]\s*yes|allow-weak\s*[:=]\s*yes|sslverify\s*=\s*(0|no|false|off)",
    re.IGNORECASE,
)
_ADDRESSES = re.compile(r"(?:https?|ftp|file):/[^\s\]]+")
_SIGNED = re.compile(r"signed-by\s*[:=]|^\s*(repo_)?gpgcheck\s*=\s*(1|yes|true|on)\s*$", re.IGNORECASE | re.MULTILINE)
_ENTRY = (".list", ".sources", ".repo")


def demand_safe_repository(file: FileWrite) -> None:
    """Raise GpustackError if a repository file weakens the checks, or trusts unsigned content over plain http."""
    if not file.path.endswith(_ENTRY):
        return
    off = _OFF.search(file.content)
    if off:
        msg = f"the repository disables its signature checks ({off.group(0)!r})"
        raise GpustackError(
            msg, code="unsigned-repository", where=file.path, hint="make a new plan: gpustack never plans that"
        )
    is_signed = bool(_SIGNED.search(file.content))
    for address in _ADDRESSES.findall(file.content):
        is_local = bool(_LOCAL.match(address))
        if not is_signed and (is_local or not address.startswith("https://")):
            msg = f"the repository {address} is neither signed nor served over https"
            raise GpustackError(
                msg, code="unsigned-repository", where=file.path, hint="use its https address, or name its key"
            )


def fingerprints(listing: str) -> list[str]:
    """The fingerprints of the primary keys in gpg's listing with colons."""
    found = []
    is_primary = False
    for line in listing.splitlines():
        fields = line.split(":")
        if fields[0] in {"pub", "sub"}:
            is_primary = fields[0] == "pub"
        elif fields[0] == "fpr" and is_primary:
            found.append(fields[9])
            is_primary = False
    return found


def demand_key(work: Workplace, artifact: Artifact) -> None:
    """Raise GpustackError unless a key file contains the key with the full expected fingerprint."""
    home = "/var/cache/gpustack/keys/looking"
    place = work.target.place(home)
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        listing = work.query(
            (
                "gpg",
                "--homedir",
                home,
                "--batch",
                "--with-colons",
                "--import-options",
                "show-only",
                "--import",
                artifact.path,
            )
        )
    finally:
        from gpustack.install.changes.backups import remove  # noqa: PLC0415 (only here)

        remove(place)
    wanted = artifact.fingerprint.replace(" ", "").upper()
    if wanted not in fingerprints(listing):
        found = ", ".join(fingerprints(listing)) or "none"
        msg = f"the key file holds another key: expected {wanted}, found {found}"
        raise GpustackError(
            msg,
            code="key-refused",
            where=artifact.url,
            hint="the key was changed or the file damaged: nothing was trusted",
        )


def unsafe_entries(target: InstallRoot) -> Iterator[tuple[str, str]]:
    """The host's own unverified entries for NVIDIA's packages: the file, and why."""
    for folder in ("/etc/apt/sources.list.d", "/etc/yum.repos.d", "/etc/zypp/repos.d"):
        place = target.followed(folder)
        for file in sorted(place.iterdir()) if place.is_dir() else ():
            if file.suffix not in _ENTRY or not file.is_file():
                continue
            content = file.read_text(encoding="utf-8", errors="replace")
            active = "\n".join(line for line in content.splitlines() if not line.lstrip().startswith("#"))
            is_off = re.search(r"^\s*enabled\s*[=:]\s*(0|no)", active, re.IGNORECASE | re.MULTILINE)
            if "nvidia" not in active.lower() or is_off:
                continue
            try:
                demand_safe_repository(FileWrite(path=f"{folder}/{file.name}", content=active))
            except GpustackError as error:
                yield error.where, error.message
