"""Which CUDA and cuDNN a framework's wheel for Linux on x86_64 requires: PyTorch and TensorFlow name both."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from update.record import Row
from update.sources.index import WheelFile

NAMES = ("torch", "tensorflow")
_REQUIRED = re.compile(r"([a-z0-9-]+)(?:\[[a-z0-9,-]*\])?\s*\(?([<>=!~][<>=!~,\d.]*)\)?\s*(?:;.*)?")
_CUDA = re.compile(r"cuda-toolkit|nvidia-cuda-runtime(?:-cu\d+)?")
_CUDNN = re.compile(r"nvidia-cudnn-cu\d+")


def pairings(name: str, wheels: Iterable[WheelFile], requires: Mapping[str, list[str]]) -> Iterator[Row]:
    """One row for each version of which such a wheel was read."""
    versions: dict[str, Row] = {}
    for one in wheels:
        is_first = one.platform == "linux-x86_64" and one.version not in versions
        if is_first and (row := _row(requires.get(one.file, ()))):
            versions[one.version] = {"kind": f"PyPI {name}", "version": one.version, **row, "src": ["pypi_pair"]}
    yield from versions.values()


def _row(requires: Iterable[str]) -> Row:
    """The two packages and their versions; {} for a wheel that requires none."""
    known = {found[1]: found[2].removeprefix("==") for line in requires if (found := _REQUIRED.fullmatch(line))}
    cuda = next((number for name, number in known.items() if _CUDA.fullmatch(name)), "")
    cudnn = next((name for name in known if _CUDNN.fullmatch(name)), "")
    return {"package": cudnn, "cuda": cuda, "cudnn": known[cudnn]} if cuda and cudnn else {}
