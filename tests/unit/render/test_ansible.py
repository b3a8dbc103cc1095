"""The Ansible form: ansible-lint and Ansible itself judge it, run it, and run it again."""

from __future__ import annotations

import hashlib
import re
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from msgspec.structs import replace
from tests.golden_plans import cases, outcome
from tests.unit.render.cases import GOLDEN, HOSTILE, PLANS, compare, plan_for, plan_of, plan_on, texts
from tests.unit.render.galaxy import ansible

from gpustack.errors import UnsupportedError, UsageError
from gpustack.model import actions as do
from gpustack.model.host import Host
from gpustack.model.plan import Plan
from gpustack.model.steps import Artifact, FileWrite, Step
from gpustack.plan.commands import commands_of
from gpustack.render.ansible import parts_of, render
from gpustack.render.ansible_modules import uses
from gpustack.render.api import render_tree


class Unsafe(str):
    """What stood under !unsafe."""

    __slots__ = ()


class Loader(yaml.SafeLoader):
    """YAML as Ansible reads it."""


Loader.add_constructor("!unsafe", lambda loader, node: Unsafe(loader.construct_scalar(node)))


def play_of(plan: Plan) -> dict[str, Any]:
    plays = yaml.load(render(plan), Loader)  # noqa: S506 (a safe loader with one more tag)
    assert len(plays) == 1
    return dict(plays[0])


def of_module(play: dict[str, Any], module: str) -> list[dict[str, Any]]:
    return [task[f"ansible.builtin.{module}"] for task in play["tasks"] if f"ansible.builtin.{module}" in task]


def step(identity: str = "one-000000000001", *, actions: tuple[do.AnyAction, ...] = (), **fields: Any) -> Step:
    filled = {"component": "cuda", "kind": "run", "title": "do it", "why": "", "phase": "toolkit", **fields}
    said: dict[str, Any] = {"actions": actions, "commands": commands_of(actions)} if actions else {}
    return Step(id=identity, **said, **filled)


@pytest.mark.parametrize("os", PLANS)
def test_playbook_is_the_golden_one(os: str, update_golden: bool) -> None:
    compare(GOLDEN / os / "stack.ansible", plan_on(os), render(plan_on(os)), update=update_golden)


def golden_plans() -> dict[str, Plan]:
    """Every golden plan that Ansible can run, by the name of its file."""
    found = {}
    for system, there in cases().items():
        for case in there:
            plan = outcome(case).plan
            if plan is not None and plan.host.os.family != "windows":
                found[f"{system}-{case.name}"] = plan
    return found


def shapes(plan: Plan) -> set[str]:
    """The kinds of tasks of a plan: module, its arguments by name, and the other keys of the task."""
    found = set()
    parts = parts_of(plan, "x_")
    for task in [*parts.tasks, *parts.handlers]:
        [module] = [key for key in task.keys if "." in key]
        arguments = task.keys[module]
        names = sorted(arguments) if isinstance(arguments, dict) else [arguments]
        found.add(f"{module} {names} {sorted(task.keys.keys() - {module})}")
    return found


def without_repetition(plan: Plan, wanted: set[str]) -> Plan:
    """The plan without steps that it can lack and still has these kinds of tasks."""
    size = len(plan.steps)
    while size := size // 2:
        for first in range(len(plan.steps) - size, -1, -size):
            less = replace(plan, steps=plan.steps[:first] + plan.steps[first + size :])
            if wanted <= shapes(less):
                plan = less
    return plan


@pytest.mark.gate
def test_plans_pass_the_production_profile_and_the_syntax_check(tmp_path: Path) -> None:
    """As roles: the fewest golden plans, and of each the fewest steps, that have every kind of task of all golden plans."""
    plans = golden_plans()
    kinds = {name: shapes(plan) for name, plan in plans.items()}
    missing = set().union(*kinds.values())
    chosen: dict[str, Plan] = {}
    while missing:
        best = max(kinds, key=lambda name: len(kinds[name] & missing))
        chosen[best] = without_repetition(plans[best], kinds[best] & missing)
        missing -= shapes(chosen[best])
    text = "{{ 7 * 7 }} it's\n$(id)"
    files = {
        **render_tree({**chosen, "nothing": plan_of(), "hostile": hostile_plan(text)}, "ansible"),
        "one.yml": render(chosen[min(chosen)]),
        "nothing.yml": render(plan_of()),
        "hostile.yml": render(hostile_plan(text)),
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content, encoding="utf-8")
    linted = ansible("ansible-lint", "--offline", "--profile", "production", "--nocolor", cwd=tmp_path)
    assert linted.returncode == 0, linted.stdout + linted.stderr
    assert f"{len(files)} files processed" in linted.stderr.replace("  ", " "), linted.stderr
    checked = ansible(
        "ansible-playbook",
        *("-i", "inventory.yml", "--syntax-check", "playbook.yml", "one.yml", "nothing.yml", "hostile.yml"),
        cwd=tmp_path,
    )
    assert checked.returncode == 0, checked.stderr


