"""Templates of a site: laid over the built-in ones, or refused with file and line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.cli.conftest import Call

from gpustack import resources

OURS = resources.folder("templates")
PAGE = resources.folder("docs") / "templates.md"
PLAN = ("plan", "cuda==12.9.*", "--os", "ubuntu24.04", "--gpu", "L4", "--format")
DOCKERFILE = "dockerfile/Dockerfile.j2"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return tmp_path / "site"


def put(site: Path, name: str, text: str) -> None:
    (site / name).parent.mkdir(parents=True, exist_ok=True)
    (site / name).write_text(text)


def own(name: str) -> str:
    return (OURS / name).read_text()


def test_a_template_of_the_site_replaces_the_built_in_one(call: Call, site: Path) -> None:
    plain = call(*PLAN, "dockerfile")
    put(site, DOCKERFILE, "# of the site\n" + own(DOCKERFILE))
    changed = call(*PLAN, "dockerfile", "--templates", str(site))
    assert changed.code == plain.code
    assert changed.out == "# of the site\n" + plain.out
    assert call(*PLAN, "dockerfile").out == plain.out


def test_a_template_includes_the_built_in_one_and_files_of_the_site(call: Call, site: Path) -> None:
    plain = call(*PLAN, "dockerfile").out
    put(site, "include/proxy.txt", "ENV https_proxy=http://proxy:3128\n")
    put(site, DOCKERFILE, '{% include "gpustack/dockerfile/Dockerfile.j2" %}{% include "include/proxy.txt" %}')
    assert call(*PLAN, "dockerfile", "--templates", str(site)).out == f"{plain}ENV https_proxy=http://proxy:3128\n"


def test_functions_of_scripts_and_the_first_model_are_templates(call: Call, site: Path) -> None:
    put(site, "shell/helpers.sh", "# reviewed by the site\n" + own("shell/helpers.sh"))
    put(site, "triton/identity.pbtxt", "# by the site\n" + own("triton/identity.pbtxt"))
    asked = ("plan", "triton==25.09", "--os", "ubuntu24.04", "--gpu", "L4", "--templates", str(site))
    assert "# reviewed by the site" in call(*asked, "--format", "shell").out
    assert "# by the site" in call(*asked, "--format", "json").out


@pytest.mark.parametrize(
    ("name", "text", "line", "words"),
    [
        (DOCKERFILE, "FROM x\n{% for a in stages %}\n", 2, "Unexpected end of template"),
        (DOCKERFILE, "FROM x\n{{ stages }}{{ colour }}\n", 2, "has no variable 'colour'; it has comments, stages"),
        (DOCKERFILE, "FROM x\n", 1, "does not use stages: steps would be missing"),
        (DOCKERFILE, "a\n\n{{ stages.nothing.more }}\n", 3, "has no attribute 'nothing'"),
        (DOCKERFILE, "{{ stages[0].__class__.__mro__ }}\n", 1, "access to attribute '__class__'"),
        (DOCKERFILE, "{{ stages }}\n{{ 1 // 0 }}\n", 2, "division"),
        (DOCKERFILE, '{{ stages }}\n{% include "include/no" %}\n', 2, "include/no"),
        ("dockerfile/Dockerfle.j2", "x", 0, "there is no template 'dockerfile/Dockerfle.j2' to replace"),
        ("shell/helpers.sh", "x() {\n:\n}\n", 3, "lacks functions that scripts call: "),
        ("powershell/functions.ps1", "", 0, "lacks functions that scripts call: "),
    ],
)
def test_a_wrong_template_is_refused_with_its_line(
    call: Call, site: Path, name: str, text: str, line: int, words: str
) -> None:
    put(site, name, text)
    ended = call(*PLAN, "dockerfile", "--templates", str(site))
    assert ended.is_told(2), ended.err
    assert f"{site / name}{f':{line}' if line else ''}" in ended.err
    assert words in ended.err


def test_a_folder_that_is_none_and_a_file_that_is_no_text(call: Call, site: Path) -> None:
    assert call(*PLAN, "table", "--templates", str(site)).is_told(2)
    put(site, DOCKERFILE, "")
    (site / DOCKERFILE).write_bytes(b"\xff")
    ended = call(*PLAN, "table", "--templates", str(site))
    assert ended.is_told(2)
    assert "cannot be read" in ended.err


def test_the_page_names_every_template_and_every_variable() -> None:
    from jinja2 import Environment, meta

    page = PAGE.read_text()
    rows = {
        name: row
        for row in page.splitlines()
        if row.startswith("| `")
        for name in re.findall(r"`([\w-]+/[\w.-]+)`", row)
    }
    names = {str(path.relative_to(OURS)) for path in OURS.rglob("*") if path.is_file()}
    assert set(rows) == names
    for name in names:
        if name.endswith(".j2"):
            used = meta.find_undeclared_variables(Environment(autoescape=True).parse(own(name)))
            assert set(re.findall(r"`(\w+)`", rows[name].split("|", 3)[3])) == used
