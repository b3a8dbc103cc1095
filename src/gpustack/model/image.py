"""What a container image says about itself: its variables, its base, what is installed into it."""

from __future__ import annotations

from msgspec import Struct, field


class ImageContent(Struct, frozen=True, kw_only=True):
    """An image read from a file. ``form`` is what the file is; ``arch`` as the kernel spells it, "" if not stated.

    ``base`` is the reference of the image that it is built from, "" if not stated. ``wheels`` are requirements that
    pip installs; ``indexes`` the addresses that it installs from. ``compat`` is the driver version of the libcuda of
    forward compatibility inside, "" without one or if its layers were not read. ``lines`` are the lines of a Dockerfile
    where things are said: ``base``, ``wheels``, and names of variables.
    """

    name: str
    form: str
    environment: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    arch: str = ""
    base: str = ""
    wheels: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()
    compat: str = ""
    lines: dict[str, int] = field(default_factory=dict)
    unresolved: tuple[str, ...] = ()
