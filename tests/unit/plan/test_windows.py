"""Plans for Windows: the vendor's zip archives, and the chapters on Windows of both cuDNN guides, section by section."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

import pytest
from msgspec.structs import replace
from tests.by_hand import words

from gpustack.detect.describe import describe
from gpustack.errors import NoSolutionError, UnsupportedError
from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model import actions as do
from gpustack.model.host import Installed
from gpustack.model.plan import Plan
from gpustack.model.request import Request
from gpustack.model.steps import Step
from gpustack.plan.build import build
from gpustack.plan.document import digest_of
from gpustack.plan.managers import windows as win
from gpustack.plan.methods import zip_cudnn
from gpustack.solve.requirements import merge, parse_methods, parse_requirement
from gpustack.solve.resolve import resolve

TOOLKITS = r"C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA"
CUDNN = r"C:\Program Files\NVIDIA\CUDNN"
ERA_805 = "cuda==11.0.* cudnn==8.0.5.*"
ERA_896 = "cuda==12.2.* cudnn==8.9.6.*"
NEWEST = "cuda cudnn tensorrt"


class Case(NamedTuple):
    os: str
    name: str
    requirements: str
    gpus: tuple[str, ...] = ("GeForce RTX 3060",)
    methods: tuple[str, ...] = ("zip",)
    arch: str = "x86_64"

    def __str__(self) -> str:
        return f"{self.os}-{self.name}"


@cache
def matrix() -> Matrix:
    return load_matrix()


def plan_of(case: Case, installed: tuple[tuple[str, str, str], ...] = ()) -> Plan:
    host = describe(matrix(), os=case.os, arch=case.arch, gpus=case.gpus)
    there = {name: Installed(version=text, method=method) for name, text, method in installed}
    host = replace(host, installed={**host.installed, **there})
    request = Request(
        requirements=merge(tuple(parse_requirement(text) for text in case.requirements.split())),
        methods=parse_methods(case.methods),
    )
    plan = replace(build(host, request, resolve(matrix(), host, request), matrix()), facts="0" * 64)
    return replace(plan, digest=digest_of(plan))


@cache
def planned(requirements: str, *installed: tuple[str, str, str], gpu: str = "Tesla T4") -> Plan:
    return plan_of(Case("windows11", "", requirements, gpus=(gpu,)), installed)


def find(plan: Plan, prefix: str) -> Step:
    found = [step for step in plan.steps if step.id.startswith(prefix)]
    assert len(found) == 1, [step.id for step in plan.steps]
    return found[0]


def arguments(step: Step, name: str, parameter: str) -> list[str]:
    """The values of one parameter in every command of that name."""
    return [argv[argv.index(parameter) + 1] for argv in step.commands if argv[0] == name and parameter in argv]


def order(plan: Plan, *prefixes: str) -> list[int]:
    return [plan.steps.index(find(plan, prefix)) for prefix in prefixes]


class TestGuideOf805:
    """cuDNN Installation Guide 8.0.5, chapter 3, "Installing cuDNN On Windows"."""

    def test_3_1_1_installing_nvidia_graphic_drivers(self) -> None:
        """The driver is Windows' own matter: the plan names the floor and brings none."""
        plan = planned(ERA_805)
        assert "driver" not in plan.stack
        assert any(
            re.search(r"On Windows the driver .* requires driver 451\.\d+ or newer", text) for text in plan.warnings
        )

    def test_3_1_2_installing_the_cuda_toolkit_for_windows(self) -> None:
        """CUDA 11.0 has no zip archives: the vendor's installer, checked, run by a person."""
        plan = planned(ERA_805)
        download, run = find(plan, "archive-cuda-11-0-3"), find(plan, "install-cuda-")
        assert download.artifacts[0].url.endswith("/11.0.3/local_installers/cuda_11.0.3_451.82_win10.exe")
        assert len(download.artifacts[0].sha256) == 64
        assert run.kind == "manual"
        assert "display driver" in run.title
        assert run.done_when == rf"path {TOOLKITS}\v11.0\bin\nvcc.exe"

    def test_3_2_downloading_cudnn_for_windows(self) -> None:
        """The guide goes through a log-in; the same file lies on the public server, and its sum is known."""
        (artifact,) = find(planned(ERA_805), "archive-cudnn").artifacts
        assert artifact.url == (
            "https://developer.download.nvidia.com/compute/redist/cudnn/v8.0.5/cudnn-11.0-windows-x64-v8.0.5.39.zip"
        )
        assert artifact.sha256.startswith("a982fb")

    def test_3_3_step_2_unzip_the_cudnn_package(self) -> None:
        """Printed cuda-8.0-windows-x64-...zip; the file is called cudnn-11.0-windows-x64-...zip."""
        step = find(planned(ERA_805), "unpack-cudnn")
        assert [argv[0] for argv in step.commands] == ["Remove-StackItem", "Expand-Archive", "New-Item"]
        assert arguments(step, "Expand-Archive", "-LiteralPath")[0].endswith(r"\cudnn-11.0-windows-x64-v8.0.5.39.zip")

    def test_3_3_step_3_copy_the_files_into_the_cuda_toolkit_directory(self) -> None:
        """Printed cuda*.dll, cuda*.h, cuda*.lib; the files are cudnn*, and the plan says that it departs."""
        step = find(planned(ERA_805), "files-cudnn")
        staging = r"C:\Program Files\gpustack\unpacked\cudnn-8.0.5.39_cuda11.0"
        assert step.commands[:3] == (
            words(do.CopyFiles(pattern=rf"{staging}\*\bin\cudnn*.dll", folder=rf"{TOOLKITS}\v11.0\bin")),
            words(do.CopyFiles(pattern=rf"{staging}\*\include\cudnn*.h", folder=rf"{TOOLKITS}\v11.0\include")),
            words(do.CopyFiles(pattern=rf"{staging}\*\lib\x64\cudnn*.lib", folder=rf"{TOOLKITS}\v11.0\lib\x64")),
        )
        assert "which prints cuda*.dll, cuda*.h and cuda*.lib, but the files are called cudnn*" in step.why

    def test_3_3_step_4_set_cuda_path(self) -> None:
        step = find(planned(ERA_805), "install-cudnn")
        assert words(do.SetVariable(name="CUDA_PATH", value=rf"{TOOLKITS}\v11.0")) in step.commands
        assert words(do.RestoreVariable(name="CUDA_PATH")) in step.undo

    def test_3_3_step_5_include_cudnn_lib_in_the_project(self) -> None:
        """Printed cuda.lib, which is the driver's import library."""
        step = find(planned(ERA_805), "project-cudnn")
        assert step.kind == "note"
        assert "Additional Dependencies: cudnn.lib (the guides print cuda.lib)" in step.why

    def test_3_4_upgrading_from_7_to_8(self) -> None:
        """The guide deletes the old lib and header files; the plan moves them aside, so that they can come back."""
        plan = planned("cuda==10.2.* cudnn==8.0.5.*", ("cuda", "10.2.89", "local"), ("cudnn", "7.6.5.32", "zip"))
        assert plan.stack["cudnn"].state == "upgrade"
        step = find(plan, "folder-cudnn")
        assert arguments(step, "Move-StackItem", "-Path") == [
            rf"{TOOLKITS}\v10.2\bin\cudnn*.dll",
            rf"{TOOLKITS}\v10.2\include\cudnn*.h",
            rf"{TOOLKITS}\v10.2\lib\x64\cudnn*.lib",
        ]
        aside = arguments(step, "Move-StackItem", "-Destination")
        assert [argv[2] for argv in step.undo if argv[0] == "Move-StackItem"] == [rf"{folder}\*" for folder in aside]
        assert order(plan, "folder-cudnn", "files-cudnn") == sorted(order(plan, "folder-cudnn", "files-cudnn"))


