"""What every plan has to be, whatever asked for it; and the machine that a plan leads to."""

from __future__ import annotations

import re

from msgspec.structs import replace

from gpustack.model.host import Host, Installed, KernelModule, RepositoryEntry
from gpustack.model.plan import PHASES, Plan
from gpustack.plan.draft import step_id_of
from gpustack.verify.declare import components

DOWNLOADED = re.compile(r"/var/cache/gpustack/\S+\.(deb|rpm|run|pub|asc|tgz|txz|tar\.(xz|gz|zst))")


def demand_order(made: Plan) -> None:
    """Phases in their order, every step after those that it depends on, no file used before a step brings it."""
    seen: set[str] = set()
    files: set[str] = set()
    phases = [PHASES.index(step.phase) for step in made.steps]
    assert phases == sorted(phases)
    for step in made.steps:
        assert seen.issuperset(step.depends_on), step.title
        files |= {artifact.path for artifact in step.artifacts} | {file.path for file in step.files}
        for word in (word for argv in step.commands for word in argv):
            path = word.removeprefix("--file=")
            assert not DOWNLOADED.fullmatch(path) or path in files, step.title
        seen.add(step.id)
    reboots = [number for number, step in enumerate(made.steps) if step.reboot_after]
    assert len(reboots) <= 1
    assert all("verify" not in step.id for step in made.steps[: reboots[0] if reboots else 0])


def demand_checks(made: Plan) -> None:
    """The plan ends with a verification that names only what can be verified."""
    verified = [argv for step in made.steps for argv in step.commands if argv[:2] == ("gpustack", "verify")]
    assert all(argv[2:] and set(argv[2:]) <= set(components()) for argv in verified), verified
    if any(entry.state != "keep" for name, entry in made.stack.items() if name in components()):
        assert len(verified) == 1


def demand_ids(made: Plan) -> None:
    """Every id once, and made from the content of its step: another command is another id."""
    ids = [step.id for step in made.steps]
    assert len(set(ids)) == len(ids)
    for step in made.steps:
        assert re.search(rf"-{step_id_of('x', step).removeprefix('x-')}(-\d+)?$", step.id)
        other = replace(step, commands=(*step.commands, ("true",)))
        assert step_id_of("x", other) != step_id_of("x", step)


def led_to(host: Host, made: Plan) -> Host:
    """The host once the plan is carried out: what it installed is there, its repositories and holds too."""
    there = dict(host.installed)
    for name, entry in made.stack.items():
        packages = tuple(
            re.split(r"[=]|-\d", word)[0]
            for step in made.steps
            if step.component == name and step.kind == "install-packages"
            for word in step.packages
        )
        if entry.state != "keep":
            there[name] = Installed(version=entry.version, method=entry.method, packages=packages)
    driver = made.stack.get("driver")
    held = {word for step in made.steps if step.kind == "hold-packages" for word in step.packages}
    files = [file for step in made.steps if step.kind == "add-repository" for file in step.files]
    return replace(
        host,
        installed=there,
        module=KernelModule(version=driver.version, flavour=driver.flavour or None, loaded=True) if driver else None,
        holds=(*host.holds, *sorted(held)),
        cross_packages=_cross_packages(made),
        repositories=tuple(
            RepositoryEntry(path=file.path, url=url) for file in files for url in _addresses(file.content)
        ),
    )


def _cross_packages(made: Plan) -> dict[str, str]:
    """The packages of a set-up that builds for another machine: those of its steps, and those that a person installs."""
    words = [word for step in made.steps if step.kind == "install-packages" for word in step.packages]
    found = {name: pin for name, _, pin in (word.partition("=") for word in words)}
    for step in made.steps:
        if step.kind == "manual":
            named = re.findall(r"[\w+-]*-cross-[\w.+-]+(?:=[\w.+-]+)?", step.title)
            found |= {name: pin for name, _, pin in (word.partition("=") for word in named)}
    return found


def _addresses(text: str) -> list[str]:
    return re.findall(r"(?:URIs: |baseurl=)(\S+)", text)
