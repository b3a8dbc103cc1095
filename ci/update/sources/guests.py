"""Guest drivers of vGPU that bulletins call fixed: which release of vGPU each belongs to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from update.form import json_of, listing, mapping
from update.record import Body, Found

_GUEST = re.compile(
    r"(linux|windows)(?:r(\d+)_?)?(?:_?vgpu(?:_\d+)?(?:_software)?_)*_?guest_driver_"
    r"(\d{3}(?:_\d+){1,2})vgpu_(?:software_)?(\d+)_(\d+)"
)


def guests(documents: Sequence[Body]) -> list[Found]:
    """One row for each guest driver; none for one that two bulletins give to different releases."""
    releases: dict[tuple[str, str], set[str]] = {}
    for body in documents:
        for version, system, vgpu in _named(body):
            releases.setdefault((version, system), set()).add(vgpu)
    return [
        Found("gpu-names", "vgpu_guests", {"version": version, "os": system, "vgpu": found.pop(), "src": ["psirt"]})
        for (version, system), found in releases.items()
        if len(found) == 1
    ]


def _named(body: Body) -> Iterator[tuple[str, str, str]]:
    """Version, system, and release of vGPU of each guest; one for Linux whose number is of another branch is none.

    Bulletins name Linux' drivers among Windows' at times: a driver for Linux has the number of its branch.
    """
    for one in listing(json_of(body)["vulnerabilities"], body.address):
        for product in listing(
            mapping(mapping(one, body.address)["product_status"], body.address).get("fixed", []), ""
        ):
            known = _GUEST.fullmatch(str(product))
            if known is None:
                continue
            is_of_branch = known[3].startswith(f"{known[2]}_")
            if known[2] and known[1] == "linux" and not is_of_branch:
                continue
            yield known[3].replace("_", "."), "linux" if is_of_branch else known[1], f"{known[4]}.{known[5]}"
