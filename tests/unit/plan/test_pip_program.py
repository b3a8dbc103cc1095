"""A program inside a wheel: FFmpeg ready made, by checksum, in an environment of its own."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from tests.unit.plan.making import commands, contents

from gpustack.detect.describe import describe
from gpustack.errors import GpustackError, NoSolutionError
from gpustack.matrix.index import load_matrix
from gpustack.model.plan import Plan
from gpustack.model.request import Request
from gpustack.plan.build import build
from gpustack.plan.methods.pip_program import PROGRAMS
from gpustack.solve.requirements import parse_methods, parse_requirement
from gpustack.solve.resolve import resolve

MATRIX = load_matrix()
HOME = "/opt/gpustack/venv-ffmpeg"


def plan(os: str = "ubuntu24.04", method: str = "ffmpeg=wheel", arch: str = "x86_64") -> Plan:
    host = describe(MATRIX, os=os, arch=arch, gpus=("L4",))
    request = Request(requirements=(parse_requirement("ffmpeg"),), methods=parse_methods((method,)))
    return build(host, request, resolve(MATRIX, host, request), MATRIX)


@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
def test_the_wheel_is_installed_by_checksum_into_its_own_environment_and_linked(arch: str) -> None:
    made = plan(arch=arch)
    texts = contents(made)
    assert "imageio-ffmpeg==0.8.1 \\\n    --hash=sha256:" in texts["/opt/gpustack/requirements/ffmpeg-9.0.2.txt"]
    assert ("ln", "-sfn", f"{HOME}/bin/ffmpeg", "/usr/local/bin/ffmpeg") in commands(made)
    assert not any("link" in path for path in texts)
    assert made.steps[-1].commands[0][:2] == ("gpustack", "verify")


def test_the_driver_is_one_whose_nvenc_the_program_asks_for() -> None:
    assert int(plan().stack["driver"].version.partition(".")[0]) >= 610


def test_a_python_that_cannot_install_it_is_refused_with_the_method_that_can() -> None:
    with pytest.raises(NoSolutionError, match=r"Python 3\.10 and newer") as refused:
        plan("ubuntu20.04")
    assert "--method ffmpeg=source" in str(refused.value.hint)


def test_an_archive_is_refused_as_none_has_a_checksum() -> None:
    with pytest.raises(GpustackError, match="there is no method tar for FFmpeg"):
        plan(method="ffmpeg=archive")


@pytest.mark.parametrize("count", [0, 1, 2])
def test_the_program_gets_a_fixed_name_if_there_is_exactly_one(tmp_path: Path, count: int) -> None:
    script = tmp_path / "program.py"
    script.write_text(contents(plan())[f"{HOME}/gpustack-program.py"], encoding="utf-8")
    prefix = tmp_path / "venv"
    purelib = Path(
        sysconfig.get_path(
            "purelib", "venv" if "venv" in sysconfig.get_scheme_names() else "posix_prefix", {"base": str(prefix)}
        )
    )
    folder = purelib / "imageio_ffmpeg" / "binaries"
    folder.mkdir(parents=True)
    (prefix / "bin").mkdir()
    (prefix / "pyvenv.cfg").write_text(f"home = {Path(sys.base_prefix) / 'bin'}\n")
    python = prefix / "bin" / "python3"
    python.symlink_to(Path(sys.executable).resolve())
    for number in range(count):
        (folder / f"ffmpeg-linux-x86_64-v{number}").touch()
    link = prefix / "bin" / "ffmpeg"
    for _ in range(2):
        done = subprocess.run(
            [str(python), str(script), PROGRAMS["ffmpeg"], str(link)], capture_output=True, text=True, check=False
        )
        assert (done.returncode == 0) == (count == 1), done.stderr
    assert link.is_symlink() == (count == 1)
    assert f"{count} programs" in done.stderr or count == 1
