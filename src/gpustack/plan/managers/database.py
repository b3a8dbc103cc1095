"""The package database of the tree: its content, what a step changed in it, and how to revert that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Literal

from msgspec import Struct

from gpustack.errors import GpustackError
from gpustack.model.actions import Argv

Snapshot = dict[str, str]
"""From a package ("NAME:ARCH" or "NAME.ARCH") to "VERSION WANT STATUS" of dpkg, or the versions of rpm."""

Query = Callable[[Argv], str]
"""Runs a read-only command and returns its output. Raises GpustackError if it fails."""

Tool = Literal["dpkg", "rpm", ""]

_DPKG = ("dpkg-query", "--show", "--showformat", "${Package}:${Architecture}\\t${Version} ${Status}\\n")
_RPM = ("rpm", "--query", "--all", "--queryformat", "%{NAME}.%{ARCH}\\t%|EPOCH?{%{EPOCH}:}:{}|%{VERSION}-%{RELEASE}\\n")
_APT = (
    *("apt-get", "-y", "--allow-downgrades", "--allow-change-held-packages", "--no-install-recommends"),
    *("-o", "DPkg::Lock::Timeout=300"),
)


INDEXES: Argv = ("apt-get", "--print-uris", "update")
"""Prints the addresses of every index that apt would read."""

_RPM_NAME = "%{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}"


def addresses(words: Iterable[str]) -> Argv:
    """Prints the addresses from which apt would download packages, each NAME=VERSION."""
    return ("apt-get", "download", "--print-uris", *words)


def rpm_is_there(*names: str) -> Argv:
    """Fails unless rpm has all of these."""
    return ("rpm", "--query", *names)


def rpm_in_file(path: str, form: str = _RPM_NAME) -> Argv:
    """Prints a field of an .rpm file, by default its full name; signatures are checked elsewhere."""
    return ("rpm", "--query", "--package", "--nosignature", "--queryformat", form, path)


def rpm_is_whole(name: str) -> Argv:
    """Fails if files of a package differ from what rpm installed; configuration files may."""
    return ("rpm", "--verify", "--nodeps", "--noscripts", "--noconfig", "--nomtime", name)


def tool_of(family: str | None) -> Tool:
    """The tool behind the package database of a family of systems."""
    if family == "apt":
        return "dpkg"
    return "rpm" if family in {"dnf", "yum", "tdnf", "zypper"} else ""


def snapshot(tool: Tool, query: Query) -> Snapshot:
    """Every package in the database."""
    if tool == "dpkg":
        rows = (line.partition("\t") for line in query(_DPKG).splitlines())
        found = {}
        for name, _, state in rows:
            version, want, flag, status = (["", *state.split()] if state.startswith(" ") else state.split())[:4]
            if status != "not-installed":
                found[name] = f"{version} {want} {status}" if flag == "ok" else f"{version} {want} {flag}"
        return found
    if tool == "rpm":
        versions: dict[str, list[str]] = {}
        for line in query(_RPM).splitlines():
            name, _, version = line.partition("\t")
            versions.setdefault(name, []).append(version)
        return {name: ",".join(sorted(found)) for name, found in versions.items()}
    return {}


def difference(old: Mapping[str, str], new: Mapping[str, str]) -> Snapshot:
    """What must change in ``old`` to get ``new``; "" marks removed packages."""
    changed = {name: state for name, state in new.items() if old.get(name) != state}
    return changed | {name: "" for name in old if name not in new}


def applied(old: Mapping[str, str], changes: Mapping[str, str]) -> Snapshot:
    """Return ``old`` with a difference applied."""
    return {name: state for name, state in {**old, **changes}.items() if state}


def settled(there: Mapping[str, str]) -> Snapshot:
    """The same, with packages that await triggers counted as installed: triggers run with the next change."""
    return {name: state.replace("triggers-pending", "installed") for name, state in there.items()}


def own(there: Mapping[str, str], seen: Mapping[str, set[str]], first: Mapping[str, str]) -> Snapshot:
    """Return ``there`` without changes by others: versions that the run never saw (``seen``, and ``first``).

    A package with only such a version is dropped; of several coexisting versions, the others stay.
    """
    found = {}
    for name, state in there.items():
        states = {first.get(name, ""), *seen.get(name, ())}
        known = {version for one in states for version in version_in(one).split(",")}
        versions = version_in(state).split(",")
        ours = [version for version in versions if version in known]
        if ours and len(versions) > 1:
            found[name] = ",".join(ours)
        elif ours or not state:
            found[name] = state
    return found


def is_installed(tool: Tool, state: str) -> bool:
    """Whether a package in this state is completely installed."""
    return bool(state) and (tool == "rpm" or state.endswith((" installed", " triggers-pending", " triggers-awaited")))


def version_in(state: str) -> str:
    """The version in a state."""
    return state.split(" ", 1)[0]


def broken(tool: Tool, there: Mapping[str, str]) -> list[str]:
    """The packages whose installation stopped half-way."""
    whole = (" installed", " config-files", " triggers-pending", " triggers-awaited")
    return [name for name, state in there.items() if tool == "dpkg" and not state.endswith(whole)]


def repairs(tool: Tool) -> tuple[Argv, ...]:
    """The commands that complete an interrupted transaction of the package manager."""
    if tool == "dpkg":
        return (("dpkg", "--configure", "-a"),)
    return ()


def commands_back(
    tool: Tool, family: str, wanted: Mapping[str, str], there: Mapping[str, str], others: Iterable[str]
) -> tuple[tuple[Argv, ...], ...]:
    """The commands that restore the packages of ``wanted``, in groups.

    ``wanted`` maps the packages concerned to their former state, "" for those not installed before. The commands of a
    group are alternatives: each is tried if the one before it fails. None of them removes ``others``, except apt
    without ``--no-remove``: `removed` says what that would remove.
    """
    if tool == "dpkg":
        return _dpkg_back(wanted, there)
    return _rpm_back(family, wanted, there, others)


MARKS = "/var/lib/apt/extended_states"
"""apt's record of automatically installed packages."""


