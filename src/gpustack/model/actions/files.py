"""Actions on files: sources and keys of packages, folders, copies, links."""

from __future__ import annotations

from gpustack.model.actions.base import Action, Argv


class EnableSource(Action, frozen=True, kw_only=True):
    """Enable another repository of the system's publisher with the publisher's command, which the facts name.

    ``needs_account``: it contacts the publisher's server with the account of the registered machine.
    """

    argv: Argv
    needs_account: bool = False


class TakeKey(Action, frozen=True, kw_only=True):
    """Write the key ``wanted`` (fingerprint or id) of the file ``source`` to ``target``, without the other keys in it.

    ``home`` is a separate home folder for gpg. Fails if the key is not in the file.
    """

    source: str
    wanted: str
    target: str
    home: str
    armoured: bool = False


class CheckKeyFile(Action, frozen=True, kw_only=True):
    """Store a key file if its checksum, without the Version line, is in the file ``sums``."""

    source: str
    sums: str
    target: str


class StoreFile(Action, frozen=True, kw_only=True):
    """Copy one file, readable by all, and create its folder."""

    source: str
    target: str


class Look(Action, frozen=True, kw_only=True):
    """Run a read-only command, and stop unless it exits with 0. ``environment`` are words NAME=VALUE."""

    argv: Argv
    environment: Argv = ()


class MakeFolders(Action, frozen=True, kw_only=True):
    """Create folders and their parents, readable by all."""

    paths: tuple[str, ...]


class Remove(Action, frozen=True, kw_only=True):
    """Remove these paths, with ``whole`` folders including their content. Missing ones are fine."""

    paths: tuple[str, ...]
    whole: bool = False


class Unpack(Action, frozen=True, kw_only=True):
    """Unpack an archive into an existing folder, without the archive's top folder.

    ``own``: the files belong to the user who unpacks, and only that user may write them, whatever the archive says.
    """

    archive: str
    folder: str
    own: bool = True


class Readable(Action, frozen=True, kw_only=True):
    """Make a folder and its content readable by all."""

    folder: str


class CopyTree(Action, frozen=True, kw_only=True):
    """Copy a folder to ``target``; with ``into`` its content, overwriting files there. Links stay links."""

    source: str
    target: str
    into: bool = False


class TakeOut(Action, frozen=True, kw_only=True):
    """Remove every file from ``target`` that ``source`` has too: the inverse of ``CopyTree``."""

    source: str
    target: str


class Mark(Action, frozen=True, kw_only=True):
    """Leave an empty file as a sign that everything before it was done."""

    path: str


class Link(Action, frozen=True, kw_only=True):
    """Create a symbolic link, or change an existing one."""

    path: str
    target: str


class ChooseAlternative(Action, frozen=True, kw_only=True):
    """Select the target of an alternatives group; "" lets the system select it."""

    group: str
    choice: str = ""


class RefreshLoader(Action, frozen=True, kw_only=True):
    """Rebuild the cache of the dynamic loader."""