class TestGuideOf896:
    """cuDNN Installation Guide 8.9.6, chapter 2, "Installing cuDNN on Windows", and 3.1."""

    def test_2_1_1_installing_nvidia_graphic_drivers(self) -> None:
        plan = planned(ERA_896)
        assert any("requires driver 528.33 or newer" in text for text in plan.warnings)
        with pytest.raises(UnsupportedError, match="On Windows the driver"):
            planned("driver cuda")

    def test_2_1_2_installing_the_cuda_toolkit_for_windows(self) -> None:
        """Every part of the release has its own archive with a sha256; the installer of 12.2.2 has an md5 only."""
        plan = planned(ERA_896)
        downloads = [step for step in plan.steps if step.kind == "download" and step.component == "cuda"]
        assert len(downloads) == 30
        assert all(len(step.artifacts[0].sha256) == 64 for step in downloads)
        step = find(plan, "install-cuda-")
        assert arguments(step, "Set-StackVariable", "-Name") == ["CUDA_PATH", "CUDA_PATH_V12_2"]
        assert arguments(step, "Set-StackVariable", "-Value") == [rf"{TOOLKITS}\v12.2"] * 2
        assert rf"{TOOLKITS}\v12.2\bin" in arguments(step, "Add-StackPath", "-Entry")
        assert all(argv[argv.index("-Scope") + 1] == "Machine" for argv in step.commands)

    def test_2_2_downloading_cudnn_for_windows(self) -> None:
        (artifact,) = find(planned(ERA_896), "archive-cudnn").artifacts
        assert artifact.url.endswith("/windows-x86_64/cudnn-windows-x86_64-8.9.6.50_cuda12-archive.zip")
        assert artifact.sha256.startswith("d995cb")
        assert artifact.size == 708397651

    def test_2_3_step_2_unzip_the_cudnn_package(self) -> None:
        """Printed cuda-8.0-windows-x86_64-archive.zip."""
        step = find(planned(ERA_896), "unpack-cudnn")
        (archive,) = arguments(step, "Expand-Archive", "-LiteralPath")
        assert archive.endswith(r"\cudnn-windows-x86_64-8.9.6.50_cuda12-archive.zip")

    def test_2_3_step_3_copy_the_files_into_the_cudnn_directory(self) -> None:
        r"""Printed bin\cuda*.dll and NVIDIA\CUDA\v8.x; meant cudnn* and NVIDIA\CUDNN\v8.x. The libraries lie in lib\x64."""
        step = find(planned(ERA_896), "files-cudnn")
        staging = r"C:\Program Files\gpustack\unpacked\cudnn-8.9.6.50_cuda12"
        assert step.commands[:3] == (
            words(do.CopyFiles(pattern=rf"{staging}\*\bin\cudnn*.dll", folder=rf"{CUDNN}\v8.9\bin")),
            words(do.CopyFiles(pattern=rf"{staging}\*\include\cudnn*.h", folder=rf"{CUDNN}\v8.9\include")),
            words(do.CopyFiles(pattern=rf"{staging}\*\lib\x64\cudnn*.lib", folder=rf"{CUDNN}\v8.9\lib\x64")),
        )
        assert r"NVIDIA\CUDA for the folder NVIDIA\CUDNN" in step.why

    def test_2_3_step_4_add_the_bin_directory_to_path(self) -> None:
        step = find(planned(ERA_896), "install-cudnn")
        assert words(do.AddPath(folder=rf"{CUDNN}\v8.9\bin")) in step.commands
        assert words(do.UndoPath(folder=rf"{CUDNN}\v8.9\bin")) in step.undo

    def test_2_3_step_5_add_cudnn_to_the_visual_studio_project(self) -> None:
        why = find(planned(ERA_896), "project-cudnn").why
        assert rf"include folder {CUDNN}\v8.9\include, library folder {CUDNN}\v8.9\lib\x64" in why
        assert "cudnn.lib" in why

    def test_2_4_upgrading_cudnn(self) -> None:
        """The older folder goes off the PATH; an older release in the same folder is kept beside it."""
        plan = planned(ERA_896, ("cuda", "12.2.2", "zip"), ("cudnn", "8.8.1.3", "zip"))
        assert plan.stack["cudnn"].state == "upgrade"
        older = find(plan, "older-cudnn")
        assert words(do.RemovePath(folder=rf"{CUDNN}\v8.8\bin")) in older.commands
        assert words(do.AddPath(folder=rf"{CUDNN}\v8.8\bin", if_present=True)) in older.undo
        folder = find(plan, "folder-cudnn")
        assert folder.commands[0][:3] == ("Rename-StackFolder", "-LiteralPath", rf"{CUDNN}\v8.9")
        same = planned(ERA_896, ("cuda", "12.2.2", "zip"), ("cudnn", "8.9.5.30", "zip"))
        assert not [step for step in same.steps if step.id.startswith("older-cudnn")]

    def test_3_1_linker_dependencies_of_the_dynamic_libraries(self) -> None:
        """cublas.lib cublasLt.lib zlibwapi.lib; there is no static cuDNN for Windows."""
        why = find(planned(ERA_896), "project-cudnn").why
        assert "next to cublas.lib, cublasLt.lib and zlibwapi.lib" in why
        assert "no static cuDNN for Windows" in why


