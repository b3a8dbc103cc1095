"""The makefile of each release of NCCL: for which compute capabilities it builds code and PTX."""

from __future__ import annotations

import re
from collections.abc import Sequence

from update.form import text_of
from update.record import Body, Found, Given, refuse

HAND_OUT = "makefiles/common.mk of each tag of NVIDIA/nccl, its lines with -gencode alone"
_ADDRESS = re.compile(r"https://github\.com/NVIDIA/nccl/blob/v(\d+\.\d+\.\d+)-\d+/makefiles/common\.mk")
_CODE = re.compile(r"-gencode=arch=compute_(\d{2,3}),code=(sm|compute)_(\d{2,3})\b")


def rows(bodies: Sequence[Body]) -> Given:
    """One row for each release."""
    found = []
    for body in bodies:
        known = _ADDRESS.fullmatch(body.address)
        codes = _CODE.findall(text_of(body))
        if known is None or any(virtual != real for virtual, _, real in codes):
            raise refuse(body.address, "is no makefile of NCCL that the facts use")
        made = {
            kind: [_capability(one) for one in sorted({int(code) for _, of, code in codes if of == kind})]
            for kind in ("sm", "compute")
        }
        if not all(made.values()):
            raise refuse(body.address, "builds no code or no PTX")
        row = {"version": known[1], "sass": made["sm"], "ptx": made["compute"], "src": ["git"]}
        found.append(Found("nccl", "gpu_code", row))
    return Given(tuple(found))


def _capability(number: int) -> str:
    return f"{number // 10}.{number % 10}"
