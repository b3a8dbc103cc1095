"""Spoilt inputs of every kind, each with the command lines that read it."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import yaml
from msgspec import UNSET
from msgspec.structs import replace
from tests.fuzz.mutations import damaged, restructured, written
from tests.fuzz.test_documents_fuzz import good_hosts
from tests.install.world import make_plan
from tests.unit.render.cases import plan_for

from gpustack import resources
from gpustack.install.lock import document as locks
from gpustack.model.actions import Words as WordsAction
from gpustack.model.host import OperatingSystem
from gpustack.model.lock import Lock, LockedPackage
from gpustack.model.plan import Plan
from gpustack.model.steps import FileWrite, Step
from gpustack.plan.commands import commands_of, packages_of
from gpustack.plan.document import digest_of, dump
from gpustack.plan.draft import draft, sha256_of

Words = tuple[str, ...]
Maker = Callable[[Random, Path], list[Words]]
"""Writes an input into the folder: the command lines that are to be run, one after the other."""

HOSTS = resources.folder("matrices").parent / "tests/fixtures/hosts"
DESCRIBED = ("--os", "ubuntu24.04", "--gpu", "L4")
QUESTIONS: tuple[Words, ...] = (
    ("driver", "cuda", "cudnn"),
    ("cuda>=12,<13", "tensorrt"),
    ("ffmpeg",),
    ("container-toolkit",),
)
FORMS = ("table", "json", "shell", "ansible", "cloud-init", "dockerfile", "powershell", "markdown")


def json_of(value: object) -> Any:
    return json.loads(msgspec.json.encode(value))


def spoilt(rng: Random, document: Any) -> Any:
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        restructured(rng, document)
    return document


def perhaps_damaged(rng: Random, content: bytes) -> bytes:
    return damaged(rng, content) if rng.randrange(8) == 0 else content


# Plans and locks


@cache
def good_plans() -> tuple[bytes, ...]:
    """Of both package families, of Windows, built from source, by wheels; as documents."""
    plans = [
        plan_for("driver cuda cudnn container-toolkit", "ubuntu22.04", methods=("cudnn=tar",)),
        plan_for("cuda nv-codec-headers ffmpeg", "debian12"),
        plan_for("driver cuda cudnn", "rhel9"),
        plan_for("cuda==11.8.* cudnn==8.9.*", "windows11", gpu="Tesla T4", methods=("zip",)),
        plan_for("cuda cudnn", "ubuntu24.04", methods=("pip",)),
    ]
    return tuple(dump(plan).encode() for plan in plans)


@cache
def small_plan(*, fails: bool) -> bytes:
    """Files, which a tree without any program can be given, and perhaps a command, which fails there.

    For a system without a package manager that gpustack knows: no program of the tree is asked what is installed.
    """
    steps = [
        draft(
            name,
            component="",
            kind="write-file",
            title=f"write {name}",
            why="the test asks for it",
            phase="libraries",
            files=(
                FileWrite(path=f"/etc/{name}.conf", content="x = 1\n"),
                FileWrite(path=f"/opt/{name}/y", content=""),
            ),
        )
        for name in ("one", "two", "three")
    ]
    last = draft(
        "run", component="", kind="run", title="run", why="so", phase="applications", actions=(WordsAction(argv=("no-program", "/etc/four")),)
    )  # fmt: skip
    made = make_plan([*steps, last] if fails else steps)
    system = OperatingSystem(id="alpine", version_id="3.20", family="none")
    made = replace(made, host=replace(made.host, os=system))
    return dump(replace(made, digest=digest_of(made))).encode()


def first_edition(step: Step) -> Step:
    return replace(step, actions=UNSET, undo_actions=UNSET)


def consistent(step: Step) -> Step:
    """The step with the commands that its actions come to."""
    actions = () if step.actions is UNSET else step.actions
    back = () if step.undo_actions is UNSET else step.undo_actions
    if not actions and not back:
        return step
    return replace(step, commands=commands_of(actions), undo=commands_of(back), packages=packages_of(actions))


def sealed(rng: Random, document: Any) -> bytes:
    """The plan with the digest of what it says now, as far as it is a plan at all."""
    raw = written(document)
    with suppress(ValueError, TypeError, IndexError, RecursionError):
        plan = msgspec.convert(document, Plan)
        form = rng.choice((first_edition, consistent, consistent, lambda step: step))
        plan = replace(plan, steps=tuple(form(step) for step in plan.steps))
        return dump(replace(plan, digest=digest_of(plan))).encode()
    return raw


def spoilt_plan(rng: Random, good: bytes) -> bytes:
    document = json.loads(good)
    spoilt(rng, document["steps"] if rng.randrange(3) else document)
    return perhaps_damaged(rng, sealed(rng, document))


def bare_tree(folder: Path, name: str, version: str) -> Path:
    """A tree of this system without any program."""
    tree = folder / "tree"
    (tree / "etc").mkdir(parents=True)
    (tree / "etc/os-release").write_text(f'ID={name}\nVERSION_ID="{version}"\n')
    (tree / "etc/one.conf").write_text("before = 1\n")
    return tree


def plan(rng: Random, folder: Path) -> list[Words]:
    path = folder / "plan.json"
    if rng.randrange(3) == 0:
        path.write_bytes(spoilt_plan(rng, small_plan(fails=rng.randrange(2) == 0)))
        tree = str(bare_tree(folder, "alpine", "3.20"))
        again = ("install", rng.choice(("--rollback", "--resume")), "--root", tree, "--yes")
        return [
            ("install", str(path), "--root", tree, "--yes", "--wait", "0"),
            again,
            ("install", "--rollback", "--root", tree, "--yes"),
        ]
    good = rng.choice(good_plans())
    path.write_bytes(spoilt_plan(rng, good))
    system = json.loads(good)["host"]["os"]
    tree = str(bare_tree(folder, system["id"], system["version_id"] or ""))
    return [("render", str(path), "--format", rng.choice(FORMS)), ("install", str(path), "--root", tree, "--dry-run")]


@cache
def good_lock() -> bytes:
    made = plan_for("cuda cudnn", "ubuntu24.04")
    step = next(one for one in made.steps if one.kind == "install-packages")
    package = LockedPackage(
        kind="deb", name="libcudnn9", version="1:9.1-1", arch="amd64", url="https://a.example/c_9.deb", sha256="a" * 64, size=9, step=step.id
    )  # fmt: skip
    wheel = LockedPackage(kind="wheel", name="nvidia_cublas", version="13.0", sha256="b" * 64)
    return locks.dump(locks.of_plan(made, packages=(package, wheel), host=made.host)).encode()


def spoilt_lock(rng: Random, good: bytes) -> bytes:
    document = spoilt(rng, json.loads(good))
    with suppress(ValueError, TypeError, IndexError, RecursionError):
        lock = msgspec.convert(document, Lock)
        lock = replace(lock, plan=msgspec.json.decode(sealed(rng, json_of(lock.plan)), type=Plan))
        content = json_of(lock)
        content.pop("digest")
        return perhaps_damaged(rng, locks.dump(replace(lock, digest=sha256_of(content))).encode())
    return perhaps_damaged(rng, written(document))


def lock(rng: Random, folder: Path) -> list[Words]:
    path = folder / "stack.json"
    path.write_bytes(spoilt_lock(rng, good_lock()))
    tree = str(HOSTS / "healthy-ubuntu2404/root")
    form = rng.choice(("text", "json", "cyclonedx"))
    return [
        ("status", "--lock", str(path), "--root", tree, "--format", form),
        ("install", str(path), "--root", tree, "--dry-run"),
    ]


# Hosts, requests, facts


def host(rng: Random, folder: Path) -> list[Words]:
    path = folder / "host.json"
    path.write_bytes(perhaps_damaged(rng, written(spoilt(rng, json.loads(json.dumps(rng.choice(good_hosts())))))))
    given = ("--host", str(path))
    asked = (
        ("plan", *rng.choice(QUESTIONS), *given, "--format", rng.choice(FORMS)),
        ("explain", *rng.choice(QUESTIONS), *given),
        ("check", "cuda==12.4.1", "driver==580.95.05", *given, "--format", rng.choice(("text", "json"))),
    )
    return [rng.choice(asked)]


GOOD_TOML = {
    "stack": {"cuda": ">=12.4,<13", "cudnn": "9.*", "driver": "*"},
    "options": {
        "os": "ubuntu24.04", "gpu": ["L4"], "method": ["network", "cudnn=tar"], "policy": "newest", "kernel-module": "auto", "arch": "x86_64",
        "detailed-exitcode": False, "format": "json",
    },
}  # fmt: skip


def toml_of(value: Any) -> str:
    """A value as TOML writes it, or as something that only looks like it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml_of(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml_of, value))}]"
    return "nan" if value is None else json.dumps(value)


