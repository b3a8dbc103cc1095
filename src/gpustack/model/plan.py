"""The plan document: the ordered steps that take a host to a stack, with the reason for each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from gpustack.model.host import Host
from gpustack.model.request import Request
from gpustack.model.resolution import State
from gpustack.model.steps import Step

PHASES = (
    "preflight",
    "prerequisites",
    "repositories",
    "driver",
    "reboot",
    "toolkit",
    "libraries",
    "applications",
    "verification",
)
"""The order of a plan's steps."""


class StackEntry(Struct, frozen=True, kw_only=True):
    """One component of the stack as the plan document shows it.

    ``former`` ("from" in the document) is the version before, None if there was none; plans of the first edition do not
    record it.
    """

    version: str
    method: str
    reason: str
    sources: tuple[str, ...] = ()
    state: State = "install"
    former: str | UnsetType | None = field(default=UNSET, name="from")
    flavour: Literal["", "open", "proprietary"] = ""

    @property
    def change(self) -> str:
        """The version, after the one that it replaces: "13.0.2 -> 13.4.1"."""
        if self.state in {"upgrade", "downgrade"} and self.former:
            return f"{self.former} -> {self.version}"
        return self.version


class BaseImage(Struct, frozen=True, kw_only=True):
    """The base image for an image with this stack, with the pages that name it."""

    name: str
    sources: tuple[str, ...] = ()


Name = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9.-]*$(?!\n)")]
Number = Annotated[str, Meta(pattern=r"^[0-9][A-Za-z0-9.+]*$(?!\n)")]
Address = Annotated[str, Meta(pattern=r"^(https://[A-Za-z0-9._~:/%+-]+)?$(?!\n)")]
File = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*\.whl$(?!\n)")]
Sum = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$(?!\n)")]


class PythonWheel(Struct, frozen=True, kw_only=True):
    """One file of a package, by its name and checksum, ``size`` in bytes.

    ``url`` is its address. Plans record none, as every index has its own; the first ones that had environments did.
    """

    name: File
    sha256: Sum
    size: int | UnsetType = UNSET
    url: Address | UnsetType = UNSET


class PythonPackage(Struct, frozen=True, kw_only=True):
    """One package of a Python environment. ``index`` is the index that alone has this build, "" the default one.

    ``wheels`` are its files for the platform, whatever the Python; () if the facts have no checksums. ``pinned`` marks
    a package that only another one requires.
    """

    name: Name
    version: Number
    index: Address = ""
    pinned: bool = False
    wheels: tuple[PythonWheel, ...] = ()

    @property
    def word(self) -> str:
        """The package as a requirement."""
        return f"{self.name}=={self.version}"


def hashed_requirements(packages: Iterable[PythonPackage]) -> str:
    """A requirements file with the checksums of all files of each package."""
    lines = [" \\\n    ".join((one.word, *(f"--hash=sha256:{file.sha256}" for file in one.wheels))) for one in packages]
    return "\n".join(["# Written by gpustack", *lines]) + "\n"


class PythonEnvironment(Struct, frozen=True, kw_only=True):
    """The frameworks of a plan and the libraries that they are pinned to, for the formats of Python's installers.

    ``python`` is the interpreter's line ("3.12", "" unknown), ``platform`` in the words of wheels ("linux-x86_64"),
    ``cuda`` the major release that the packages are built for ("" none).
    """

    python: Annotated[str, Meta(pattern=r"^(3\.\d+)?$(?!\n)")]
    platform: Literal["linux-x86_64", "linux-aarch64", "windows-x86_64", "windows-aarch64"]
    cuda: Annotated[str, Meta(pattern=r"^\d*$(?!\n)")] = ""
    packages: tuple[PythonPackage, ...] = ()

    @property
    def own_indexes(self) -> tuple[str, ...]:
        """The indexes other than the default one, each once."""
        return tuple(dict.fromkeys(one.index for one in self.packages if one.index))

    @property
    def requested(self) -> tuple[PythonPackage, ...]:
        """The packages without those that another one pins."""
        return tuple(one for one in self.packages if not one.pinned)


class Plan(Struct, frozen=True, kw_only=True):
    """The document ``gpustack/plan/v1``. ``digest`` is the sha256 of everything else in canonical JSON.

    ``facts`` is the sha256 of the facts and ``facts_date`` when they were true; plans made before dates were recorded
    omit it. ``image`` is the container image of the host's system, omitted if the facts know none; ``python`` the
    environment of its frameworks, omitted without any.
    """

    schema: Literal["gpustack/plan/v1"] = "gpustack/plan/v1"
    host: Host
    host_digest: str
    request: Request
    facts: str
    facts_date: str | UnsetType = UNSET
    image: BaseImage | UnsetType = UNSET
    stack: dict[str, StackEntry] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    warnings: tuple[str, ...] = ()
    python: PythonEnvironment | UnsetType = UNSET
    digest: str = ""
