"""The Python API: the examples of its page run, and its functions keep their names whatever is imported."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import gpustack
from gpustack import api

PAGE = (Path(__file__).resolve().parents[1] / "docs/python.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_an_example_of_the_page_runs(example: str) -> None:
    exec(compile(example, "docs/python.md", "exec"), {})  # noqa: S102 (our own page)


def test_the_page_has_every_function_with_its_parameters() -> None:
    for name in api.__all__:
        function = getattr(api, name)
        names = inspect.signature(function).parameters
        row = re.search(rf"^\| `gpustack\.{name}\((.*?)\)`", PAGE, re.MULTILINE)
        assert row is not None, name
        assert all(re.search(rf"\b{one}\b", row[1]) for one in names), name


def test_functions_and_packages_of_one_name_are_both_usable() -> None:
    from gpustack import detect, plan, render, verify
    from gpustack.plan.build import build

    host = gpustack.describe("ubuntu24.04", gpus=["L4"])
    made = plan("cuda", host=host)
    assert render(made, "json") == gpustack.render(made, "json")
    assert detect.__name__ == "gpustack.detect"
    assert verify("driver", host=host).level == "quick"
    assert callable(build)
    with pytest.raises(AttributeError, match="no attribute 'destroy'"):
        gpustack.destroy  # type: ignore[attr-defined]  # noqa: B018


def test_importing_the_package_imports_nothing_of_it() -> None:
    code = "import gpustack, sys; print([name for name in sys.modules if name.startswith('gpustack.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
