"""Units of systemd that look for drift every day."""

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
    """A word as a unit has it, such as a path: a percent sign would begin a specifier there."""
    plain = word.replace("%", "%%").replace("\\", "\\\\").replace('"', '\\"')
    return plain if plain == word and " " not in plain else f'"{plain}"'
