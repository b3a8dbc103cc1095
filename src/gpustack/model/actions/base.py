"""What all actions share."""

from __future__ import annotations

import re

from msgspec import Struct

Argv = tuple[str, ...]


def _tag(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()


class Action(
    Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, tag_field="type", tag=_tag
):
    """The base of all actions. In a document the key "type" names the kind: "install-packages" and so on."""