@pytest.mark.parametrize(
    ("cudnn", "cuda", "kind"),
    [
        ("8.2.1.32", "11.3.*", None),
        ("8.3.2.44", "11.5.*", "manual"),
        ("8.9.7.29", "12.2.*", "manual"),
        ("9.0.0.312", "12.4.*", "note"),  # the name is in the DLLs, the need is not known
        ("9.2.0.82", "12.4.*", None),
        ("9.27.0.42", "13.0.*", None),
    ],
)
def test_zlibwapi_where_cudnn_loads_it(cudnn: str, cuda: str, kind: str | None) -> None:
    """Could not locate zlibwapi.dll (cupy issue 6226, onnxruntime 17510): from 8.3 to 8.9, version by version."""
    plan = planned(f"cuda=={cuda} cudnn=={cudnn}")
    found = [step for step in plan.steps if step.id.startswith("zlib-cudnn")]
    assert [step.kind for step in found] == ([kind] if kind else [])
    for step in found:
        assert step.title.endswith(r"\bin\zlibwapi.dll")
        assert step.done_when.endswith(r"\bin\zlibwapi.dll")
        assert not step.artifacts


def test_no_file_name_is_composed() -> None:
    """A guessed number in a file's name is a 404: every address of a plan stands in the facts."""
    known = {
        row.url
        for subject in ("cuda-redist", "cuda-installers", "cudnn-archives", "tensorrt-archives")
        for row in matrix().archives(subject)
    }
    for requirements in (NEWEST, ERA_805, ERA_896):
        artifacts = [artifact for step in planned(requirements).steps for artifact in step.artifacts]
        assert artifacts
        assert {artifact.url for artifact in artifacts} <= known


