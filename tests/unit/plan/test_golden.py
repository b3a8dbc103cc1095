"""Whole plans as files under tests/golden: a difference is reviewed like code. ``--update-golden`` writes them anew."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest
from tests.golden_plans import GOLDEN, REFUSED, Outcome, cases, golden_files, matrix, outcome, script_of
from tests.property.demands import demand_checks, demand_ids, demand_order, led_to
from tests.reading import cases_in

from gpustack.model.facts import COMPONENTS
from gpustack.model.plan import Plan
from gpustack.plan.build import build
from gpustack.plan.managers import NAMES, manager
from gpustack.plan.managers.base import Package
from gpustack.render.api import FORMATS
from gpustack.solve.resolve import resolve

TABLES = [Path(__file__).parents[3] / "matrices" / f"{name}.yaml" for name in ("preparation", "driver-installers")]
ARCHIVES = ("cuda-installers", "cudnn-archives", "tensorrt-archives", "nccl", "driver-installers")
SOME = {f"{name}/network" for name in ("ubuntu16.04", "ubuntu24.04", "rhel9", "sles15.7", "azurelinux3.0")}
SOME |= {f"ubuntu24.04/{method}" for method in ("local", "tar", "runfile", "pip", "source", "container")}
"""A script of every package family and of every method: these are run as well."""

OTHER_FORMS = set(FORMATS) - {"shell", "powershell"}
"""Forms whose golden files are those of tests/unit/render/cases.py."""


QUICK = {"ubuntu24.04", "debian12", "rhel9", "sles15.7", "azurelinux3.0", "windows11"}
"""One system of each family: the others are left to the whole gate."""


@pytest.mark.parametrize(
    "system", [name if name in QUICK else pytest.param(name, marks=pytest.mark.gate) for name in cases()]
)
def test_plans_of_a_system_are_the_golden_ones(system: str, update_golden: bool) -> None:
    folder = GOLDEN / system
    outcomes = tuple(outcome(case) for case in cases()[system])
    wanted = golden_files(outcomes)
    if update_golden:
        write(folder, wanted)
    assert wanted == {path.name: path.read_text(encoding="utf-8") for path in plans_in(folder)}
    for one in outcomes:
        if one.plan is not None:
            demand_order(one.plan)
            demand_ids(one.plan)
            demand_checks(one.plan)
            demand_known_packages(one, one.plan)
            demand_nothing_left(one, one.plan)


def write(folder: Path, wanted: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for path in plans_in(folder):
        path.unlink()
    for name, text in wanted.items():
        (folder / name).write_text(text, encoding="utf-8")


def plans_in(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.suffix[1:] not in OTHER_FORMS]


def test_every_folder_of_golden_files_belongs_to_a_system() -> None:
    folders = {path.name for path in GOLDEN.iterdir() if path.is_dir() and plans_in(path)}
    assert folders - {"verify", "detect"} == cases().keys(), "verify and detect hold the texts of checks and findings"


def test_the_names_of_cases_are_unique() -> None:
    for system, there in cases().items():
        names = [case.name for case in there]
        assert len(set(names)) == len(names), system


def test_what_is_refused_says_why_and_what_would_do() -> None:
    for path in sorted(GOLDEN.glob(f"*/{REFUSED}")):
        for block in path.read_text(encoding="utf-8").split("\n\n"):
            asked, code, *said, hint = block.strip("\n").splitlines()
            assert asked, path
            assert re.match(r"exit [34]: ", code), block
            assert all(said), block
            assert len(hint) > len("hint: no"), block


FORBIDDEN = (
    r"7fa2af80\.pub",
    r"apt-key\s+(adv|add)",
    r"http://(?!localhost:)",
    r"trusted=yes|--allow-unauthenticated|--force-yes|--nogpgcheck|--no-gpg-checks|gpgcheck=0|--no-check-certificate",
    r"(?i)sslverify=(0|false)|curl[^\n]*\s(-k|--insecure)\b",
    r"<(distro|arch|version|packagepath|installpath|cudaPath|cuda_path)>|\bx\.x\.x\b|\bX\.Y\b",
    r"\$\{(OS|cudnn_version|cuda_version)\}|\$\(ARCH\)|\{(version|kernel|arch|branch|triplet)\}",
    r"--enable-cuda-sdk|[\u2013\u2014\u201c\u201d]",
)
"""What no plan may hold: withdrawn keys, unchecked packages, placeholders of a guide, dashes that no shell knows."""


@cache
def planned() -> list[Outcome]:
    """Every case that can be planned."""
    every = (outcome(case) for there in cases().values() for case in there)
    return [one for one in every if one.plan is not None]


@pytest.mark.gate
def test_no_golden_script_holds_what_none_may_hold() -> None:
    rules = re.compile(
        "|".join(f"(?:{rule})" if not rule.startswith("(?i)") else f"(?i:{rule[4:]})" for rule in FORBIDDEN)
    )
    found = {str(one.case): match.group() for one in planned() if (match := rules.search(script_of(one)))}
    assert not found


@pytest.fixture(scope="session")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Every golden plan of a system with a shell as a script: SYSTEM/CASE."""
    folder = tmp_path_factory.mktemp("scripts")
    found = []
    for one in planned():
        if one.case.form == "shell":
            path = folder / one.case.os / one.case.name
            path.parent.mkdir(exist_ok=True)
            path.write_text(script_of(one), encoding="utf-8")
            found.append(path)
    return found


