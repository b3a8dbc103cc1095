"""The key of a package repository: downloaded, verified, and installed for the package manager."""

import re

from msgspec import Struct

from gpustack.model import actions as do
from gpustack.model.actions import AnyAction
from gpustack.model.conditions import NEVER, spell
from gpustack.model.places import SigningKey
from gpustack.model.steps import Artifact, FileWrite
from gpustack.plan.context import Context
from gpustack.plan.draft import Draft, draft
from gpustack.plan.managers.base import CACHE, Manager, Place

_SHORT_ID = re.compile(r"[0-9A-Fa-f]{8}")


class KeyExtra(Struct, frozen=True, kw_only=True):
    """The columns of a key that only this module reads."""

    id: str
    url: str = ""
    sha256_without_version_line: str = ""


def download_key(ctx: Context, place: Place) -> Draft:
    """The step that downloads the key file. Its key is ``key-file:ID``."""
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
        undo=(do.Remove(paths=(path,)),),
        done_when=f"file {path} {key.sha256}" if key.sha256 else "never",
        phase="repositories",
        sources=ctx.addresses(key),
    )


def check_key(ctx: Context, tool: Manager, place: Place) -> Draft:
    """The step that extracts the one expected key, and installs it for the package manager."""
    key, path, target = key_of(place), _key_file(place), place.keyring
    extra = {row.id: row for row in ctx.matrix.everywhere("keys", KeyExtra)}.get(key.id)
    files: tuple[FileWrite, ...] = ()
    check: AnyAction
    if key.fingerprint:
        check = _by_fingerprint(key.fingerprint, place, tool)
        why = f"only the key with the fingerprint {key.fingerprint} is imported from the file"
    elif extra and extra.sha256_without_version_line:
        sums = f"{path}.sha256"
        files = (FileWrite(path=sums, content=f"{extra.sha256_without_version_line}  {path}\n"),)
        check = do.CheckKeyFile(source=path, sums=sums, target=target)
        why = "the file has the published sha256 once its Version line is removed"
    elif _SHORT_ID.fullmatch(key.id):
        check = _by_fingerprint(key.id, place, tool)
        why = f"only the key with the id {key.id} is accepted; its whole fingerprint is not published"
        ctx.warn(
            f"the whole fingerprint of the signing key {key.id} of {place.repository.repo} is not published: it is "
            "trusted by its short id and because it comes over https from NVIDIA's own host"
        )
    else:
        check = do.StoreFile(source=path, target=target)
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
        actions=(check, *_import(key, tool, target)),
        files=files,
        undo=(*_forget(key, tool), do.Remove(paths=(target,))),
        done_when=_key_is_there(key, place, tool),
        phase="repositories",
        sources=ctx.addresses(key),
    )


def _by_fingerprint(wanted: str, place: Place, tool: Manager) -> do.TakeKey:
    armoured = tool.name != "apt"
    return do.TakeKey(
        source=_key_file(place), wanted=wanted, target=place.keyring, home=_home(place), armoured=armoured
    )


def _home(place: Place) -> str:
    return f"{CACHE}/keys/{place.id}-gnupg"


def _known_by(key: SigningKey) -> str:
    """The fingerprint of a key, or its id; "" if both are unknown."""
    return key.fingerprint or (key.id if _SHORT_ID.fullmatch(key.id) else "")


def _forget(key: SigningKey, tool: Manager) -> tuple[do.ForgetKey, ...]:
    wanted = _known_by(key)
    return (do.ForgetKey(manager=tool.name, key=wanted),) if wanted and tool.name != "apt" else ()


def _import(key: SigningKey, tool: Manager, path: str) -> tuple[do.ImportKey, ...]:
    # apt's source list names the key file; that suffices.
    return () if tool.name == "apt" else (do.ImportKey(manager=tool.name, path=path, fingerprint=key.fingerprint),)


def _key_is_there(key: SigningKey, place: Place, tool: Manager) -> str:
    """The condition that the verified key is where the package manager reads it."""
    wanted = _known_by(key)
    return spell(*tool.knows_key(place.keyring, wanted, _home(place))) if wanted else NEVER


def key_of(place: Place) -> SigningKey:
    """The key of a repository that has one. Raises ValueError without one: a fault of the caller."""
    if place.key is None:
        msg = f"repository {place.id} has no key"
        raise ValueError(msg)
    return place.key


def _key_file(place: Place) -> str:
    return f"{CACHE}/keys/{place.id}-{place.repository.repo}-{key_of(place).file.rpartition('/')[2]}"
