"""Every written form before its ecosystem's own judge: plans of every package family, method and era of the goldens.

With all tests: the systems in ``SOME``. In the slow tier: every golden plan.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import tree_sitter
import tree_sitter_powershell
from tests.golden_plans import Case, cases, outcome
from tests.unit.render.cases import tool

from gpustack.errors import GpustackError
from gpustack.model.plan import Plan
from gpustack.render.api import render, render_short

SOME = ("ubuntu24.04", "ubuntu18.04", "debian12", "rhel9", "rhel7", "sles15.7", "azurelinux3.0", "windows11", "l4t36")
"""apt, dnf, yum, zypper, tdnf and Windows; every method; both eras of the guides."""

FEWER = ("ubuntu24.04", "rhel7", "windows11")
"""For the judges that take half a second for a plan: the most methods, the oldest era, no package manager."""
ALL = pytest.param((), id="all", marks=pytest.mark.slow)
TIERS = [pytest.param(SOME, id="some"), ALL]
GUIDES = ("windows11/zip", "rhel9/network")
"""The guides that markdownlint reads on every run: it takes seconds for each."""

pytestmark = pytest.mark.gate

ROOT = Path(__file__).parents[3]
ENDINGS = {"markdown": "md", "short": "short.cloud-init"}
VALIDATE = """\
import sys
from cloudinit.config.schema import get_schema, validate_cloudconfig_file
schema = get_schema()
for path in sys.argv[1:]:
    try:
        validate_cloudconfig_file(path, schema)
    except Exception as error:
        print(path, error)
"""
"""What `cloud-init schema --config-file` calls, for many files in one process."""


def chosen(systems: tuple[str, ...]) -> Iterator[tuple[Case, Plan]]:
    for system in systems or tuple(cases()):
        for case in cases()[system]:
            plan = plan_of(case)
            if plan is not None:
                yield case, plan


@cache
def plan_of(case: Case) -> Plan | None:
    return outcome(case).plan


def written(systems: tuple[str, ...], form: str, folder: Path) -> list[str]:
    """The files of all plans that have this form."""
    found = []
    for case, plan in chosen(systems):
        try:
            text = render_short(plan, "cloud-init") if form == "short" else render(plan, form)
        except GpustackError:  # the form is not for this system; what it is told has tests of its own
            continue
        path = folder / f"{case.os}-{case.name}.{ENDINGS.get(form, form)}"
        path.write_text(text, encoding="utf-8")
        found.append(str(path))
    assert found
    return found


def quiet(*command: str) -> None:
    """Run a judge that has nothing to say."""
    judged = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (judged.returncode, judged.stdout) == (0, ""), judged.stdout[-3000:] + judged.stderr[-3000:]


@pytest.mark.parametrize("systems", TIERS)
def test_cloud_init_accepts_all_user_data(systems: tuple[str, ...], tmp_path: Path) -> None:
    files = [*written(systems, "cloud-init", tmp_path), *written(systems, "short", tmp_path)]
    quiet("/usr/bin/python3", "-c", VALIDATE, *files)
    # The command itself says the same of one.
    quiet("sh", "-c", '"$1" schema --config-file "$2" >/dev/null', "sh", tool("cloud-init"), files[0])


@pytest.mark.parametrize("systems", [pytest.param(FEWER, id="some"), ALL])
def test_hadolint_finds_nothing_in_any_dockerfile(systems: tuple[str, ...], tmp_path: Path) -> None:
    quiet(tool("hadolint"), "--no-color", *written(systems, "dockerfile", tmp_path))


@pytest.mark.parametrize("systems", TIERS)
def test_every_script_for_windows_is_powershell(systems: tuple[str, ...], tmp_path: Path) -> None:
    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_powershell.language()))
    for path in written(systems, "powershell", tmp_path):
        root = parser.parse(Path(path).read_bytes()).root_node
        assert not root.has_error, path


@pytest.mark.parametrize("systems", [pytest.param(FEWER, id="some"), ALL])
def test_every_plan_is_what_its_schema_says(systems: tuple[str, ...], tmp_path: Path) -> None:
    schema = tmp_path / "schema"
    command = [sys.executable, "-m", "gpustack", "schema", "plan"]
    schema.write_bytes(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    judged = subprocess.run(
        [tool("check-jsonschema"), "--schemafile", str(schema), *written(systems, "json", tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert judged.returncode == 0, judged.stdout[-3000:]


def guides(names: tuple[str, ...], folder: Path) -> list[str]:
    found = written(tuple(dict.fromkeys(name.partition("/")[0] for name in names)), "markdown", folder)
    wanted = {name.replace("/", "-") for name in names}
    return [path for path in found if not wanted or Path(path).stem in wanted]


@pytest.mark.parametrize("names", [pytest.param(GUIDES, id="some"), ALL])
def test_markdownlint_finds_nothing_in_any_guide(names: tuple[str, ...], tmp_path: Path) -> None:
    quiet(tool("pymarkdown"), "--config", str(ROOT / "ci/markdownlint.json"), "scan", *guides(names, tmp_path))