def test_hosts_with_the_same_steps_share_a_role_and_the_inventory_groups_them() -> None:
    ubuntu, rhel = plan_on("ubuntu24.04"), plan_on("rhel9")
    other = replace(rhel, host=replace(rhel.host, os=replace(rhel.host.os, version_id="9.5", name="RHEL 9.5")))
    files = render_tree({"a": ubuntu, "b": rhel, "c": other, "d": plan_of(), "e": ubuntu}, "ansible")
    inventory = yaml.safe_load(files["inventory.yml"])["all"]["children"]
    hosts = {name: sorted(group["hosts"]) for name, group in inventory.items()}
    assert sorted(hosts.values()) == [["a", "e"], ["b", "c"], ["d"]]
    assert hosts["gpustack_nothing"] == ["d"]
    roles = {name.split("/")[1] for name in files if name.startswith("roles/")}
    assert roles == hosts.keys() - {"gpustack_nothing"}
    plays = {play["hosts"]: play for play in yaml.safe_load(files["playbook.yml"])}
    assert plays.keys() == hosts.keys()
    assert plays["gpustack_nothing"]["tasks"] == []
    assert all(plays[name]["roles"] == [{"role": name}] for name in roles)


def test_names_of_roles_stay_when_a_plan_changes() -> None:
    whole = plan_on("ubuntu24.04")
    part = replace(whole, steps=whole.steps[:-1])
    for plans in ({"a": whole, "b": part}, {"a": part, "b": whole}):
        inventory = yaml.safe_load(render_tree(plans, "ansible")["inventory.yml"])["all"]["children"]
        assert list(inventory) == ["gpustack_ubuntu24_04", "gpustack_ubuntu24_04_b"]


def test_a_role_names_its_variables_after_itself_and_takes_the_users() -> None:
    files = render_tree({"a": plan_on("ubuntu24.04")}, "ansible")
    [role] = {name.split("/")[1] for name in files if name.startswith("roles/")}
    defaults = yaml.safe_load(files[f"roles/{role}/defaults/main.yml"])
    assert defaults[f"{role}_reboot"] == "{{ gpustack_reboot | default(true) }}"
    options = yaml.safe_load(files[f"roles/{role}/meta/argument_specs.yml"])["argument_specs"]["main"]["options"]
    assert options.keys() == defaults.keys()
    tasks = yaml.load(files[f"roles/{role}/tasks/main.yml"], Loader)  # noqa: S506 (a safe loader with one more tag)
    assert all(task["register"].startswith(f"{role}_") for task in tasks if "register" in task)


@pytest.mark.parametrize("name", ["-x", "a[1:3]", "a b", "{{ x }}", ""])
def test_a_name_that_no_inventory_can_carry_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="cannot be the name of a host"):
        render_tree({name: plan_of()}, "ansible")


def test_source_files_of_apt_are_written_by_the_module_for_them() -> None:
    plan = plan_for("driver cuda container-toolkit", "debian12", methods=("network",))
    [entry] = of_module(play_of(plan), "deb822_repository")
    assert entry["signed_by"] == "/usr/share/keyrings/nvidia-container-toolkit-keyring.gpg"
    assert entry["name"] == "nvidia-container-toolkit"
    other = FileWrite(path="/etc/apt/sources.list.d/x.sources", content="Types: deb\nURIs: https://a/\nSuites: /\n")
    [copied] = [one for one in of_module(play_of(plan_of(step(files=(other,)))), "copy") if one["dest"] == other.path]
    assert copied["content"] == other.content


def hostile_plan(text: str) -> Plan:
    return plan_of(
        step(
            "files-000000000001",
            title=text,
            why=text,
            files=(FileWrite(path=f"/etc/{text}", content=text),),
            artifacts=(Artifact(url=f"https://example.com/{text}", path=f"/var/{text}", sha256="0" * 64),),
        ),
        step("run-000000000002", commands=(("prog", text, f"-{text}"),), depends_on=("files-000000000001",)),
        step(
            "install-000000000003",
            kind="install-packages",
            actions=(
                do.InstallPackages(manager="apt", packages=(do.Package(name=text),)),
                do.HoldPackages(manager="apt", names=(text,)),
                do.Run(argv=("make", text), environment=(f"A={text}",), folder=f"/{text}"),
            ),
        ),
        step("by-hand-000000000004", kind="manual", title=text, why=text, commands=(("prog", text),)),
        step("made-000000000005", commands=(("prog", "made", text),), done_when=f"path /{text}"),
        name=text,
        version=text,
        warnings=(text,),
    )


def strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for inner in value.values() for text in strings(inner)]
    if isinstance(value, list):
        return [text for inner in value for text in strings(inner)]
    return [value] if isinstance(value, str) else []


@settings(max_examples=150, deadline=None)
@given(texts)
@pytest.mark.gate
def test_hostile_strings_arrive_exactly_and_are_never_templates(text: str) -> None:
    if re.search(r"\$(?:\w|\{)", text, re.ASCII):
        with pytest.raises(UnsupportedError, match="would expand"):
            render(hostile_plan(text))
        text = text.replace("$", "%")
    play = play_of(hostile_plan(text))
    copies, commands = of_module(play, "copy"), of_module(play, "command")
    assert (f"/etc/{text}", text) in [(one["dest"], one.get("content")) for one in copies]
    [got] = of_module(play, "get_url")
    assert (got["url"], got["dest"]) == (f"https://example.com/{text}", f"/var/{text}")
    assert ["prog", text, f"-{text}"] in [one["argv"] for one in commands]
    assert ["prog", "made", text] in [one["argv"] for one in commands]
    # A condition stands on one line: a path with a line break is told by a mark instead.
    assert "\n" in text or f"/{text}" in [one.get("creates") for one in commands]
    [made] = [task for task in play["tasks"] if "A" in task.get("environment", {})]
    assert made["environment"] == {"A": text}
    assert made["ansible.builtin.command"]["chdir"] == f"/{text}"
    assert made["ansible.builtin.command"]["argv"] == ["make", text]
    assert [text] in [task["loop"] for task in play["tasks"] if "loop" in task]
    names = [one["name"] for one in of_module(play, "apt") if "name" in one]
    assert [text] in names or any(text in one["argv"] for one in commands)
    ours = re.compile(r"\{\{ (item|item\.path|gpustack_[a-z0-9_.]+) \}\}(/[a-z]+-[0-9]{12})?")
    for found in strings([play["tasks"], play.get("handlers", [])]):
        assert isinstance(found, Unsafe) or not re.search(r"\{[{%#]", found) or ours.fullmatch(found), found


def test_a_plan_with_nothing_to_do_only_gathers_facts() -> None:
    play = play_of(plan_of())
    assert (play["gather_facts"], play["tasks"]) == (True, [])


def test_tags_follow_the_components_that_a_step_serves() -> None:
    play = play_of(plan_on("ubuntu24.04"))
    tags = {task["name"]: task["tags"] for task in play["tasks"]}
    assert tags["Add the NVIDIA repository ubuntu2404/x86_64"] == ["cuda", "cudnn", "driver"]
    assert tags["Verify the stack"] == ["verify"]
    assert all(task["tags"] for task in play["tasks"])


def test_modules_are_native_where_there_is_one() -> None:
    ubuntu, rhel = play_of(plan_on("ubuntu24.04")), play_of(plan_on("rhel9"))
    assert {tuple(one) for one in map(sorted, of_module(ubuntu, "dpkg_selections"))} == {("name", "selection")}
    assert any(one.get("deb") for one in of_module(ubuntu, "apt"))
    assert all(re.fullmatch("[0-9A-F]{40}", one["fingerprint"]) for one in of_module(rhel, "rpm_key"))
    assert of_module(rhel, "systemd_service") == [{"name": "nvidia-persistenced.service", "enabled": True}]
    for play in (ubuntu, rhel):
        assert not [one for one in of_module(play, "command") if one["argv"][0] in {"apt-get", "curl", "systemctl"}]
        assert not of_module(play, "shell")


