"""What the readers of downloaded files find in them."""

from __future__ import annotations

from msgspec import Struct

from gpustack.model.own_file import Form, OwnPackage


class Contents(Struct, frozen=True, kw_only=True):
    """What a file holds. ``name`` is the package's or the software's own, "" where the file has none.

    ``component`` and ``version`` are filled where the content itself names them, as headers and runfiles do.
    """

    form: Form
    file: str
    name: str = ""
    family: str = ""
    arch: str = ""
    component: str = ""
    version: str = ""
    cuda: str = ""
    top_dir: str = ""
    packages: tuple[OwnPackage, ...] = ()
    board: bool = False
