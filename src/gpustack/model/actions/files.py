"""What is done with files: sources and keys of packages, folders, copies, links."""

from __future__ import annotations

from gpustack.model.actions.base import Action, Argv


class EnableSource(Action, frozen=True, kw_only=True):
    """Enable a further repository of the system's own publisher by its own command, which the facts name.

    ``needs_account``: it asks the publisher's server, with the account that the machine is registered by.
    """

    argv: Argv
    needs_account: bool = False


class TakeKey(Action, frozen=True, kw_only=True):
    """Write the key ``wanted`` (fingerprint or id) of the file ``source`` to ``target``, whatever else is in it.

    ``home`` is a folder of gpg's own for that. Fails where the key is not in the file.
    """

    source: str
    wanted: str
    target: str
    home: str
    armoured: bool = False


class CheckKeyFile(Action, frozen=True, kw_only=True):
    """Store a key file whose sum, once its Version line is taken out, is the one in the file ``sums``."""

    source: str
    sums: str
    target: str


class StoreFile(Action, frozen=True, kw_only=True):
    """Copy one file, readable by all, and make the folder that it belongs into."""

    source: str
    target: str


class Look(Action, frozen=True, kw_only=True):
    """Run a command that only reads, and stop where it does not end with 0. ``environment`` are words NAME=VALUE."""

    argv: Argv
    environment: Argv = ()


class MakeFolders(Action, frozen=True, kw_only=True):
    """Make folders, and those above them, for all to read."""

    paths: tuple[str, ...]


class Remove(Action, frozen=True, kw_only=True):
    """Remove what lies at these paths, with ``whole`` folders and all in them. Nothing there is fine."""

    paths: tuple[str, ...]
    whole: bool = False


class Unpack(Action, frozen=True, kw_only=True):
    """Unpack an archive into a folder that is there, without the archive's own top folder.

    ``own``: the files belong to whoever unpacks, and nobody else can write them, whatever the archive says.
    """

    archive: str
    folder: str
    own: bool = True


class Readable(Action, frozen=True, kw_only=True):
    """Let everybody read a folder and all in it."""

    folder: str


class CopyTree(Action, frozen=True, kw_only=True):
    """Copy a folder to ``target``; with ``into`` what is in it, over files there. Links stay links."""

    source: str
    target: str
    into: bool = False


class TakeOut(Action, frozen=True, kw_only=True):
    """Remove from ``target`` every file that ``source`` has too: it takes a ``CopyTree`` back."""

    source: str
    target: str


class Mark(Action, frozen=True, kw_only=True):
    """Leave an empty file as the sign that all before it was done."""

    path: str


class Link(Action, frozen=True, kw_only=True):
    """Make a symbolic link, or turn the one that is there."""

    path: str
    target: str


class ChooseAlternative(Action, frozen=True, kw_only=True):
    """Choose what a group of the system's alternatives points at; "" lets the system choose."""

    group: str
    choice: str = ""


class RefreshLoader(Action, frozen=True, kw_only=True):
    """Have the loader read its folders anew."""
