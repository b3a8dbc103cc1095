"""Files that the user has downloaded, as they were read inside."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Form = Literal["tar", "zip", "package", "repository", "runfile", "wheel"]
"""What such a file is: "package" a single .deb or .rpm, "repository" one that holds a package repository."""


class OwnPackage(Struct, frozen=True, kw_only=True):
    """One package that a file is, or holds; ``version`` as its package manager writes it."""

    name: str
    version: str


class OwnFile(Struct, frozen=True, kw_only=True):
    """One downloaded file of a component.

    ``path`` is where the user has it, ``file`` the name that its content gives it, whatever it is called. ``version``
    is the component's. ``cuda`` is the CUDA release line that it was built for ("12", "11.8"), "" where the file does
    not say; ``distro`` the repository folder of its system, "" where it suits all of a family; ``top_dir`` the folder
    in an archive. ``size`` is in bytes.
    """

    path: str
    component: str
    form: Form
    file: str
    version: str
    arch: str
    sha256: str
    size: int
    family: str = ""
    cuda: str = ""
    distro: str = ""
    top_dir: str = ""
    packages: tuple[OwnPackage, ...] = ()
    board: bool = False

    @property
    def url(self) -> str:
        """Its address, as steps have it."""
        from urllib.parse import quote  # noqa: PLC0415 (most requests name no file)

        return f"file://{quote(self.path)}"
