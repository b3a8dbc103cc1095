"""What the tests ask the real package managers in a root, whatever their language."""

from __future__ import annotations

import re
from fnmatch import fnmatch

from tests.integration.field import pins
from tests.integration.roots import Root

from gpustack.model.plan import Plan

_UPGRADE = {
    "apt": ("apt-get", "--simulate", "dist-upgrade"),
    "dnf": ("dnf", "upgrade", "--assumeno"),
    "zypper": ("zypper", "--non-interactive", "--xmlout", "update", "--dry-run"),
}


def installed(root: Root, family: str) -> dict[str, str]:
    """Every installed package with its version, for rpm without the epoch."""
    if family == "apt":
        told = root.must("dpkg-query", "--show", "--showformat", "${db:Status-Status}|${Package}|${Version}\n")
    else:
        told = root.must("rpm", "--query", "--all", "--queryformat", "installed|%{NAME}|%{VERSION}-%{RELEASE}\n")
    rows = [line.split("|") for line in told.splitlines()]
    return {name: version for status, name, version in rows if status == "installed"}


def missing(plan: Plan, there: dict[str, str]) -> dict[str, tuple[str, str]]:
    """The packages that the plan names with a version and that are not there in it: what is wanted and what is there."""
    wanted = dict(pins(plan))
    assert wanted, "the plan names no version at all"
    return {
        name: (pattern, there.get(name, ""))
        for name, pattern in wanted.items()
        if not fnmatch(there.get(name, ""), pattern) and not fnmatch(there.get(name, ""), f"{pattern}-*")
    }


def moved_by_upgrade(root: Root, family: str) -> set[str]:
    """The installed packages that the manager's ordinary upgrade would change or remove now."""
    done = root.run(_UPGRADE[family])
    assert done.returncode in {0, 1}, done.stdout
    assert "rror:" not in done.stdout.replace("Error: Operation aborted", ""), done.stdout
    if family == "apt":
        lines = [line for line in done.stdout.splitlines() if line.startswith(("Inst ", "Remv "))]
        words = {line.split()[1] for line in lines}
    elif family == "zypper":
        # Packages that are locked are named too, but not in the summary of what would be done.
        summary = done.stdout.partition("<install-summary")[2].partition("</install-summary>")[0]
        words = set(re.findall(r'<solvable [^>]*\bname="([^"]+)"', summary))
    else:
        words = set(done.stdout.split())
    return words & installed(root, family).keys()