def marks(text: str, names: Iterable[str]) -> tuple[Argv, ...]:
    """The commands that mark packages as in a former ``text`` of that file."""
    blocks = (block.split() for block in text.split("\n\n"))
    automatic = {words[1] for words in blocks if words[:1] == ["Package:"] and words[-1] == "1"}
    groups: dict[str, list[str]] = {"auto": [], "manual": []}
    for name in names:
        groups["auto" if name.partition(":")[0] in automatic else "manual"].append(name)
    return tuple(("apt-mark", how, *found) for how, found in groups.items() if found)


def simulated(argv: Argv) -> Argv:
    """The command that simulates a command of apt; () for others, and if apt removes nothing."""
    return (argv[0], "--simulate", *argv[1:]) if argv[0] == "apt-get" and "--no-remove" not in argv else ()


def removed(told: str) -> set[str]:
    """The packages that a simulated command of apt would remove, without their architecture."""
    return {line.split()[1].partition(":")[0] for line in told.splitlines() if line.startswith(("Remv ", "Purg "))}


def _dpkg_back(wanted: Mapping[str, str], there: Mapping[str, str]) -> tuple[tuple[Argv, ...], ...]:
    groups: list[tuple[Argv, ...]] = []
    held = [name for name in wanted if " hold " in there.get(name, "")]
    if held:
        groups.append((("apt-mark", "unhold", *held),))
    back = [
        f"{name}={version_in(state)}"
        for name, state in wanted.items()
        if is_installed("dpkg", state)
        and not (is_installed("dpkg", there.get(name, "")) and version_in(there[name]) == version_in(state))
    ]
    gone = [name for name, state in wanted.items() if not state and there.get(name)]
    if back:
        groups.append(((*_APT, "--no-remove", "install", *back),))
        if gone:
            # The old conflicts with the new, and something in both needs the new: all in one transaction.
            groups[-1] += ((*_APT, "install", *back, *(f"{name}-" for name in gone)),)
    if gone:
        # sudo refuses to be removed if root has no password; the machine did not have it before.
        front = ("env", "SUDO_FORCE_REMOVE=yes") if any(name.partition(":")[0] == "sudo" for name in gone) else ()
        groups.append(((*front, "dpkg", "--force-remove-reinstreq", "--purge", *gone),))
    removed = [
        name
        for name, state in wanted.items()
        if state.endswith(" config-files") and is_installed("dpkg", there.get(name, ""))
    ]
    if removed:
        groups.append((("dpkg", "--remove", *removed),))
    holds = [name for name, state in wanted.items() if " hold " in state]
    if holds:
        groups.append((("apt-mark", "hold", *holds),))
    return tuple(groups)