@pytest.mark.parametrize("shell", ["dash", "busybox sh"])
@pytest.mark.gate
def test_scripts_are_shell(shell: str, scripts: list[Path], tmp_path: Path) -> None:
    """All of them are read; those of some systems are run as far as they say what they would do."""
    some = [path for path in scripts if f"{path.parent.name}/{path.name}" in SOME]
    assert len(some) == len(SOME)
    assert each(scripts, f'{shell} -n "$file"', tmp_path) == ""
    # This machine is none of their hosts: they refuse it, and go on without that line.
    assert each(some, f'{{ {shell} "$file" --dry-run >/dev/null 2>&1; [ $? -eq 4 ]; }}', tmp_path) == ""
    anywhere = "sed '/^demand_host /d' \"$file\""
    assert each(some, f"{anywhere} | {shell} -s -- --dry-run >/dev/null 2>&1", tmp_path) == ""
    assert not list(tmp_path.iterdir())


def each(files: list[Path], command: str, folder: Path) -> str:
    """Run a command on every file; what it said, and the files that it failed on."""
    loop = f'for file; do {command} || echo "$file"; done'
    done = subprocess.run(
        ["sh", "-c", loop, "sh", *map(str, files)], capture_output=True, text=True, cwd=folder, check=True
    )
    return done.stdout + done.stderr


def kind_of_line(line: str) -> str:
    """The line without comments, messages, and all words in it that name something: what the shell does."""
    line = line.strip()
    if line.startswith("#"):
        return ""
    line = re.sub(r"^(say|warn\w*|check_part|has_\w+) .*", r"\1 X", line)
    line = re.sub(r"'[^']*'|\S*[\d/-]\S*|\"[^\"]*\"", "X", line)
    return re.sub(r"(X ?)+", "X ", line)


@pytest.mark.gate
def test_scripts_pass_shellcheck(scripts: list[Path]) -> None:
    """The fewest that have among them every kind of line that any script has, whatever versions and sums it names."""
    kinds = {path: set(map(kind_of_line, path.read_text(encoding="utf-8").splitlines())) for path in scripts}
    missing = set().union(*kinds.values())
    checked = []
    while missing:
        checked.append(max(kinds, key=lambda path: len(kinds[path] & missing)))
        missing -= kinds[checked[-1]]
    command = ["shellcheck", "--shell=sh", "--format=gcc", *map(str, checked)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == ""
    assert done.returncode == 0, done.stderr


def demand_nothing_left(one: Outcome, plan: Plan) -> None:
    """Planned on the machine that the plan leads to, it is empty."""
    host = led_to(plan.host, plan)
    again = build(host, plan.request, resolve(matrix(), host, plan.request), matrix())
    assert [step.title for step in again.steps] == [], str(one.case)


def demand_known_packages(one: Outcome, plan: Plan) -> None:
    """Every package and version of the plan stands in the tables."""
    asking = [step for step in plan.steps if step.kind in {"install-packages", "hold-packages"} and step.component]
    known = known_words(plan) if asking else frozenset()
    for step in asking:
        unknown = [word for word in step.packages if word not in known and not is_of_a_file(word)]
        assert unknown == [], (str(one.case), step.title)


def known_words(plan: Plan) -> frozenset[str]:
    """Every package name and pinned package that the tables hold for this stack, as any package manager spells it."""
    versions = {name: entry.version for name, entry in plan.stack.items()}
    driver = versions.get("driver", "")
    words = other_words()
    for component in COMPONENTS:
        words |= words_of(component, versions.get(component, driver), driver)
    return words


@cache
def words_of(component: str, version: str, driver: str) -> frozenset[str]:
    words: set[str] = set()
    for row in matrix().packages(component):
        own = version if row.component == component else driver
        pin = row.pin.replace("{version}", own)
        words.update(row.packages)
        words.update(tool.word(Package(name=name, pin=pin)) for tool in TOOLS for name in row.packages)
        words.update(name.replace(f"*{own.partition('.')[0]}*", f"*{own}*") for name in row.packages)
    return frozenset(words)


TOOLS = [manager(family) for family in NAMES]


@cache
def other_words() -> frozenset[str]:
    """Every text of the tables of what a system needs first, and the packages of the managers' own plugins."""
    tables = strings([cases_in(path)["tables"] for path in TABLES])
    return frozenset(tables | {word for tool in TOOLS for word in (*tool.signature_tools, *tool.hold_tools())})


def strings(value: object) -> set[str]:
    """Every text in a document."""
    if isinstance(value, dict):
        return {text for item in value.values() for text in strings(item)}
    if isinstance(value, list):
        return {text for item in value for text in strings(item)}
    return {value} if isinstance(value, str) else set()


def is_of_a_file(name: str) -> bool:
    """Whether a package is one that a downloaded file holds."""
    return f" {name}_" in files_of_archives() or f" {name}-" in files_of_archives()


@cache
def files_of_archives() -> str:
    return " " + " ".join(row.file for subject in ARCHIVES for row in matrix().archives(subject))
