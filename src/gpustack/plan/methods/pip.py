"""Wheels in a virtual environment: pinned by checksum, without changes to the system's Python."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from gpustack.model import actions as do
from gpustack.model.offer import Wheel
from gpustack.model.resolution import Pick
from gpustack.model.steps import FileWrite
from gpustack.plan import done
from gpustack.plan.components import component
from gpustack.plan.context import Context
from gpustack.plan.downloads import fetch, path_of, reason_of
from gpustack.plan.draft import Draft, draft
from gpustack.plan.managers import NAMES, manager
from gpustack.plan.methods.base import MethodPlanner
from gpustack.plan.methods.pip_program import PROGRAMS, link
from gpustack.plan.preparation import common_tools
from gpustack.solve.rows import WHEELS

HOME = "/opt/gpustack"
_LINKS = '''"""Written by gpustack: a folder with the libraries of this environment under the names of linkers."""
import pathlib
import sys
import sysconfig

root = pathlib.Path(sys.prefix)
site = pathlib.Path(sysconfig.get_path("purelib"))
folder = root / "link"
folder.mkdir(mode=0o755, exist_ok=True)
for old in folder.iterdir():
    old.unlink()
for library in sorted(site.glob("**/*.so*")):
    if not library.name.startswith("lib") or "nvidia" not in library.parts and "tensorrt" not in str(library):
        continue
    for name in (library.name, library.name.partition(".so")[0] + ".so"):
        place = folder / name
        if not place.is_symlink():
            place.symlink_to(library)
bindings = site / "tensorrt_bindings"
if bindings.is_dir() and not (site / "tensorrt").exists():
    (site / "tensorrt").symlink_to(bindings)
include = root / "nvidia"
if not include.is_symlink():
    include.symlink_to(site / "nvidia")
'''


INSTALLED = (
    "import sys; from importlib.metadata import version; "
    "sys.exit(any(version(name) != wanted for name, _, wanted in (word.partition('==') for word in sys.argv[1:])))"
)
"""Exits with 0 if the projects given as NAME==VERSION are all installed in these versions."""


class Installer(Struct, frozen=True, kw_only=True):
    """The pip for an environment whose own pip cannot read the tags of current wheels."""

    python: str
    version: str
    sha256: str
    src: tuple[str, ...] = ()


class Pip(MethodPlanner):
    """The real wheels, each by version and sha256; never a project that downloads others while it installs."""

    def drafts(self, ctx: Context, pick: Pick) -> list[Draft]:
        rows = pick.offer.wheels
        home = environment(ctx, pick, rows)
        part = component(pick.component)
        before = [
            *tools(ctx),
            *new_environment(ctx, home, is_own_pip_enough=all(row.has_old_tag for row in rows)),
            *part.before(ctx, pick),
        ]
        _warn_of_pythons(ctx, pick, rows)
        before += [fetch(ctx, pick, row, part.phase) for row in pick.offer.archives]
        install = _install(ctx, pick, rows, home, after=[one.key for one in before])
        if pick.component in PROGRAMS:
            return [*before, install, link(home, pick, after=install.key)]
        return [*before, install, _links(home, pick, after=(install.key,), phase=part.phase)]


def environment(ctx: Context, pick: Pick, rows: tuple[Wheel, ...]) -> str:
    """The folder of the virtual environment: one per CUDA major, because its wheels search for each other there.

    A program has one of its own.
    """
    if pick.component in PROGRAMS:
        return f"{HOME}/venv-{pick.component}"
    release = pick.version if pick.component == "cuda" else ctx.version("cuda") or rows[0].cuda
    major = release.partition(".")[0]
    return f"{HOME}/venv-cuda{major}" if major else f"{HOME}/venv"


def requirements(rows: Iterable[Wheel]) -> str:
    """The requirements file of these wheels: each project once, with the checksums of its files for every Python."""
    projects: dict[str, list[str]] = {}
    for row in sorted(rows, key=lambda row: (row.part, row.file)):
        projects.setdefault(_word(row), []).append(f"--hash=sha256:{row.sha256}")
    lines = [" \\\n    ".join((word, *sums)) for word, sums in projects.items()]
    return "\n".join(["# Written by gpustack", *lines]) + "\n"


def _word(row: Wheel) -> str:
    return f"{row.part}=={row.wheel_version or row.version}"


def _own_requirements(pick: Pick) -> str:
    """The requirements file of the user's own wheels: by path and checksum."""
    lines = [f"{path_of(pick, one)} --hash=sha256:{one.sha256}" for one in pick.offer.archives]
    return "\n".join(["# Written by gpustack", *lines]) + "\n"


def _install(ctx: Context, pick: Pick, rows: tuple[Wheel, ...], home: str, *, after: Iterable[str]) -> Draft:
    path = f"{HOME}/requirements/{pick.component}-{pick.version}.txt"
    words = tuple(dict.fromkeys(_word(row) for row in rows))
    names = tuple(dict.fromkeys(row.part for row in rows))
    python = f"{home}/bin/python3"
    index = next((row.index for row in rows if row.index), "")
    return draft(
        f"install:{pick.component}",
        # Not while CUDA's wheels, also in the plan, are missing.
        after=[*after, *(() if pick.component == "cuda" else ("install:cuda",))],
        component=pick.component,
        kind="pip-install",
        title=f"install the wheels of {pick.component} {pick.version} into {home}",
        why=f"{reason_of(pick)}; each file by its sha256, wheels only, because a source distribution runs its own code "
        f"during installation{_from_the_vendor(rows)}{_elsewhere(ctx, pick, rows)}",
        actions=(do.InstallWheels(home=home, requirements=path, projects=words, index=index),),
        files=(FileWrite(path=path, content=_own_requirements(pick) if pick.offer.files else requirements(rows)),),
        undo=(do.RemoveWheels(home=home, names=names), do.Remove(paths=(path,))),
        done_when=done.succeeds(python, "-c", INSTALLED, *words),
        phase=component(pick.component).phase,
        sources=ctx.addresses(*rows),
    )


