"""What holds for every plan: its order, its ids, that it leads to where nothing is left to do, and its quoting."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.golden_plans import MIXED, NEWEST
from tests.property import worlds
from tests.property.demands import demand_ids, demand_order, led_to
from tests.tiers import examples
from tests.unit.render.cases import anywhere

from gpustack.detect.describe import describe
from gpustack.errors import UnsupportedError
from gpustack.model.host import Host, Installed, Problem, RepositoryEntry
from gpustack.model.plan import Plan
from gpustack.model.request import Request
from gpustack.plan.build import build
from gpustack.render.api import render
from gpustack.render.commands import command_line
from gpustack.solve.requirements import parse_methods

SOME = settings(worlds.STEADY, max_examples=examples(30))
FEW = settings(worlds.STEADY, max_examples=examples(20))


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


WIDE_SYSTEMS = tuple(
    (f"{row.id}{row.version}", "aarch64" if row.id == "l4t" else "x86_64")
    for row in worlds.facts().systems
    if row.repo or row.family == "windows"
)
"""Every system that something can be planned for."""

MODULES = {"l4t32": "Jetson Nano", "l4t37": "Jetson AGX Thor", "l4t38": "Jetson AGX Thor", "l4t": "Jetson AGX Orin"}
BOARDS = {**MODULES, "wsl-ubuntu": "GeForce RTX 4070", "windows": "GeForce RTX 3060"}
METHODS = ((), *((name,) for name in NEWEST), *MIXED.values(), ("cudnn=pip",), ("driver=runfile",), ("cuda=tar",))


@cache
def wide_host(place: tuple[str, str], gpu: str, driver: str | None) -> Host:
    system, arch = place
    board = next((board for start, board in BOARDS.items() if system.startswith(start)), gpu)
    return describe(worlds.facts(), os=system, arch=arch, gpus=(board,), driver=driver)


wide_hosts = st.builds(
    wide_host, st.sampled_from(WIDE_SYSTEMS), st.sampled_from(worlds.GPUS), st.sampled_from(worlds.INSTALLED)
)
hosts = st.one_of(worlds.hosts, wide_hosts)
requests = st.builds(
    lambda request, methods: replace(request, methods=parse_methods(methods)),
    worlds.requests,
    st.sampled_from(METHODS),
)


@SOME
@given(hosts, requests)
def test_every_step_comes_after_what_it_needs(host: Host, request: Request) -> None:
    demand_order(some_plan(host, request))


@SOME
@given(hosts, requests)
def test_ids_are_unique_and_say_what_a_step_does(host: Host, request: Request) -> None:
    made = some_plan(host, request)
    demand_ids(made)
    assert [step.id for step in some_plan(host, request).steps] == [step.id for step in made.steps]


@FEW
@given(hosts, requests)
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
@given(hosts, requests, ODD)
def test_no_text_of_a_host_is_run(host: Host, request: Request, text: str) -> None:
    made = some_plan(odd_host(host, text), request)
    with TemporaryDirectory() as folder:
        script = Path(folder) / "plan.sh"
        script.write_text(anywhere(render(made, "shell")), encoding="utf-8")
        done = subprocess.run(["dash", str(script), "--dry-run"], cwd=folder, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        assert [path.name for path in Path(folder).iterdir()] == ["plan.sh"]


@FEW
@given(hosts, requests, ODD)
def test_a_shell_reads_every_command_as_it_was_planned(host: Host, request: Request, text: str) -> None:
    made = some_plan(odd_host(host, text), request)
    planned_words = [argv for step in made.steps for argv in (*step.commands, *step.undo)]
    lines = [f"printf '%s\\0' {command_line(argv)}" for argv in planned_words]
    done = subprocess.run(["dash"], input="\n".join(lines).encode(), capture_output=True, check=True)
    assert done.stdout.decode().split("\0")[:-1] == [word for argv in planned_words for word in argv]
