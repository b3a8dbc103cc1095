"""Commands of dpkg and rpm on package files that lie on the host, in a tree, without a repository."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from gpustack.model.actions import Argv

Tool = Literal["dpkg", "rpm"]

_RPM_NAME = "%{NAME}\t%|EPOCH?{%{EPOCH}:}|%{VERSION}-%{RELEASE}"
_DPKG_NAME = "${Package}\t${Version}"


def describe(tool: Tool, file: str) -> Argv:
    """Name and version of a package file, with a tab between them."""
    if tool == "dpkg":
        return ("dpkg-deb", "--show", f"--showformat={_DPKG_NAME}", file)
    return ("rpm", "--query", "--package", "--queryformat", _RPM_NAME, file)


def query(tool: Tool, root: str, names: Iterable[str]) -> Argv:
    """A line for each installed package: name, version, and with dpkg its state."""
    if tool == "dpkg":
        form = f"--showformat={_DPKG_NAME}\t${{db:Status-Abbrev}}\n"
        return ("dpkg-query", f"--admindir={root}/var/lib/dpkg", form, "--show", *names)
    return ("rpm", f"--root={root or '/'}", "--query", "--queryformat", f"{_RPM_NAME}\n", *names)


def remove(tool: Tool, root: str, names: Iterable[str]) -> Argv:
    """Refused if another package requires one of them. Configuration files stay."""
    if tool == "dpkg":
        # The force is for packages whose installation was killed: they are about to be replaced.
        return ("dpkg", f"--root={root or '/'}", "--force-remove-reinstreq", "--remove", *names)
    return ("rpm", f"--root={root or '/'}", "--erase", *names)


def install(tool: Tool, root: str, files: Iterable[str]) -> Argv:
    """All in one command, which settles their dependencies on each other; older versions too."""
    if tool == "dpkg":
        return ("dpkg", f"--root={root or '/'}", "--force-confdef", "--force-confold", "--install", *files)
    return ("rpm", f"--root={root or '/'}", "--upgrade", "--oldpackage", "--replacepkgs", *files)
