"""The lock as checks of a report: one for each component of its stack."""

from __future__ import annotations

from gpustack.install.lock.drift import REINSTALLS, Drift, Status
from gpustack.model.lock import Lock
from gpustack.model.results import CheckResult


def lock_checks(lock: Lock, status: Status) -> tuple[CheckResult, ...]:
    """``COMPONENT.lock`` passes if nothing of that component differs from the lock."""
    owner = _owners(lock)
    first = next(iter(lock.stack), "driver")
    of: dict[str, list[Drift]] = {name: [] for name in lock.stack}
    for one in status.drift:
        name = "driver" if one.kind in {"module", "kernel"} else owner.get(one.what, one.what)
        of.setdefault(name if name in lock.stack else first, []).append(one)
    return tuple(
        CheckResult(
            id=f"{name}.lock",
            component=name,
            status="fail" if found else "pass",
            title=f"{name} matches its lock",
            reason="; ".join(one.message for one in found),
            fix=_fixes(found),
            expected=", ".join(one.expected for one in found),
            actual=", ".join(one.found or "not there" for one in found),
        )
        for name, found in of.items()
    )


def _fixes(found: list[Drift]) -> str:
    """The fixes of all differences: each command once, with everything that it reinstalls."""
    named: dict[str, list[str]] = {}
    for one in found:
        command, _, package = one.cure.removesuffix(")").partition(REINSTALLS)
        named.setdefault(command if package else one.cure, []).extend([package] if package else [])
    return "; ".join(f"{one}{REINSTALLS}{', '.join(names)})" if names else one for one, names in named.items())


def _owners(lock: Lock) -> dict[str, str]:
    """The component that a package belongs to: of its step, or of the host that names it."""
    components = {step.id: step.component for step in lock.plan.steps if step.component}
    found = {one.name: components[one.step] for one in lock.packages if one.step in components}
    for name, installed in (lock.host.installed if lock.host else {}).items():
        found |= dict.fromkeys(installed.packages, name)
    return found
