"""FFmpeg on Windows: the guide's recipe with MSYS2 and Visual C++, its known problems handled.

No Windows is at hand: the bash scripts of the plan run here for real, with a stand-in for Visual C++'s cl.exe and for
FFmpeg's configure, whose only work is to say what they were given.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest
from tests.by_hand import words
from tests.unit.plan.test_windows import Case, find, order, plan_of

from gpustack.errors import UnsupportedError
from gpustack.model import actions as do
from gpustack.model.plan import Plan
from gpustack.plan.managers import windows as win
from gpustack.plan.methods import source_windows, source_windows_scripts
from gpustack.plan.methods.source_windows_scripts import Build, bash, ffmpeg, unix

GUIDE = "cuda==12.9.* nv-codec-headers==12.1.14.0 ffmpeg==7.1.5"


def planned(requirements: str = GUIDE, os_name: str = "windows11", gpu: str = "Tesla T4") -> Plan:
    return plan_of(Case(os_name, "source", requirements, gpus=(gpu,)))


def script(plan: Plan, name: str) -> str:
    found = {file.path.rpartition("\\")[2]: file.content for step in plan.steps for file in step.files}
    return found[name]


class TestFfmpegForWindows:
    """Compiling for Windows, of the FFmpeg guide."""

    @pytest.mark.parametrize("system", ["windows10", "windows11", "windows-server2022", "windows-server2025"])
    def test_every_windows_has_the_recipe(self, system: str) -> None:
        plan = planned("ffmpeg", system, "GeForce RTX 4090")
        assert plan.stack["ffmpeg"].method == "source"
        assert "cuda" not in plan.stack
        folder, studio, build, install = order(plan, "folder-build", "studio-ffmpeg", "build-ffmpeg", "install-ffmpeg")
        assert folder < build < install
        assert studio < build

    def test_msys2_is_pinned_and_its_own(self) -> None:
        """The guide's www.msys2.org, without a hand on it: an archive with its sum, apart from any C:\\msys64."""
        plan = planned()
        (artifact,) = find(plan, "archive-msys2").artifacts
        assert len(artifact.sha256) == 64
        assert find(plan, "unpack-msys2").commands[0] == (artifact.path, "-y", r"-oC:\gpustack")
        assert "pacman --noconfirm --sync --needed -- diffutils git make nasm pkgconf tar xz" in script(
            plan, "packages-ffmpeg.sh"
        )

    def test_only_administrators_write_where_the_compiler_reads(self) -> None:
        step = find(planned(), "folder-build")
        names = [argv[0] for argv in step.commands]
        rights = next(argv for argv in step.commands if argv[0] == "icacls.exe")
        assert "/inheritance:r" in rights
        assert not any(word.endswith(("F", "M", "W")) and "S-1-5-32-545" in word for word in rights)
        assert names.index("Rename-StackFolder") < names.index("icacls.exe") < names.index("Remove-StackItem")
        # The sign that it is done lies where users cannot leave one.
        assert step.done_when.startswith(rf"path {win.ROOT}")

    def test_visual_studio_is_a_person_s_matter(self) -> None:
        step = find(planned(), "studio-ffmpeg")
        assert step.kind == "manual"
        assert "nvcc 12.9" in step.why
        assert "_MSC_VER from 1910 up to below 1950" in step.why
        assert step.done_when.startswith("path ")

    def test_sources_are_pinned(self) -> None:
        """The guide clones the newest state of both."""
        plan = planned()
        sums = [
            artifact.sha256 for step in plan.steps for artifact in step.artifacts if "ffmpeg" in artifact.url.lower()
        ]
        assert len(sums) == 2
        assert all(sums)
        cloned = planned("nv-codec-headers==12.0.16.1")
        text = script(cloned, "clone-nv-codec-headers.sh")
        assert "--branch n12.0.16.1" in text
        assert "checkout --quiet --detach 451da99614412a7f9526ef301a5ee0c7a6f9ad76" in text
        assert "studio" not in " ".join(step.id for step in cloned.steps)

    def test_sources_that_cannot_be_checked_are_refused(self) -> None:
        with pytest.raises(UnsupportedError, match="no checksum or commit is known") as caught:
            planned("ffmpeg==4.3.9")
        assert "9.0.2" in caught.value.hint

    def test_nv_sdk_is_made_for_libnpp_only(self) -> None:
        """The guide copies the toolkit's files whatever is built; configure accepts no path with blanks."""
        plan = planned()
        step = find(plan, "nv-sdk-ffmpeg")
        toolkit = r"C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA\v12.9"
        assert (
            words(do.CopyFiles(pattern=rf"{toolkit}\lib\x64\*", folder=r"C:\gpustack\nv_sdk-12.9.2\lib"))
            in step.commands
        )
        assert "--extra-ldflags=-libpath:C:/gpustack/nv_sdk-12.9.2/lib" in script(plan, "build-ffmpeg.sh")
        newer = planned("cuda==13.0.* ffmpeg==9.0.2")
        assert not any(step.id.startswith("nv-sdk") for step in newer.steps)
        assert "libnpp" not in script(newer, "build-ffmpeg.sh")

    def test_configure_line(self) -> None:
        """Printed with typographic dashes and --enable-cuda-sdk; written for this FFmpeg, toolkit and GPU."""
        line = next(line for line in script(planned(), "build-ffmpeg.sh").splitlines() if "./configure" in line)
        words = shlex.split(line)
        assert words[:3] == ["./configure", "--toolchain=msvc", "--disable-shared"]
        assert "--nvccflags=-gencode arch=compute_75,code=sm_75 -O2" in words
        assert {"--enable-nvenc", "--enable-ffnvcodec", "--enable-cuvid", "--enable-cuda-nvcc"} <= {*words}
        assert "--enable-cuda-sdk" not in words
        assert line.isascii()

    def test_known_problems_are_named_where_they_are_handled(self) -> None:
        plan = planned()
        build, install = find(plan, "build-ffmpeg"), find(plan, "install-ffmpeg")
        assert "Relocation truncated to fit" in build.why
        assert "-libpath:" in build.why
        assert "typographic dashes" in build.why
        assert "libbz2-1.dll" in install.why
        assert "/usr of MSYS2" in find(plan, "install-nv-codec-headers").why
        assert any("has not been run on Windows" in text for text in plan.warnings)

    def test_everything_is_taken_back(self) -> None:
        plan = planned()
        install = find(plan, "install-ffmpeg")
        prefix = rf"{win.ROOT}\programs\ffmpeg-7.1.5"
        assert install.undo == (words(do.UndoPath(folder=rf"{prefix}\bin")), words(do.RemoveFiles(pattern=prefix)))
        assert words(do.RemoveFiles(pattern=source_windows.WORK)) in find(plan, "folder-build").undo
        assert all(step.undo or step.undo_note for step in plan.steps)

    def test_arm_is_refused(self) -> None:
        with pytest.raises(UnsupportedError, match="source"):
            plan_of(Case("windows11", "", "ffmpeg", gpus=(), arch="aarch64"))