def test_an_older_toolkit_in_the_same_folder_is_kept_aside() -> None:
    """Leftovers of another release beside new DLLs are error 126 later (tensorflow issue 54784)."""
    step = find(planned(ERA_896), "folder-cuda")
    folder, aside = rf"{TOOLKITS}\v12.2", rf"{TOOLKITS}\v12.2.before-12.2.2"
    assert step.commands[0] == words(do.RenameFolder(path=folder, new=aside))
    assert step.undo == (words(do.RemoveFiles(pattern=folder)), words(do.RenameFolder(path=aside, new=folder)))
    assert step.done_when == rf"path {folder}\.gpustack\cuda-12.2.2"


def test_folders_to_unpack_into_leave_room_for_what_is_in_the_archives() -> None:
    """Windows PowerShell 5.1 stops at paths of 260 characters, and the archives hold long ones."""
    for requirements in (NEWEST, ERA_805, ERA_896):
        for step in planned(requirements).steps:
            for folder in arguments(step, "Expand-Archive", "-DestinationPath"):
                assert len(folder) <= 80


def test_tensorrt_has_a_folder_for_each_version() -> None:
    plan = planned("cuda==12.9.* tensorrt==10.13.3.9")
    step = find(plan, "unpack-tensorrt")
    assert step.commands[2][-1] == r"C:\Program Files\NVIDIA\TensorRT\v10.13.3.9"
    assert any("has no published sha256" in text for text in plan.warnings)
    assert "no checksum is published" in find(plan, "archive-tensorrt").why
    assert "cuda-12.9" in find(plan, "archive-tensorrt").artifacts[0].url


