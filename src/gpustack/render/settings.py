"""What a user may set of a format."""

from __future__ import annotations

from msgspec import Struct


class Settings(Struct, frozen=True, kw_only=True):
    """``image`` is the image to start from in place of the facts' one; ``prefix`` the folder to install into."""

    image: str = ""
    prefix: str = ""
