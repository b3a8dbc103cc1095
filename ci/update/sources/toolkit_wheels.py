"""A release of CUDA as wheels: one for each part, in the versions that the project ``cuda-toolkit`` requires."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from update.record import Row
from update.sources.index import WheelFile

_PARTS = (
    *("cublas", "cuda-cccl", "cuda-cupti", "cuda-nvcc", "cuda-nvrtc", "cuda-runtime", "cufft", "curand"),
    *("cusolver", "cusparse", "npp", "nvjpeg", "nvtx"),
)
PARTS = {
    "11": tuple(f"nvidia-{part}-cu11" for part in _PARTS),
    "12": tuple(f"nvidia-{part}-cu12" for part in (*_PARTS, "nvjitlink")),
    "13": tuple(f"nvidia-{part}" for part in (*_PARTS, "nvjitlink", "cuda-crt", "nvvm")),
}
"""The projects that a release of CUDA consists of, by its major."""

PLATFORMS = {"linux-x86_64": "linux-x86_64", "linux-aarch64": "linux-sbsa"}
"""The platforms of wheels that are recorded, as the facts name them."""

_TOOLKIT = re.compile(r"cuda_toolkit-(\d+\.\d+\.\d+)(?:\.0)?-.*\.whl")
_PIN = re.compile(r"(nvidia-[a-z0-9-]+)(?:==([0-9.]+)\.\*|<\d+,>=([0-9.]+)); .*extra == 'all'")
"""A part of a release: its version, or the oldest one that is allowed."""


def toolkits(pages: Mapping[str, Sequence[WheelFile]], requires: Mapping[str, Sequence[str]]) -> Iterator[Row]:
    """The wheels of each release, for the platforms on which all of its parts exist.

    ``pages`` are the wheels of projects, ``requires`` the requirements of wheels by their file names.
    """
    for file, lines in requires.items():
        named = _TOOLKIT.fullmatch(file)
        parts = PARTS.get(named[1].partition(".")[0], ()) if named else ()
        if named is None or not parts or not set(parts) <= set(pages):
            continue
        pins = {known[1]: known[2] or known[3] for line in lines if (known := _PIN.match(line))}
        for platform in PLATFORMS:
            wheels = {part: [one for one in pages[part] if _is_pinned(one, platform, pins.get(part))] for part in parts}
            if all(wheels.values()):
                about = {"component": "cuda", "version": named[1]}
                yield from (
                    {**about, **row_of(one), "src": ["parts", "toolkit"]} for part in parts for one in wheels[part]
                )


def _is_pinned(one: WheelFile, platform: str, pin: str | None) -> bool:
    return one.platform == platform and pin is not None and (one.version == pin or one.version.startswith(f"{pin}."))


def row_of(one: WheelFile) -> Row:
    """What a row says of the wheel itself."""
    found = {"platform": PLATFORMS[one.platform], "method": "pip", "part": one.project, "file": one.file}
    found |= {"sha256": one.sha256, "wheel_version": one.version}
    return {**found, "python": one.python.rpartition(".")[2], "glibc": one.glibc}
