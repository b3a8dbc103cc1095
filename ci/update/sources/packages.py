"""What the packages of a vendor's repository folder say: which version of which component the folder offers."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from update.form import numbers
from update.record import Body, Found, refuse

HOME = "https://developer.download.nvidia.com/compute/cuda/repos/"
_FOLDER = re.compile(re.escape(HOME) + r"([a-z0-9-]+)/([a-z0-9_-]+)/(.+)")
_MAIN = {
    "cuda": r"cuda-(?:toolkit|cross-sbsa|cross-aarch64)-(\d+)-(\d+)",
    "cudnn": r"libcudnn[7-9](?:-cuda-\d+)?",
    "nccl": r"libnccl2?",
    "tensorrt": r"tensorrt",
    "driver": r"cuda-drivers",
}
"""The package of each component whose version is that of the component."""

_VERSION = re.compile(r"(?:\d+:)?(\d+(?:\.\d+)+)(?:-\d[\w.]*)?(?:\+cuda[\d.]+)?(?:\.(?:el|fc|amzn|sles|suse)\w*)?")
EVIDENCE = {"cudnn": ("idx_repo", {"root": "compute/cuda/repos"}), "nccl": ("folders_arch", {})}
"""Components whose facts keep every version seen in a folder: the source of these rows, and their further cells."""


def folder_of(body: Body) -> tuple[str, str, str]:
    """The folder, the architecture and the rest of the address of a body."""
    known = _FOLDER.fullmatch(body.address)
    if known is None:
        raise refuse(body.address, "is not in the vendor's repository")
    return known[1], known[2], known[3]


def demand_sum(body: Body, listed: str | None) -> None:
    """Raise unless the sha256 that the folder's own index lists is that of the body."""
    if listed is None or hashlib.sha256(body.data).hexdigest() != listed:
        raise refuse(body.address, "is not the file that the index of its folder lists")


def offers(repo: str, arch: str, packages: Iterable[tuple[str, str]]) -> list[Found]:
    """The rows for one folder: the versions of each component, and all of them together."""
    found: dict[str, set[str]] = {}
    for name, text in packages:
        for component, pattern in _MAIN.items():
            known = re.fullmatch(pattern, name)
            number = _VERSION.fullmatch(text)
            if known and number:
                found.setdefault(component, set()).add(number[1])
    rows = []
    for component, versions in sorted(found.items()):
        listed = sorted(versions, key=numbers)
        subject = component if component not in {"cuda", "driver"} else "repositories"
        place = {"component": component, "method": "network", "repo": repo, "arch": [arch]}
        rows.append(Found(subject, "availability", {**place, "listed": listed}))
        if component in EVIDENCE:
            src, more = EVIDENCE[component]
            cells = ({**more, "repo": repo, "arch": arch, "version": one, "src": [src]} for one in listed)
            rows += [Found(component, "repository_evidence", row) for row in cells]
    return rows