def test_a_file_with_only_an_md5_is_checked_by_it() -> None:
    plan = planned("cuda==11.3.0")
    step = find(plan, "archive-cuda")
    assert step.commands[0][0] == "Assert-StackHash"
    assert arguments(step, "Assert-StackHash", "-Algorithm") == ["MD5"]
    assert any("has no published sha256" in text for text in plan.warnings)


def test_cudnn_9_keeps_the_folders_of_its_archive() -> None:
    step = find(planned("cuda==13.0.* cudnn==9.27.*"), "files-cudnn")
    assert [path.rpartition("\\")[2] for path in arguments(step, "Copy-StackItem", "-Path")] == [
        "bin",
        "include",
        "lib",
    ]
    assert set(arguments(step, "Copy-StackItem", "-Destination")) == {rf"{CUDNN}\v9.27"}


@pytest.mark.parametrize("requirements", [NEWEST, ERA_805, ERA_896])
def test_every_step_can_be_taken_back_or_says_why_not(requirements: str) -> None:
    for step in planned(requirements).steps:
        assert step.undo or step.undo_note, step.id
        for argv in (*step.commands, *step.undo):
            known = win.COMMANDS.get(argv[0])
            assert known is not None or step.kind == "manual" or argv[0] == "gpustack", argv


@pytest.mark.parametrize("requirements", ["cuda cudnn", ERA_805, ERA_896])
def test_nothing_is_left_to_do_on_the_host_that_a_plan_leads_to(requirements: str) -> None:
    plan = planned(requirements)
    there = tuple((name, entry.version, entry.method) for name, entry in plan.stack.items())
    again = planned(requirements, *there)
    assert again.steps == ()
    assert {entry.state for entry in again.stack.values()} == {"keep"}


def test_zip_is_for_windows() -> None:
    with pytest.raises(UnsupportedError):
        plan_of(Case("ubuntu24.04", "", "cuda cudnn", gpus=("L4",)))


def test_a_build_for_another_toolkit_is_refused_with_what_would_do() -> None:
    with pytest.raises(NoSolutionError) as caught:
        planned("cuda==11.1.* cudnn==8.0.5.*")
    assert "cuda==11.0.3" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("a.zip", "a.zip"),
        (r"..\..\Windows\x.zip", "_.._Windows_x.zip"),
        ("../x", "_x"),
        ("a[b]*?.zip", "a_b_.zip"),
        ("..", "file"),
        ("it's $(x)", "it_s_x_"),
    ],
)
def test_names_from_the_facts_cannot_leave_their_folder(name: str, safe: str) -> None:
    assert win.safe_name(name) == safe


def test_own_folders_are_by_major_and_minor() -> None:
    assert zip_cudnn.own_folder("8.9.6.50") == rf"{CUDNN}\v8.9"
    assert zip_cudnn.own_folder("9.27.0.42") == rf"{CUDNN}\v9.27"
