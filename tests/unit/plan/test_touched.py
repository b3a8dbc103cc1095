"""What a step may change is said by its actions; and what an installer does of an undo."""

from __future__ import annotations

from tests.golden_plans import cases, outcome
from tests.unit.plan.making import CUDA, CUDNN, DRIVER, host, plan

from gpustack.model import actions as do
from gpustack.model.steps import Step
from gpustack.plan.former import actions_of, undo_actions_of
from gpustack.plan.touched import Touched, touched, touched_by
from gpustack.plan.undoing import way_back

SYSTEMS = ("amzn2023", "azurelinux3.0", "debian12", "l4t36", "rhel7", "rhel9", "sles15.7", "ubuntu18.04", "ubuntu24.04")


def steps() -> list[Step]:
    plans = [outcome(case).plan for name in SYSTEMS for case in cases()[name]]
    return [step for one in plans if one is not None for step in one.steps]


def is_below(path: str, places: tuple[str, ...]) -> bool:
    return any(path == place or path.startswith(f"{place}/") for place in places)


def test_what_an_undo_takes_away_is_what_the_step_may_change() -> None:
    for step in steps():
        what = touched(step)
        own = (*what.places, *(one.path for one in step.artifacts), *(one.path for one in step.files))
        removed = [one for one in undo_actions_of(step) if isinstance(one, do.Remove)]
        for path in (path for one in removed for path in one.paths):
            assert is_below(path, own) or (what.settings and path.startswith(("/etc/", "/usr/share/keyrings/"))), (
                step.title
            )


def test_an_action_changes_what_it_makes_and_not_what_it_reads() -> None:
    assert touched_by(do.CopyTree(source="/usr/src/a", target="/opt/a")).places == ("/opt/a",)
    assert touched_by(do.Unpack(archive="/var/cache/a.tar", folder="/opt/a")).places == ("/opt/a",)
    assert touched_by(do.Link(path="/usr/local/cuda", target="/usr/local/cuda-13.0")).places == ("/usr/local/cuda",)
    assert touched_by(do.Run(argv=("x",), touches=("/opt/x",), packages=True)) == Touched(
        ("/opt/x",), settings=True, packages=True
    )
    assert touched_by(do.ChooseAlternative(group="cuda", choice="/usr/local/cuda-13.0")).settings
    assert touched_by(do.Look(argv=("md5sum", "--check", "/a"))) == Touched()


def test_packages_are_changed_where_a_package_manager_does_more_than_to_read() -> None:
    for step in steps():
        managed = [one for one in actions_of(step) if isinstance(one, do.PackageAction)]
        if step.kind in {"install-packages", "remove-packages"} and managed:
            assert touched(step).packages, step.title
        if step.kind == "refresh-index":
            assert touched(step) == Touched(), step.title


def test_what_a_person_has_enrolled_is_a_persons_to_undo() -> None:
    made = plan(host(secure_boot=True), DRIVER, CUDA, CUDNN)
    [enrolled] = [step for step in made.steps if step.undo and step.undo[0][0] == "mokutil"]
    assert [way_back(one) for one in undo_actions_of(enrolled)] == ["person"]


def test_kept_copies_do_better_than_the_commands_of_an_undo() -> None:
    assert way_back(do.Remove(paths=("/etc/x",))) == "files"
    assert way_back(do.ChooseAlternative(group="cuda")) == "files"
    assert way_back(do.RemovePackages(manager="apt", names=("x",))) == "packages"
    assert way_back(do.EnableRepository(manager="apt", path="/etc/apt/x.list", url="https://x")) == "files"
    assert way_back(do.DisableService(unit="x")) == "command"
    assert way_back(do.RebuildInitramfs(argv=("dracut",))) == "at the end"


def test_words_are_read_where_nothing_else_says_what_they_mean() -> None:
    former = Step(id="x", component="", kind="run", title="x", why="", commands=(("make", "-C", "/opt/a", "install"),))
    assert touched(former) == Touched(("/opt/a",), settings=True)
    assert [way_back(do.Words(argv=(name, "x"))) for name in ("rm", "apt-get", "dracut", "systemctl")] == [
        "files",
        "packages",
        "at the end",
        "command",
    ]
