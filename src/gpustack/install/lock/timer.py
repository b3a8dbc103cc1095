"""systemd units that check for drift every day."""

from __future__ import annotations

NAME = "gpustack-status"
FOLDER = "/etc/systemd/system"


def status_units(program: str) -> dict[str, str]:
    """The service and the timer by their paths; ``program`` is the path of gpustack."""
    service = (
        "[Unit]\nDescription=Check the GPU stack for drift from its lock\n\n"
        f"[Service]\nType=oneshot\nExecStart={quoted(program)} status\n"
        "ProtectSystem=strict\nProtectHome=read-only\nPrivateTmp=yes\nNoNewPrivileges=yes\n"
    )
    timer = (
        "[Unit]\nDescription=Check the GPU stack for drift every day\n\n"
        "[Timer]\nOnCalendar=daily\nRandomizedDelaySec=1h\nPersistent=yes\n\n"
        "[Install]\nWantedBy=timers.target\n"
    )
    return {f"{FOLDER}/{NAME}.service": service, f"{FOLDER}/{NAME}.timer": timer}


def quoted(word: str) -> str:
    """A word in a unit, such as a path: percent signs must be doubled."""
    plain = word.replace("%", "%%").replace("\\", "\\\\").replace('"', '\\"')
    return plain if plain == word and " " not in plain else f'"{plain}"'
