"""Taking one expected key out of a downloaded key file, whatever else is in it."""

from __future__ import annotations

from gpustack.plan.managers.base import Argv


def take_key(source: str, wanted: str, target: str, *, home: str, armoured: bool) -> tuple[Argv, ...]:
    """The commands that write the key ``wanted`` (fingerprint or id) of ``source`` to ``target``; others are left out.

    They fail when it is not there. Nothing is imported, so no agent is started and no keyring of a user is touched.
    """
    gpg = ("gpg", "--homedir", home, "--batch")
    ring = f"{home}/all.gpg"
    from_ring = (*gpg, "--no-default-keyring", "--keyring", ring)
    armour = ("--armor",) if armoured else ()
    return (
        ("install", "-d", "-m", "0700", "--", home),
        (*gpg, "--yes", "--output", ring, "--dearmor", source),
        (*from_ring, "--list-keys", wanted),
        ("install", "-d", "-m", "0755", "--", target.rpartition("/")[0]),
        (*from_ring, "--yes", *armour, "--output", target, "--export", wanted),
        ("chmod", "0644", "--", target),
    )
