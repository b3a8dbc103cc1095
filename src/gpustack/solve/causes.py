"""Why there is no stack: every kind of constraint, refusal, conflict and failure, each with its data.

`sentences` makes a sentence from each kind, and mypy proves that it forgets none.
"""

from __future__ import annotations

from msgspec import Struct

from gpustack.model.resolution import Exposure
from gpustack.solve.rulebook import BoundRule


class Asked(Struct, frozen=True):
    """The user requires versions of a component, or the host has it installed."""

    component: str


class HostLimit(Struct, frozen=True):
    """The rules of a component about one property of the host."""

    component: str
    property: str


class Offered(Struct, frozen=True):
    """A method must offer the component on this host."""

    component: str


class Flavour(Struct, frozen=True):
    """One flavour of the driver's kernel modules must support every GPU."""


class Pair(Struct, frozen=True):
    """The rules of one component about another."""

    subject: str
    other: str


class Denied(Struct, frozen=True):
    """No version of the component may have known vulnerabilities (``--deny-vulnerable``)."""

    component: str


class Failing(Struct, frozen=True):
    """The release of the driver must not be known to leave a GPU of the host without use."""


Constraint = Asked | HostLimit | Offered | Flavour | Pair | Denied | Failing
"""A group of constraints that can be dropped to find the cause of a failure."""


class Breach(Struct, frozen=True):
    """A rule refuses ``value``: of the other component, or of a property of the host."""

    constraint: HostLimit | Pair
    rule: BoundRule
    value: str


class NoOffer(Struct, frozen=True):
    """Nothing offers the version on this host; with ``cuda``, it has no build for that CUDA."""

    component: str
    cuda: str = ""

    @property
    def constraint(self) -> Offered:
        return Offered(self.component)


class NoFlavour(Struct, frozen=True):
    """No flavour of the driver version supports every GPU."""

    @property
    def constraint(self) -> Flavour:
        return Flavour()


class Unwanted(Struct, frozen=True):
    """The version would add a component that the stack must not contain."""

    constraint: Pair


class Vulnerable(Struct, frozen=True):
    """A security bulletin names a later fixed release than this version."""

    exposure: Exposure

    @property
    def constraint(self) -> Denied:
        return Denied(self.exposure.component)


class KnownToFail(Struct, frozen=True):
    """A source says that the GPU cannot be used with this release of the driver."""

    reason: str
    gpu: str
    sources: tuple[str, ...]

    @property
    def constraint(self) -> Failing:
        return Failing()


Refusal = Breach | NoOffer | NoFlavour | Unwanted | Vulnerable | KnownToFail
"""Why one version is refused."""


class ForeignSystem(Struct, frozen=True):
    """The vendor's programs do not run on a system with another libc or kernel, whatever their version."""

    component: str


class RefusedByHost(Struct, frozen=True):
    """The host refuses every possible version of a component."""

    component: str
    refusal: Refusal


class NoCommonFlavour(Struct, frozen=True):
    """No flavour of any driver version in question supports every GPU. ``driver`` is the preferred version."""

    driver: str


class RefusedPair(Struct, frozen=True):
    """No version of one component is compatible with any version of the other."""

    one: str
    other: str
    refusal: Refusal


class NoCombination(Struct, frozen=True):
    """These constraints cannot hold together, although every two of them can."""

    constraints: frozenset[Constraint]


Finding = ForeignSystem | RefusedByHost | NoCommonFlavour | RefusedPair | NoCombination
"""An incompatibility found by ``check``."""


class SystemUnsupported(Struct, frozen=True):
    """The host's system cannot run NVIDIA's software."""


class DriverOfAnother(Struct, frozen=True):
    """The driver, or a part of it, belongs to the platform below: WSL, a container's host, a Jetson, Windows."""

    component: str


class NoSuchMethod(Struct, frozen=True):
    """The requested method does not exist for the component."""

    component: str


class NoRepository(Struct, frozen=True):
    """NVIDIA has no package repository for the host's system."""

    component: str


class NothingOffered(Struct, frozen=True):
    """The method offers no version of the component on this host."""

    component: str


class UnknownVersion(Struct, frozen=True):
    """No known release is in the requested range."""

    component: str


class Missing(Struct, frozen=True):
    """A version that would complete a stack if the component's method offered it for that CUDA."""

    component: str
    version: str


class NoStack(Struct, frozen=True):
    """These constraints cannot hold together; without any one of them there is a stack.

    ``missing`` has a version for each ``Offered`` among them.
    """

    constraints: frozenset[Constraint]
    missing: tuple[Missing, ...] = ()


Failure = SystemUnsupported | DriverOfAnother | NoSuchMethod | NoRepository | NothingOffered | UnknownVersion | NoStack
"""Why ``plan`` has no answer."""
