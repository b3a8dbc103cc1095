"""Gpustack's programs that checks build and run, and their data. They are copied to a check's folder first."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).resolve().parent


def place(folder: Path, *names: str) -> tuple[Path, ...]:
    """Copy files of this package to ``folder`` and return where they are. Raises OSError."""
    placed = []
    for name in names:
        target = folder / Path(name).name
        target.write_bytes((FOLDER / name).read_bytes())
        placed.append(target)
    return tuple(placed)