def toml(rng: Random, folder: Path) -> list[Words]:
    path = folder / "gpustack.toml"
    document = spoilt(rng, json.loads(json.dumps(GOOD_TOML)))
    lines = []
    for name, table in document.items():
        if isinstance(table, dict) and rng.randrange(4):
            lines += [f"[{name if name.isalpha() else json.dumps(name)}]"]
            lines += [f"{json.dumps(key)} = {toml_of(value)}" for key, value in table.items()]
        else:
            lines = [f"{json.dumps(name)} = {toml_of(table)}", *lines]
    # What it names is another input, and what it writes would be written.
    text = "\n".join(line for line in lines if not line.startswith(('"out"', '"root"', '"host"')))
    path.write_bytes(perhaps_damaged(rng, text.encode("utf-8", "surrogatepass")))
    return [(rng.choice(("plan", "explain")), "--file", str(path))]


GOOD_FACTS = yaml.safe_load("""\
schema: gpustack/matrix/v1
subject: cuda
about: mine
sources:
  mine: {address: "https://example.com/", known: tested, read: "2026-11-21"}
tables:
  releases:
    rows:
      - {version: "99.1", date: "2030-01-31", os: [linux], src: [mine]}
      - {version: "12.4.1", date: "2030-01-31", status: released, src: [mine]}
  rules:
    rows:
      - {id: mine-1, of: "cuda>=99", needs: driver, any: [">=700"], strength: required, src: [mine]}
      - {id: mine-2, of: "cuda==99.1", needs: compute-capability, none: ["<9", "==10.*"], when: {os: linux}, src: [mine]}
""")


def overlay(rng: Random, folder: Path) -> list[Words]:
    facts = folder / "facts"
    facts.mkdir()
    document = spoilt(rng, json.loads(json.dumps(GOOD_FACTS)))
    text = yaml.safe_dump(document) if rng.randrange(2) and "@" not in str(document) else written(document).decode()
    (facts / "cuda.yaml").write_bytes(perhaps_damaged(rng, text.encode("utf-8", "surrogatepass")))
    given = ("--matrices", str(facts))
    asked = (
        ("check", "cuda==12.4.1", "driver==580.95.05", *DESCRIBED, *given),
        ("plan", "cuda", *DESCRIBED, *given),
        ("matrix", "show", "cuda", *given),
        ("matrix", "list", "cuda", "--format", "json", *given),
        ("matrix", "check", *given),
    )
    return [rng.choice(asked)]