def _from_the_vendor(rows: tuple[Wheel, ...]) -> str:
    """Which wheels are only stubs in the package index, and where the real ones come from."""
    named = dict.fromkeys((row.part, row.index) for row in rows if row.index)
    return "".join(f"; {part} comes from {index}, as the package index has only a stub of it" for part, index in named)


def _elsewhere(ctx: Context, pick: Pick, rows: tuple[Wheel, ...]) -> str:
    """The origin of the libraries that these wheels load but do not contain."""
    needs = sorted({name for row in rows for name in row.requires})
    cuda = ctx.resolution.pick("cuda")
    there = ctx.host.installed.get("cuda")
    if pick.component == "cuda" or not needs or (cuda is not None and cuda.method == "pip"):
        return ""
    if cuda is None and there is None:
        ctx.warn(
            f"the wheels of {pick.component} {pick.version} load libraries of {', '.join(needs)}, and no CUDA is in "
            "the stack or on the host: --method cuda=pip installs them into the same environment"
        )
        return ""
    return f"; the libraries of {', '.join(needs)} are those of the CUDA toolkit, which the loader knows"


def _warn_of_pythons(ctx: Context, pick: Pick, rows: tuple[Wheel, ...]) -> None:
    tags = {row.python for row in rows if row.python.startswith("cp")}
    if tags:
        numbers = sorted((int(tag[2]), int(tag[3:])) for tag in tags)
        names = ", ".join(f"{major}.{minor}" for major, minor in numbers)
        ctx.warn(
            f"the wheels of {pick.component} {pick.version} are for Python {names} only: pip refuses them where "
            "python3 is another"
        )


def tools(ctx: Context) -> list[Draft]:
    """Python itself; Debian and derivatives have the module venv in a separate package."""
    if ctx.system.family not in NAMES:
        return []
    tool = manager(ctx.system.family)
    name = "python3-venv" if tool.name == "apt" else "python3"
    return common_tools(ctx, "venv-tools", [name], why="it creates virtual environments")


def new_environment(ctx: Context, home: str, *, is_own_pip_enough: bool) -> list[Draft]:
    """The virtual environment, with a pip that reads the tags of its wheels."""
    made = draft(
        f"venv:{home}",
        after=["venv-tools"],
        component="",
        kind="run",
        title=f"create the virtual environment {home}",
        why="the system's Python belongs to its package manager, which marks it as externally managed (PEP 668)",
        actions=(do.MakeVenv(folder=home),),
        undo=(do.Remove(paths=(home,), whole=True),),
        done_when=f"path {home}/bin/pip",
        phase="prerequisites",
    )
    if is_own_pip_enough:
        return [made]
    installers = ctx.matrix.rows(WHEELS, "installers", Installer)
    if not installers:
        return [made]
    path = f"{HOME}/requirements/pip.txt"
    lines = [f"pip=={row.version} ; {_marker(row.python)} --hash=sha256:{row.sha256}" for row in installers]
    newer = draft(
        f"venv-pip:{home}",
        after=[made.key],
        component="",
        kind="pip-install",
        title="install a pip that reads the tags of these wheels, if Python's own is older",
        why="pip before 20.3, which older systems install, finds none of them; otherwise nothing changes",
        actions=(do.InstallWheels(home=home, requirements=path),),
        files=(FileWrite(path=path, content="\n".join(["# Written by gpustack", *lines]) + "\n"),),
        undo=(do.Remove(paths=(path,)),),
        phase="prerequisites",
        sources=ctx.addresses(*installers),
    )
    return [made, newer]


def _marker(pythons: str) -> str:
    """A range such as ">=3.6,<3.8" as an environment marker."""
    from packaging.specifiers import SpecifierSet  # noqa: PLC0415 (for plans with wheels only)

    clauses = sorted(SpecifierSet(pythons), key=str, reverse=True)
    return " and ".join(f'python_version {clause.operator} "{clause.version}"' for clause in clauses)


def _links(home: str, pick: Pick, *, after: tuple[str, ...], phase: str) -> Draft:
    path = f"{home}/gpustack-links.py"
    return draft(
        f"links:{pick.component}",
        after=after,
        component=pick.component,
        kind="make-link",
        title=f"name the libraries for linkers in {home}/link",
        why="wheels hold libcudnn.so.9 and no libcudnn.so, under a path with Python's version in it. Programs are "
        f"built with -I{home}/nvidia/<part>/include -L{home}/link -Wl,-rpath,{home}/link; the loader of the system "
        "stays unchanged",
        actions=(do.Run(argv=(f"{home}/bin/python3", path), touches=(f"{home}/link", f"{home}/nvidia")),),
        files=(FileWrite(path=path, content=_LINKS),),
        undo=(do.Remove(paths=(f"{home}/link", f"{home}/nvidia", path), whole=True),),
        phase=phase,
    )


PLANNER = Pip()
