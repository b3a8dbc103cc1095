"""The environment with the frameworks of a stack: wheels by checksum, each from the index that has its build."""

from __future__ import annotations

import re

from msgspec import UNSET

from gpustack.model import actions as do
from gpustack.model.frameworks import LIBRARIES, Build, WheelFile, checked_as
from gpustack.model.plan import PythonEnvironment, PythonPackage, PythonWheel, hashed_requirements
from gpustack.model.steps import FileWrite
from gpustack.plan import done
from gpustack.plan.context import Context
from gpustack.plan.draft import Draft, draft
from gpustack.plan.methods.pip import HOME, INSTALLED, new_environment, tools
from gpustack.solve.frameworks.catalog import platform_of
from gpustack.solve.frameworks.library_facts import library_files, with_parts
from gpustack.solve.question import Question
from gpustack.versions import is_within


def drafts(ctx: Context) -> list[Draft]:
    """The steps that make the environment of the frameworks, named after the first that is requested."""
    builds = _builds(ctx)
    if ctx.host.os.family == "windows":
        ctx.warn("on Windows no environment is made: --format requirements, uv, conda or pixi hold its packages")
        return []
    home = _home(builds)
    steps = [*tools(ctx), *new_environment(ctx, home, is_own_pip_enough=_has_new_pip(ctx))]
    own = sorted((one for one in builds if one.index), key=lambda one: not one.local)  # PyTorch before what requires it
    for address in dict.fromkeys(one.index for one in own):
        steps.append(_of_own_index(home, address, [one for one in builds if one.index == address], steps))
    packages = [one for one in environment(ctx).packages if one.wheels]
    if packages:
        steps.append(_hashed(home, builds, packages, steps))
    steps.append(_rest(home, builds, steps))
    return steps


def verified(ctx: Context) -> tuple[tuple[str, ...], str]:
    """The frameworks of the environment that have checks, and its interpreter; none where no environment is made."""
    builds = _builds(ctx)
    names = tuple(dict.fromkeys(name for one in builds if (name := checked_as(one.component))))
    if not names or ctx.host.os.family == "windows":
        return (), ""
    return names, f"{_home(builds)}/bin/python3"


def _home(builds: list[Build]) -> str:
    return f"{HOME}/venv-{builds[0].component}"


def _words(ctx: Context, builds: list[Build]) -> list[str]:
    """The wheels of the default index that are pinned exactly: the builds, and NVIDIA's libraries for them."""
    found = dict.fromkeys(one.named for one in builds if not one.index)
    for build in builds:
        wanted = with_parts(ctx.matrix, build.requires).items()
        found.update(dict.fromkeys(f"{name}=={number}" for name, text in wanted if (number := _exact(name, text))))
    return [word for word in found if "+" not in word]


def _exact(name: str, pin: str) -> str:
    """The version of a pin; of a toolkit's window ("<14,>=13.2.86") the oldest, which is of the same release."""
    match = re.fullmatch(r"==(.+)|<\d+,>=([\d.]+)" if name in LIBRARIES else r"==(.+)", pin)
    return match[match.lastindex or 0] if match is not None else ""


def _files(ctx: Context, word: str) -> list[WheelFile]:
    name, _, version = word.partition("==")
    here = platform_of(ctx.host)
    rows = (*library_files(ctx.matrix, name), *ctx.matrix.wheel_files(name))
    found = {row.file: row for row in rows if row.version == version and row.platform in {here, "any"}}
    return list(found.values())


def _builds(ctx: Context) -> list[Build]:
    return [one.build for one in ctx.resolution.frameworks or ()]


def _python(ctx: Context) -> str:
    """The host's python3, or its system's default; "" if unknown."""
    return next(iter(Question(ctx.matrix, ctx.host, ctx.request, mode="plan").view.values("python")), "")


def _has_new_pip(ctx: Context) -> bool:
    """Whether the pip that Python makes environments with reads all tags: it does from 3.10 on, with pip 21."""
    python = _python(ctx)
    return bool(python) and is_within(python, ">=3.10")


