"""The key of a package repository: downloaded, checked, and put where the package manager reads it."""

from __future__ import annotations

from msgspec import Struct

from gpustack.model.places import SigningKey
from gpustack.model.steps import Artifact, FileWrite
from gpustack.patterns import late
from gpustack.plan import done
from gpustack.plan.context import Context
from gpustack.plan.draft import Draft, draft
from gpustack.plan.keys import take_key
from gpustack.plan.managers.base import CACHE, Argv, Manager, Place

_SHORT_ID = late(r"[0-9A-Fa-f]{8}")


class KeyExtra(Struct, frozen=True, kw_only=True):
    """The columns of a key's row that only this module reads."""

    id: str
    url: str = ""
    sha256_without_version_line: str = ""


def download_key(ctx: Context, place: Place) -> Draft:
    """The step that downloads the file with the key. Its key is ``key-file:ID``."""
    key = key_of(place)
    path = _key_file(place)
    return draft(
        f"key-file:{place.id}",
        after=["tools"],
        component="",
        kind="download",
        title=f"download the signing key {key.id}",
        why=f"packages of {place.repository.repo} are signed with it",
        artifacts=(Artifact(url=place.key_url, path=path, sha256=key.sha256, fingerprint=key.fingerprint),),
        undo=(("rm", "-f", "--", path),),
        done_when=f"file {path} {key.sha256}" if key.sha256 else "never",
        phase="repositories",
        sources=ctx.addresses(key),
    )


def check_key(ctx: Context, tool: Manager, place: Place) -> Draft:
    """The step that takes the one expected key out of the file, and puts it where the manager reads it."""
    key, path, target = key_of(place), _key_file(place), place.keyring
    extra = {row.id: row for row in ctx.matrix.everywhere("keys", KeyExtra)}.get(key.id)
    files: tuple[FileWrite, ...] = ()
    if key.fingerprint:
        commands = _by_fingerprint(key.fingerprint, place, tool)
        why = f"only the key with the fingerprint {key.fingerprint} is taken from the file"
    elif extra and extra.sha256_without_version_line:
        sums = f"{path}.sha256"
        files = (FileWrite(path=sums, content=f"{extra.sha256_without_version_line}  {path}\n"),)
        # The Version line of an armoured key changes with every export; without it the file is always the same.
        commands = (
            ("sed", "-i", "-e", "/^Version/d", "--", path),
            ("sha256sum", "--check", "--strict", "--", sums),
            ("install", "-D", "-m", "0644", "--", path, target),
        )
        why = "the file has the published sha256 once its Version line is taken out"
    elif _SHORT_ID.fullmatch(key.id):
        commands = _by_fingerprint(key.id, place, tool)
        why = f"only the key with the id {key.id} is taken; nobody has published its whole fingerprint"
        ctx.warn(
            f"the whole fingerprint of the signing key {key.id} of {place.repository.repo} is not published: it is "
            "trusted by its short id and because it comes over https from NVIDIA's own host"
        )
    else:
        commands = (("install", "-D", "-m", "0644", "--", path, target),)
        why = "neither id nor fingerprint of this key is published"
        ctx.warn(
            f"the signing key of {place.repository.repo} has no published id: it is trusted because it comes over "
            "https from NVIDIA's own host"
        )
    return draft(
        f"key:{place.id}",
        after=["tools", f"key-file:{place.id}"],
        component="",
        kind="run",
        title=f"check the signing key {key.id} and store it",
        why=why,
        commands=(*commands, *tool.key_commands(place)),
        files=files,
        undo=(*_forget(key, tool), ("rm", "-f", "--", target)),
        done_when=_key_is_there(key, place, tool),
        phase="repositories",
        sources=ctx.addresses(key),
    )


def _by_fingerprint(wanted: str, place: Place, tool: Manager) -> tuple[Argv, ...]:
    home = f"{CACHE}/keys/{place.id}-gnupg"
    return take_key(_key_file(place), wanted, place.keyring, home=home, armoured=tool.name != "apt")


def _forget(key: SigningKey, tool: Manager) -> tuple[Argv, ...]:
    """What takes a key out of the rpm database; apt's keys are files alone."""
    name = _rpm_name(key) if tool.name != "apt" else ""
    return (("rpm", "--erase", "--allmatches", name),) if name else ()


def _rpm_name(key: SigningKey) -> str:
    """What rpm calls an imported key: by the end of its fingerprint; "" where nothing of it is known."""
    wanted = key.fingerprint or (key.id if _SHORT_ID.fullmatch(key.id) else "")
    return f"gpg-pubkey-{wanted[-8:].lower()}" if wanted else ""


def _key_is_there(key: SigningKey, place: Place, tool: Manager) -> str:
    """The condition that the checked key is where the package manager reads it."""
    wanted = key.fingerprint or (key.id if _SHORT_ID.fullmatch(key.id) else "")
    if not wanted:
        return "never"
    if tool.name != "apt":
        known = done.succeeds("rpm", "--query", _rpm_name(key))
        return done.every(done.paths(place.keyring), known)
    home = ("--homedir", f"{CACHE}/keys/{place.id}-gnupg", "--batch", "--no-default-keyring")
    # Asked for its path first: gpg would make an empty keyring where there is none.
    return done.every(
        done.paths(place.keyring), done.succeeds("gpg", *home, "--keyring", place.keyring, "--list-keys", wanted)
    )


def key_of(place: Place) -> SigningKey:
    """The key of a repository that has one. Raises ValueError where it has none: a fault of the caller."""
    if place.key is None:
        msg = f"repository {place.id} has no key"
        raise ValueError(msg)
    return place.key


def _key_file(place: Place) -> str:
    return f"{CACHE}/keys/{place.id}-{place.repository.repo}-{key_of(place).file.rpartition('/')[2]}"
