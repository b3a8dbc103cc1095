"""What a container image says about itself: its variables, its base, what is installed into it."""

from __future__ import annotations

from msgspec import Struct, field


class Installed(Struct, frozen=True, kw_only=True):
    """A distribution for Python in an image. ``version`` has its local part; ``place`` is its environment's folder.

    ``cuda`` is that of its build, "" for a build without CUDA, None if it does not say; ``why`` shows it.
    """

    name: str
    version: str
    place: str
    cuda: str | None = None
    why: str = ""


class ImageContent(Struct, frozen=True, kw_only=True):
    """An image read from a file. ``form`` is what the file is; ``arch`` as the kernel spells it, "" if not stated.

    ``os`` is that of its programs in small letters ("linux", "windows"), "" if not stated. ``base`` is the reference
    of the image that it is built from, "" if not stated. ``wheels`` are requirements that pip installs; ``indexes`` the
    addresses that it installs from. ``lines`` are the lines of a Dockerfile where things are said: ``base``,
    ``wheels``, and names of variables. ``adds_libraries``: packages of CUDA or cuDNN are installed or copied, or may
    be. ``unread``: things are installed that the Dockerfile does not name.

    ``layers`` is "read" if its layers were read, "" for files without layers, else why they could not be read. From
    them are ``compat``, the driver version of the libcuda of forward compatibility ("" without one), ``installed``,
    ``toolkit`` (the version of CUDA in its version.json), ``libraries`` (the versions of ``cudnn`` and
    ``tensorrt``), and ``system``, the name of its distribution.
    """

    name: str
    form: str
    environment: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    arch: str = ""
    os: str = ""
    base: str = ""
    wheels: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()
    layers: str = ""
    compat: str = ""
    installed: tuple[Installed, ...] = ()
    toolkit: str = ""
    libraries: dict[str, str] = field(default_factory=dict)
    system: str = ""
    lines: dict[str, int] = field(default_factory=dict)
    unresolved: tuple[str, ...] = ()
    adds_libraries: bool = False
    unread: bool = False
