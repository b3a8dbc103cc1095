"""What holds for every plan: its order, its ids, that it leads to where nothing is left to do, and its quoting."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.property import worlds

from gpustack.errors import UnsupportedError
from gpustack.model.host import Host, Installed, KernelModule, Problem, RepositoryEntry
from gpustack.model.plan import PHASES, Plan
from gpustack.model.request import Request
from gpustack.plan.build import build
from gpustack.plan.draft import step_id_of
from gpustack.render.api import render
from gpustack.render.commands import command_line

DOWNLOADED = re.compile(r"/var/cache/gpustack/\S+\.(deb|rpm|run|pub|asc|tgz|tar\.(xz|gz|zst))")
SOME = settings(worlds.STEADY, max_examples=30)
FEW = settings(worlds.STEADY, max_examples=20)


def planned(host: Host, request: Request) -> Plan | None:
    found = worlds.answer(host, request)
    if found is None:
        return None
    try:
        return build(host, request, found, worlds.facts())
    except UnsupportedError:
        return None


def some_plan(host: Host, request: Request) -> Plan:
    made = planned(host, request)
    assume(made is not None)
    assert made is not None
    return made


@SOME
@given(worlds.hosts, worlds.requests)
def test_every_step_comes_after_what_it_needs(host: Host, request: Request) -> None:
    made = some_plan(host, request)
    seen: set[str] = set()
    files: set[str] = set()
    phases = [PHASES.index(step.phase) for step in made.steps]
    assert phases == sorted(phases)
    for step in made.steps:
        assert seen.issuperset(step.depends_on)
        files |= {artifact.path for artifact in step.artifacts} | {file.path for file in step.files}
        for word in (word for argv in step.commands for word in argv):
            path = word.removeprefix("--file=")
            assert not DOWNLOADED.fullmatch(path) or path in files, step.title
        seen.add(step.id)
    reboots = [number for number, step in enumerate(made.steps) if step.reboot_after]
    assert len(reboots) <= 1
    assert all("verify" not in step.id for step in made.steps[: reboots[0] if reboots else 0])


@SOME
@given(worlds.hosts, worlds.requests)
def test_ids_are_unique_and_say_what_a_step_does(host: Host, request: Request) -> None:
    made = some_plan(host, request)
    ids = [step.id for step in made.steps]
    assert len(set(ids)) == len(ids)
    for step in made.steps:
        content = step_id_of("x", step).removeprefix("x-")
        assert re.search(rf"-{content}(-\d+)?$", step.id)
    assert [step.id for step in some_plan(host, request).steps] == ids


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
        repositories=tuple(
            RepositoryEntry(path=file.path, url=url) for file in files for url in _addresses(file.content)
        ),
    )


def _addresses(text: str) -> list[str]:
    return re.findall(r"(?:URIs: |baseurl=)(\S+)", text)


@FEW
@given(worlds.hosts, worlds.requests)
def test_nothing_is_left_to_do_where_a_plan_leads_to(host: Host, request: Request) -> None:
    made = some_plan(host, request)
    again = planned(led_to(host, made), request)
    assert again is not None
    assert {name: (entry.version, entry.state) for name, entry in again.stack.items() if name in made.stack} == {
        name: (entry.version, "keep") for name, entry in made.stack.items()
    }
    assert again.steps == ()


ODD = st.sampled_from(
    (
        "$(touch canary)",
        "`touch canary`",
        "'; touch canary; '",
        '"; touch canary #',
        "a\ntouch canary\n",
        "--help",
        "*",
        "\\",
    )
)


def odd_host(host: Host, text: str) -> Host:
    """The host with a hostile text wherever a machine's own files could hold one."""
    return replace(
        host,
        os=replace(host.os, name=text, codename=text, like=(text,)),
        kernel=text,
        next_kernel=text,
        holds=(text, f"nvidia{text}"),
        pins=(text,),
        streams=(text, f"nvidia-driver:{text}"),
        repositories=(
            RepositoryEntry(
                path=f"/etc/apt/sources.list.d/{text}.list", url=f"https://developer.download.nvidia.com/{text}"
            ),
            RepositoryEntry(path=text, url="https://developer.download.nvidia.com/compute/cuda/repos/debian10/x86_64/"),
        ),
        installed={"cudnn": Installed(version="7.6.5.32", method="network", path=text, origin=text, packages=(text,))},
        problems=(Problem(id=text, message=text, fix=text, severity="warn"),),
    )


@FEW
@given(worlds.hosts, worlds.requests, ODD)
def test_no_text_of_a_host_is_run(host: Host, request: Request, text: str) -> None:
    made = some_plan(odd_host(host, text), request)
    with TemporaryDirectory() as folder:
        script = Path(folder) / "plan.sh"
        script.write_text(render(made, "shell"), encoding="utf-8")
        done = subprocess.run(["dash", str(script), "--dry-run"], cwd=folder, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        assert [path.name for path in Path(folder).iterdir()] == ["plan.sh"]


@FEW
@given(worlds.hosts, worlds.requests, ODD)
def test_a_shell_reads_every_command_as_it_was_planned(host: Host, request: Request, text: str) -> None:
    made = some_plan(odd_host(host, text), request)
    planned_words = [argv for step in made.steps for argv in (*step.commands, *step.undo)]
    lines = [f"printf '%s\\0' {command_line(argv)}" for argv in planned_words]
    done = subprocess.run(["dash"], input="\n".join(lines).encode(), capture_output=True, check=True)
    assert done.stdout.decode().split("\0")[:-1] == [word for argv in planned_words for word in argv]
