"""The environment with the frameworks of a stack: wheels by checksum, each from the index that has its build."""

from __future__ import annotations

from gpustack.model import actions as do
from gpustack.model.frameworks import Build, WheelFile
from gpustack.model.steps import FileWrite
from gpustack.plan import done
from gpustack.plan.context import Context
from gpustack.plan.draft import Draft, draft
from gpustack.plan.methods.pip import HOME, INSTALLED, new_environment, tools
from gpustack.solve.frameworks.catalog import pins, platform_of


def drafts(ctx: Context) -> list[Draft]:
    """The steps that make the environment of the frameworks, named after the first that is requested."""
    builds = [one.build for one in ctx.resolution.frameworks or ()]
    home = f"{HOME}/venv-{builds[0].component}"
    steps = [*tools(ctx), *new_environment(ctx, home, has_old_tags=False)]
    for address in dict.fromkeys(one.index for one in builds if one.index):
        steps.append(_of_own_index(home, address, [one for one in builds if one.index == address], steps))
    hashed = {word: files for word in _words(builds) if (files := _files(ctx, word))}
    if hashed:
        steps.append(_hashed(ctx, home, builds, hashed, steps))
    steps.append(_rest(home, builds, steps))
    return steps


def _words(builds: list[Build]) -> list[str]:
    """The wheels of the default index that are pinned exactly: the builds, and NVIDIA's libraries for them."""
    found = dict.fromkeys(one.named for one in builds if not one.index)
    for build in builds:
        found.update(dict.fromkeys(f"{name}{text}" for name, text in pins(build.requires).items() if text[:2] == "=="))
    return [word for word in found if "+" not in word]


def _files(ctx: Context, word: str) -> list[WheelFile]:
    name, _, version = word.partition("==")
    here = platform_of(ctx.host)
    rows = ctx.matrix.wheel_files(name)
    return [row for row in rows if row.version == version and row.platform in {here, "any"}]


def requirements(hashed: dict[str, list[WheelFile]]) -> str:
    """A requirements file with the checksums of every file of each wheel, for any Python."""
    lines = [
        " \\\n    ".join((word, *(f"--hash=sha256:{row.sha256}" for row in rows))) for word, rows in hashed.items()
    ]
    return "\n".join(["# Written by gpustack", *lines]) + "\n"


def _hashed(
    ctx: Context, home: str, builds: list[Build], hashed: dict[str, list[WheelFile]], before: list[Draft]
) -> Draft:
    path = f"{HOME}/requirements/{builds[0].component}-{builds[0].version}.txt"
    words = tuple(hashed)
    return draft(
        f"install:{builds[0].component}",
        after=[one.key for one in before],
        component=builds[0].component,
        kind="pip-install",
        title=f"install {', '.join(words[:3])}{' ...' if len(words) > 3 else ''} into {home}",
        why="the wheels of the default index that the facts have checksums for; each file by its sha256",
        actions=(do.InstallWheels(home=home, requirements=path, projects=words),),
        files=(FileWrite(path=path, content=requirements(hashed)),),
        undo=(
            do.RemoveWheels(home=home, names=tuple(word.partition("==")[0] for word in words)),
            do.Remove(paths=(path,)),
        ),
        done_when=done.succeeds(f"{home}/bin/python3", "-c", INSTALLED, *words),
        phase="applications",
        sources=ctx.addresses(*(row for rows in hashed.values() for row in rows[:1])),
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
        actions=(_pip(home, "--index-url", address, *words),),
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