class TestScripts:
    @pytest.mark.parametrize("requirements", [GUIDE, "nv-codec-headers==12.0.16.1 ffmpeg==9.0.2"])
    def test_bash_reads_them(self, requirements: str) -> None:
        for step in planned(requirements).steps:
            for file in step.files:
                if file.path.endswith(".sh"):
                    subprocess.run(["bash", "-n"], input=file.content, text=True, check=True)
                    assert "\r" not in file.content

    def test_batch_files_hold_nothing_of_a_plan(self) -> None:
        """cmd has no quoting that could be relied on: what differs goes into bash scripts."""
        for text in (source_windows_scripts.STUDIO, source_windows_scripts.UPDATE):
            assert text.isascii()
            assert text.count("\r\n") == text.count("\n")
        assert script(planned(), "studio.cmd") == script(planned("ffmpeg==9.0.2"), "studio.cmd")

    @pytest.mark.parametrize(("path", "said"), [(r"C:\a b\c", "/c/a b/c"), ("/srv/x", "/srv/x"), (r"d:\x", "/d/x")])
    def test_unix(self, path: str, said: str) -> None:
        assert unix(path) == said

    @pytest.mark.parametrize("word", ["$(touch owned)", "a'b", "x; exit 3", "`id`", "a\nb", 'say "hi"', "-n"])
    def test_a_word_arrives_as_it_is(self, word: str, tmp_path: Path) -> None:
        result = run_build(tmp_path, words=(word,))
        assert result.returncode == 0, result.stderr
        assert json.loads((tmp_path / "src" / "words.json").read_text())[4:] == [word]

    @pytest.mark.parametrize(("number", "accepted"), [("1909", False), ("1910", True), ("1949", True), ("1950", False)])
    def test_nvcc_takes_only_some_compilers(self, number: str, accepted: bool, tmp_path: Path) -> None:
        result = run_build(tmp_path, msvc=("1910", "1950"), number=number)
        assert (result.returncode == 0) is accepted
        assert ("set STUDIO to a Visual Studio" in result.stderr) is not accepted

    def test_a_build_without_the_encoder_is_no_success(self, tmp_path: Path) -> None:
        """configure loses NVENC in silence with headers that it does not know."""
        result = run_build(tmp_path, encoder="libx264")
        assert result.returncode != 0
        assert not (tmp_path / "src" / "installed").exists()

    def test_without_the_tools_for_x64_nothing_is_built(self, tmp_path: Path) -> None:
        result = run_build(tmp_path, target="x86")
        assert result.returncode == 1
        assert "not set up for x64" in result.stderr

    def test_a_failure_stops_a_script(self) -> None:
        assert subprocess.run(["bash"], input=bash(["false", "true"]), text=True, check=False).returncode == 1


def run_build(
    folder: Path,
    *,
    words: tuple[str, ...] = (),
    msvc: tuple[str, str] = ("", ""),
    number: str = "1943",
    encoder: str = "h264_nvenc",
    target: str = "x64",
) -> subprocess.CompletedProcess[str]:
    """The build script, run by bash in a folder of stand-ins."""
    source, tools = folder / "src", folder / "tools"
    for place in (source, tools):
        place.mkdir()
    programs = {
        source
        / "configure": "exec python3 -c \"import json,sys; json.dump(sys.argv, open('words.json', 'w'))\" \"$@\"",
        source / "ffmpeg.exe": f"echo ' V....D {encoder}'",
        tools / "cl.exe": f"echo {number}",
    }
    for path, text in programs.items():
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    (source / "Makefile").write_text("all:\n\t@true\ninstall:\n\t@touch installed\n")
    build = Build(folder=str(source), stage=str(folder / "stage"), words=words, headers=("", ""), msvc=msvc)
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "VSCMD_ARG_TGT_ARCH": target}
    return subprocess.run(["bash"], input=ffmpeg(build), text=True, capture_output=True, check=False, env=environment)