def _rpm_back(
    family: str, wanted: Mapping[str, str], there: Mapping[str, str], others: Iterable[str]
) -> tuple[tuple[Argv, ...], ...]:
    groups: list[tuple[Argv, ...]] = []
    back, gone = [], []
    for name, state in wanted.items():
        old, now = set(filter(None, state.split(","))), set(filter(None, there.get(name, "").split(",")))
        bare, _, arch = name.rpartition(".")
        suffix = "" if arch == "(none)" else f".{arch}"
        missing = old - now
        if missing and bare != "gpg-pubkey":
            back += [(bare, version, suffix) for version in sorted(missing)]
        if not old or not missing:
            gone += [f"{bare}-{version.rpartition(':')[2]}{suffix}" for version in sorted(now - old)]
    if back and family == "zypper":
        words = [f"{bare}{suffix}={version}" for bare, version, suffix in back]
        groups.append((("zypper", "--non-interactive", "--no-refresh", "install", "--oldpackage", *words),))
    elif back:
        words = [f"{bare}-{version}{suffix}" for bare, version, suffix in back]
        kept = ",".join(sorted({name.rpartition(".")[0] for name in others}))
        erasing = ("install", "--allowerasing", f"--setopt=protected_packages={kept}")
        groups.append(tuple((family, "-y", *way, *words) for way in (("install",), ("downgrade",), erasing)))
    if gone:
        groups.append((("rpm", "--erase", *gone),))
    return tuple(groups)


class RpmPackage(Struct, frozen=True):
    """One rpm package in one version."""

    name: str
    version: str
    arch: str

    @property
    def spelled(self) -> str:
        """As on rpm's command line: without the epoch."""
        suffix = f".{self.arch}" if self.arch != "(none)" else ""
        return f"{self.name}-{self.version.rpartition(':')[2]}{suffix}"


def rpm_files(wanted: Mapping[str, str]) -> list[RpmPackage]:
    """The packages of a part of a snapshot, without keys, which rpm keeps as packages without files."""
    found = []
    for name, state in wanted.items():
        bare, _, arch = name.rpartition(".")
        found += [RpmPackage(bare, version, arch) for version in state.split(",") if bare != "gpg-pubkey"]
    return found


def again(family: str, torn: Iterable[RpmPackage]) -> Argv:
    """The command that reinstalls packages in their installed version."""
    if family == "zypper":
        words = (f"{one.name}.{one.arch}={one.version}" for one in torn)
        return ("zypper", "--non-interactive", "--no-refresh", "install", "--force", "--oldpackage", *words)
    return (family, "-y", "reinstall", *(one.spelled for one in torn))


def demand(tool: Tool, wanted: Mapping[str, str], there: Mapping[str, str]) -> None:
    """Raise GpustackError, naming them, if packages differ from their former state."""
    wrong = [name for name, state in wanted.items() if there.get(name, state) != state]
    if tool and wrong:
        shown = ", ".join(f"{name} ({version_in(wanted[name]) or 'absent'} before)" for name in sorted(wrong)[:12])
        msg = f"{len(wrong)} packages differ from before: {shown}"
        gone = any(wanted[name] for name in wrong)
        hint = "the repository may no longer have that version" if gone else "others may need them"
        raise GpustackError(msg, code="packages-changed", hint=hint)
