"""The names of measurements: which GPU a value is of, and of which figure."""

from __future__ import annotations

import re
from typing import NamedTuple

_OF_GPU = re.compile(r"gpu(\d+)-(.+)|(.+)-gpu(\d+)")
_PEER = re.compile(r"(.+?)-to(?:-gpu)?-(\d+)")


class Figure(NamedTuple):
    """A measurement's name without the numbers of its GPU and of the other one; "" is none."""

    name: str
    gpu: str
    peer: str


def figure(text: str) -> Figure:
    """Take a name apart: "gpu0-copy-to-gpu-1" is the figure "copy" of GPU 0 and GPU 1."""
    found = _OF_GPU.fullmatch(text)
    if found is None:
        return Figure(text, "", "")
    name, gpu = (found[2], found[1]) if found[2] else (found[3], found[4])
    other = _PEER.fullmatch(name)
    return Figure(other[1], gpu, other[2]) if other else Figure(name, gpu, "")