def environment(ctx: Context) -> PythonEnvironment:
    """The frameworks and the libraries that they are pinned to, with the checksums that the facts have."""
    builds = _builds(ctx)
    own = {one.component: one for one in builds}
    packages = [_package(ctx, one.component, one.number, index=one.index) for one in builds]
    for name, version in (word.split("==") for word in _words(ctx, builds)):
        if name not in own:
            packages.append(_package(ctx, name, version, pinned=True))
    python = _python(ctx)
    majors = {one.cuda.partition(".")[0] for one in builds if one.cuda}
    return PythonEnvironment(
        python=".".join(python.split(".")[:2]),
        platform=platform_of(ctx.host),  # type: ignore[arg-type]  # builds were found for it
        cuda=min(majors, default=""),
        packages=tuple(packages),
    )


def _package(ctx: Context, name: str, version: str, *, index: str = "", pinned: bool = False) -> PythonPackage:
    rows = [] if index else _files(ctx, f"{name}=={version}")
    wheels = tuple(PythonWheel(name=row.file, sha256=row.sha256, size=row.size or UNSET) for row in rows)
    return PythonPackage(name=name, version=version, index=index, pinned=pinned, wheels=wheels)


def _hashed(home: str, builds: list[Build], packages: list[PythonPackage], before: list[Draft]) -> Draft:
    path = f"{HOME}/requirements/{builds[0].component}-{builds[0].version}.txt"
    words = tuple(one.word for one in packages)
    return draft(
        f"install:{builds[0].component}",
        after=[one.key for one in before],
        component=builds[0].component,
        kind="pip-install",
        title=f"install {', '.join(words[:3])}{' ...' if len(words) > 3 else ''} into {home}",
        why="the wheels of the default index that the facts have checksums for; each file by its sha256",
        actions=(do.InstallWheels(home=home, requirements=path, projects=words),),
        files=(FileWrite(path=path, content=hashed_requirements(packages)),),
        undo=(
            do.RemoveWheels(home=home, names=tuple(one.name for one in packages)),
            do.Remove(paths=(path,)),
        ),
        done_when=done.succeeds(f"{home}/bin/python3", "-c", INSTALLED, *words),
        phase="applications",
        sources=tuple(dict.fromkeys(f"pkg:pypi/{one.name}@{one.version}" for one in packages)),
    )


def _of_own_index(home: str, address: str, builds: list[Build], before: list[Draft]) -> Draft:
    words = tuple(one.named for one in builds)
    return draft(
        f"index:{address}",
        after=[one.key for one in before],
        component=builds[0].component,
        kind="pip-install",
        title=f"install {', '.join(words)} from {address}",
        why="only this index has these builds; pip checks the checksums that the index states, the facts have none",
        actions=(_pip(home, *builds[0].index_option.split(), *words),),
        undo_note="the environment is removed as a whole",
        done_when=done.succeeds(f"{home}/bin/python3", "-c", INSTALLED, *words),
        phase="applications",
    )


def _rest(home: str, builds: list[Build], before: list[Draft]) -> Draft:
    words = tuple(one.named for one in builds)
    return draft(
        f"dependencies:{builds[0].component}",
        after=[one.key for one in before],
        component=builds[0].component,
        kind="pip-install",
        title="install what else they require",
        why="pip resolves the remaining requirements, wheels only; the builds above are pinned and stay as they are",
        actions=(_pip(home, *words), do.Look(argv=(f"{home}/bin/python3", "-m", "pip", "check"))),
        undo_note="the environment is removed as a whole",
        phase="applications",
    )


def _pip(home: str, *words: str) -> do.Run:
    pip = (f"{home}/bin/python3", "-m", "pip", "install", "--no-input", "--disable-pip-version-check")
    return do.Run(argv=(*pip, "--only-binary=:all:", *words), touches=(home,))
