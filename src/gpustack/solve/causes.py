"""Why there is no stack: every kind of constraint, refusal, conflict and failure, each with its data.

Nothing here is a sentence: `sentences` makes one from each kind, and mypy proves that it forgets none.
"""

from __future__ import annotations

from msgspec import Struct

from gpustack.model.resolution import Exposure
from gpustack.solve.rulebook import BoundRule


class Asked(Struct, frozen=True):
    """The user asks for versions of a component, or the host has it installed."""

    component: str


class HostLimit(Struct, frozen=True):
    """The rules of a component about one property of the host."""

    component: str
    property: str


class Offered(Struct, frozen=True):
    """A method has to offer the component on this host."""

    component: str


class Flavour(Struct, frozen=True):
    """One flavour of the driver's kernel modules has to drive every GPU."""


class Pair(Struct, frozen=True):
    """The rules of one component about another."""

    subject: str
    other: str


class Denied(Struct, frozen=True):
    """No version of the component may have vulnerabilities that a bulletin tells of (``--deny-vulnerable``)."""

    component: str


Constraint = Asked | HostLimit | Offered | Flavour | Pair | Denied
"""A group of constraints that can be left out while the cause of a failure is looked for."""


class Breach(Struct, frozen=True):
    """A rule refuses ``value``: of the other component, or of a property of the host."""

    constraint: HostLimit | Pair
    rule: BoundRule
    value: str


class NoOffer(Struct, frozen=True):
    """Nothing offers the version on this host; with ``cuda``, no build of it is for that CUDA."""

    component: str
    cuda: str = ""

    @property
    def constraint(self) -> Offered:
        return Offered(self.component)


class NoFlavour(Struct, frozen=True):
    """No flavour of the driver version drives every GPU."""

    @property
    def constraint(self) -> Flavour:
        return Flavour()


class Unwanted(Struct, frozen=True):
    """The version would bring in a component that the stack is to be without."""

    constraint: Pair


class Vulnerable(Struct, frozen=True):
    """A security bulletin names a later fixed release than this version."""

    exposure: Exposure

    @property
    def constraint(self) -> Denied:
        return Denied(self.exposure.component)


Refusal = Breach | NoOffer | NoFlavour | Unwanted | Vulnerable
"""Why one version is not taken."""


class ForeignSystem(Struct, frozen=True):
    """The vendor's programs do not run on a system of another libc or kernel, whatever their version."""

    component: str


class RefusedByHost(Struct, frozen=True):
    """The host refuses every version that a component could have."""

    component: str
    refusal: Refusal


class NoCommonFlavour(Struct, frozen=True):
    """No flavour of any driver version in question drives every GPU. ``driver`` is the preferred version."""

    driver: str


class RefusedPair(Struct, frozen=True):
    """No version of one component is compatible with any version of the other."""

    one: str
    other: str
    refusal: Refusal


class NoCombination(Struct, frozen=True):
    """These constraints cannot hold together, though every two of them can."""

    constraints: frozenset[Constraint]


Finding = ForeignSystem | RefusedByHost | NoCommonFlavour | RefusedPair | NoCombination
"""What ``check`` finds to be incompatible."""


class SystemUnsupported(Struct, frozen=True):
    """The host's system runs nothing that NVIDIA ships."""


class DriverOfAnother(Struct, frozen=True):
    """The driver, or a part of it, belongs to the owner of the machine below: WSL, a container, a Jetson, Windows."""

    component: str


class NoSuchMethod(Struct, frozen=True):
    """The method that was asked for does not exist for the component."""

    component: str


class NoRepository(Struct, frozen=True):
    """NVIDIA has no package repository for the host's system."""

    component: str


class NothingOffered(Struct, frozen=True):
    """The method offers no version of the component on this host."""

    component: str


class UnknownVersion(Struct, frozen=True):
    """No release that the facts know is in the range that was asked for."""

    component: str


class Missing(Struct, frozen=True):
    """A version with which there would be a stack, if the component's method offered it for that CUDA."""

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
