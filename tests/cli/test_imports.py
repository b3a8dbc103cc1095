"""What a command may import: start-up is most of what a command costs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gpustack import resources

HEAVY = frozenset(
    {"typer", "rich", "requests", "jinja2", "pynvml", "pydantic", "yaml", "asyncio", "email", "ssl", "socket"}
)

UNUSED = frozenset(
    {
        "typing_extensions", "inspect", "dataclasses", "difflib", "subprocess", "tempfile", "random", "http.client",
        "urllib.parse", "ipaddress", "hashlib", "platform", "msgspec.inspect", "msgspec._json_schema",
    }
)  # fmt: skip
"""What the standard library and others bring at a price, and a command that only reads does not need."""

TELL = """\
import sys
from gpustack.__main__ import run
try:
    run()
finally:
    sys.stderr.write("\\n" + " ".join(sys.modules))
"""


def imported(environment: dict[str, str], *arguments: str, code: int = 0) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", TELL, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=environment,
        timeout=60,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return set(done.stderr.decode().rpartition("\n")[2].split())


@pytest.fixture
def host_file(tmp_path: Path, call: Callable) -> Path:
    plan = json.loads(call("plan", "cuda", "--os", "ubuntu24.04", "--gpu", "L4", "--format", "json").out)
    path = tmp_path / "host.json"
    path.write_text(json.dumps(plan["host"]))
    return path


def test_plan_for_a_saved_host_imports_nothing_heavy(environment: dict[str, str], host_file: Path) -> None:
    load_facts_once(environment)
    modules = imported(environment, "plan", "cuda", "--host", str(host_file), "--format", "json")
    assert not (HEAVY | UNUSED) & modules


def test_check_for_a_described_host_imports_nothing_heavy(environment: dict[str, str]) -> None:
    load_facts_once(environment)
    modules = imported(environment, "check", "cuda==12.4.1", "cudnn==9.1.0", "--os", "ubuntu22.04", "--gpu", "L4")
    assert not (HEAVY | UNUSED) & modules


def test_detect_imports_nothing_heavy_for_an_ordinary_tree(environment: dict[str, str], tmp_path: Path) -> None:
    load_facts_once(environment)
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").write_text('ID=ubuntu\nVERSION_ID="24.04"\n')
    modules = imported(environment, "detect", "--root", str(tmp_path))
    unused = {"shutil", "gpustack.detect.record", "gpustack.solve.kernel_log"}
    assert not (HEAVY | UNUSED | unused) & modules


def test_a_quick_verification_of_a_saved_host_imports_nothing_heavy(
    environment: dict[str, str], host_file: Path
) -> None:
    load_facts_once(environment)
    modules = imported(environment, "verify", "--level", "quick", "--host", str(host_file), "--quiet", code=1)
    solver = {"gpustack.solve.security", "gpustack.solve.forward_compat", "gpustack.solve.kernel_log"}
    assert not (HEAVY | UNUSED | solver | {"ctypes"}) & modules


def test_a_smoke_level_imports_the_checks_of_what_is_asked_for(environment: dict[str, str], host_file: Path) -> None:
    load_facts_once(environment)
    modules = imported(environment, "verify", "nccl", "--level", "smoke", "--host", str(host_file), "--quiet", code=1)
    checks = {name for name in modules if name.endswith((".quick", ".smoke", ".full"))}
    assert checks == {"gpustack.verify.nccl.quick", "gpustack.verify.nccl.smoke"}


def load_facts_once(environment: dict[str, str]) -> None:
    """The compiled facts are made (with yaml) where a checkout has none that are fresh."""
    imported(environment, "matrix", "list")


COMPILED = """\
import sys
from gpustack.__main__ import run, _import_msgspec
_import_msgspec()
texts = []
sys.addaudithook(lambda event, what: texts.append(what[0]) if event == "compile" and what[1] == "<string>" else None)
try:
    run()
finally:
    sys.stderr.write("\\n" + repr(texts))
"""


@pytest.mark.parametrize(
    "words",
    [
        ["plan", "driver", "cuda", "cudnn", "tensorrt", "ffmpeg", "--os", "ubuntu24.04", "--gpu", "L4"],
        ["plan", "cuda", "cudnn", "--os", "rhel9", "--gpu", "H100", "--method", "runfile"],
        ["plan", "vllm", "--os", "ubuntu24.04", "--gpu", "L4"],
        ["explain", "cuda", "cudnn", "--os", "windows11", "--gpu", "L4"],
        ["check", "torch==2.9.1", "driver==580.95.05", "cuda==13.0.2", "--os", "debian12", "--gpu", "RTX 5090"],
        ["check", "nvenc-av1", "--os", "ubuntu24.04", "--gpu", "L4"],
        ["detect", "--root", "tests/fixtures/hosts/k9-secure-boot-unsigned"],
    ],
    ids=" ".join,
)
def test_types_of_rows_have_no_annotation_that_is_text(environment: dict[str, str], words: list[str]) -> None:
    """Python compiles each such text when the type is first used: a tenth of a plan's start."""
    load_facts_once(environment)
    done = subprocess.run(
        [sys.executable, "-c", COMPILED, *words], capture_output=True, env=environment, timeout=60, check=False
    )
    assert done.returncode in {0, 3}, done.stderr
    assert done.stderr.decode().rpartition("\n")[2] == "[]"


def test_version_imports_no_parser(environment: dict[str, str]) -> None:
    modules = imported(environment, "--version")
    assert not {"typer", "msgspec", "gpustack.cli"} & modules


def test_the_facts_are_found_in_the_checkout() -> None:
    assert (resources.folder("matrices") / "cuda.yaml").is_file()


@pytest.mark.parametrize("form", ["json", "table", "markdown", "powershell", "dockerfile", "cloud-init"])
def test_rendering_a_saved_plan_imports_only_its_own_form(
    environment: dict[str, str], tmp_path: Path, form: str
) -> None:
    load_facts_once(environment)
    path = tmp_path / "plan.json"
    system = ["windows11", "--method", "zip"] if form == "powershell" else ["ubuntu24.04"]
    imported(environment, "plan", "cuda", "--os", *system, "--gpu", "L4", "--out", str(path), "--quiet")
    modules = imported(environment, "render", str(path), "--format", form)
    templates = {"jinja2"} if form in {"dockerfile", "cloud-init"} else set()
    assert not (HEAVY - templates) & modules
    others = {"gpustack.matrix.index", "gpustack.solve.resolve", "gpustack.plan.build", "gpustack.detect.api"}
    others |= {
        f"gpustack.render.{name}" for name in ("ansible", "cloud_init", "dockerfile", "markdown", "powershell", "shell")
    }
    assert others & modules <= {f"gpustack.render.{form.replace('-', '_')}"}