@pytest.mark.parametrize(
    ("action", "module", "arguments"),
    [
        (
            do.CheckKeyFile(source="/k", sums="/s", target="/t"),
            "lineinfile",
            {"path": "/k", "regexp": "^Version", "state": "absent"},
        ),
        (
            do.DisableRepository(manager="apt", path="/l.list", url="https://a.b/c"),
            "copy",
            {
                "src": "/l.list",
                "dest": "/l.list.saved-by-gpustack",
                "remote_src": True,
                "mode": "preserve",
                "force": False,
            },
        ),
        (
            do.Words(argv=("sed", "-i", "-e", "s/a/b/", "--", "/k")),
            "command",
            {"argv": ["sed", "-i", "-e", "s/a/b/", "--", "/k"]},
        ),
        (do.Words(argv=("apt-get", "install", "a")), "command", {"argv": ["apt-get", "install", "a"]}),
        (do.Remove(paths=("/a",)), "command", {"argv": ["rm", "-rf", "--", "/a"]}),
        (do.EnableService(unit="u", now=True), "systemd_service", {"name": "u", "enabled": True, "state": "started"}),
        (
            do.InstallPackages(manager="dnf", packages=(do.Package(name="a", pin="1"),), replaces=True),
            "dnf",
            {"name": ["a-1"], "state": "present", "allowerasing": True},
        ),
        (
            do.InstallPackages(manager="yum", packages=(do.Package(name="a", pin="1"),), downgrade=True),
            "command",
            {"argv": ["yum", "-y", "downgrade", "a-1"]},
        ),
        (
            do.InstallPackages(manager="dnf", packages=(do.Package(name="--setopt=x"),)),
            "command",
            {"argv": ["dnf", "-y", "install", "--setopt=x"]},
        ),
        (
            do.DisableRepository(manager="dnf", path="/a", url=""),
            "command",
            {"argv": ["mv", "--", "/a", "/a.disabled-by-gpustack"], "removes": "/a"},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_action_becomes_the_module_that_does_the_same(action: do.AnyAction, module: str, arguments: object) -> None:
    first, *_ = uses((action, do.Words(argv=("prog",))))
    assert (first.module, first.arguments) == (f"ansible.builtin.{module}", arguments)


def test_lines_of_a_source_list_are_commented_out_as_sed_would() -> None:
    [_, edit] = uses((do.DisableRepository(manager="apt", path="/l.list", url="https://a.b/c"),))
    assert edit.arguments == {"path": "/l.list", "regexp": "^(deb.*a\\.b/c.*)$", "replace": "# off by gpustack: \\1"}


@pytest.mark.gate
def test_it_runs_and_runs_again_and_check_mode_tells_before_what_changes(tmp_path: Path) -> None:
    plan = real_plan(tmp_path)
    (tmp_path / "play.yml").write_text(render(plan), encoding="utf-8")
    (tmp_path / "hosts").write_text(
        f"localhost ansible_connection=local ansible_become=false ansible_python_interpreter={sys.executable}\n",
        encoding="utf-8",
    )
    arguments = ("-i", "hosts", "-e", f"gpustack_marks={tmp_path}/marks", "play.yml")

    def counted(*more: str) -> tuple[int, int]:
        ran = ansible("ansible-playbook", *more, *arguments, cwd=tmp_path)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        recap = re.search(r"changed=(\d+) .*failed=(\d+)", ran.stdout)
        assert recap
        return int(recap[1]), int(recap[2])

    told = counted("--check", "--diff")
    assert not (tmp_path / "root").exists()
    assert counted() == told
    assert told[0] > 8
    root = tmp_path / "root"
    assert (root / "hostile").read_bytes() == "".join(HOSTILE).encode()
    assert (root / "copy").read_bytes() == (root / "hostile").read_bytes()
    assert (root / "link").readlink() == Path("hostile")
    assert (root / "unpacked" / "inner").read_text(encoding="utf-8") == "inner\n"
    assert (root / "arguments").read_bytes() == "".join(f"{text}\0" for text in HOSTILE).encode()
    assert (root / "handled").read_text(encoding="utf-8") == "once\n"
    assert counted() == (0, 0)
    assert (root / "handled").read_text(encoding="utf-8") == "once\n"


def real_plan(folder: Path) -> Plan:
    """A plan whose every step a test may run for real."""
    root, archive = folder / "root", folder / "archive.tar.gz"
    (folder / "inner").write_text("inner\n", encoding="utf-8")
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder / "inner", "top/inner")
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    every = ("sh", "-c", f'printf "%s\\0" "$@" >{root}/arguments', "sh", *HOSTILE)
    handled = ("sh", "-c", f"echo once >>{root}/handled")
    plan = plan_of(
        step("file-000000000001", files=(FileWrite(path=f"{root}/hostile", content="".join(HOSTILE)),)),
        step("link-000000000002", kind="make-link", actions=(do.Link(path=f"{root}/link", target="hostile"),)),
        step(
            "fetch-000000000003",
            kind="download",
            artifacts=(Artifact(url=f"file://{archive}", path=f"{root}/a.tar.gz", sha256=digest),),
        ),
        step(
            "unpack-000000000004",
            kind="extract",
            actions=(
                do.MakeFolders(paths=(f"{root}/unpacked",)),
                do.Unpack(archive=f"{root}/a.tar.gz", folder=f"{root}/unpacked"),
            ),
        ),
        step("words-000000000005", commands=(every,)),
        step(
            "copy-000000000009",
            actions=(
                do.Remove(paths=(f"{root}/copy",), whole=True),
                do.CopyTree(source=f"{root}/hostile", target=f"{root}/copy"),
            ),
        ),
        step("image-000000000006", kind="rebuild-initramfs", commands=(handled,), depends_on=("file-000000000001",)),
        step("look-000000000007", kind="run", actions=(do.Verify(components=()),), phase="verification"),
    )
    return replace(plan, host=Host())
