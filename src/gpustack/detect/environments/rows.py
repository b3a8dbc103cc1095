"""The facts about distributions that disturb each other: `matrices/python-environments.yaml`."""

from __future__ import annotations

from msgspec import Struct


class SameFiles(Struct, frozen=True, kw_only=True):
    """Distributions that install the same files into ``folder``; ``names`` is a pattern of a whole name."""

    names: str
    folder: str
    keep: str
    src: tuple[str, ...] = ()


class Binary(Struct, frozen=True, kw_only=True):
    """Releases of a distribution that do not load with ``refused`` releases of another."""

    of: str
    versions: str
    other: str
    refused: str
    says: str
    src: tuple[str, ...] = ()


class WithoutCuda(Struct, frozen=True, kw_only=True):
    """Wheels of the index that never contain CUDA."""

    names: str
    says: str
    src: tuple[str, ...] = ()


class OwnSearch(Struct, frozen=True, kw_only=True):
    """Libraries that find NVIDIA's wheels only on request; ``library`` is a pattern of the path below the folder."""

    library: str
    says: str
    src: tuple[str, ...] = ()


SUBJECT = "python-environments"
