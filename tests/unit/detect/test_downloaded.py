"""What a downloaded file is, whatever it is called: read inside files in the vendor's form."""

from __future__ import annotations

import gzip
import io
import random
import tarfile
from contextlib import suppress
from pathlib import Path

import pytest
from tests.integration.catalogue import Package
from tests.integration.debs import build_deb, build_repository, sign_repository
from tests.integration.vendor_files import (
    AARCH64,
    CUDNN_805,
    CUDNN_896,
    NCCL_2185,
    TENSORRT_861,
    X86_64,
    dll,
    driver_run,
    elf,
    repository_deb,
    tar,
    wheel,
    zipped,
)

from gpustack.detect.describe import describe
from gpustack.detect.downloaded.api import read_own_file
from gpustack.errors import UsageError
from gpustack.matrix.index import load_matrix
from gpustack.model.host import Host
from gpustack.model.own_file import OwnFile

MATRIX = load_matrix()
CUDNN = "cudnn-linux-x86_64-8.9.6.50_cuda12-archive"
TENSORRT = "TensorRT-8.6.1.6"


def host(os: str = "ubuntu22.04", arch: str | None = None) -> Host:
    return describe(MATRIX, os=os, arch=arch)


def read(component: str, path: Path, at: Host | None = None) -> OwnFile:
    return read_own_file(MATRIX, component, path, at or host())


def refusal(component: str, path: Path, at: Host | None = None) -> str:
    with pytest.raises(UsageError) as caught:
        read(component, path, at)
    return f"{caught.value.code}: {caught.value.message}"


def repository(folder: Path, cuda: str) -> Path:
    """Two of these have one name with the vendor: for CUDA 11 and for CUDA 12."""
    packages = [Package(name, f"8.9.6.50-1+cuda{cuda}") for name in ("libcudnn8", "libcudnn8-dev")]
    made = folder / cuda
    made.mkdir()
    return repository_deb(made, "cudnn-local-repo-ubuntu2204-8.9.6.50", packages, None, "")  # type: ignore[arg-type]


def test_two_files_of_one_name_are_told_apart(tmp_path: Path) -> None:
    old, new = repository(tmp_path, "11.8"), repository(tmp_path, "12.2")
    assert old.name == new.name == "cudnn-local-repo-ubuntu2204-8.9.6.50_1.0-1_amd64.deb"
    found = [read("cudnn", path) for path in (old, new)]
    assert [one.cuda for one in found] == ["11.8", "12.2"]
    assert {one.version for one in found} == {"8.9.6.50"}
    assert {(one.form, one.distro, one.arch) for one in found} == {("repository", "ubuntu2204", "x86_64")}
    assert found[0].sha256 != found[1].sha256


def test_a_repository_whose_index_was_changed_is_refused(tmp_path: Path) -> None:
    content = tmp_path / "held"
    build_repository(content, [Package("libcudnn8", "8.9.6.50-1+cuda12.2")])
    sign_repository(content, None, "")  # type: ignore[arg-type]
    with (content / "Packages").open("a") as index:
        index.write("\nPackage: libcudnn9\nVersion: 9\n")
    name = "cudnn-local-repo-ubuntu2204-8.9.6.50"
    files = {f"/var/{name}/{one.name}": one.read_bytes().decode("latin-1") for one in content.iterdir()}
    made = build_deb(Package(name, "1.0-1", files=files), tmp_path)
    assert refusal("cudnn", made) == (
        "unreadable-file: cannot be read: holds a repository whose Release does not have the sum of its index: it is "
        "damaged or was changed"
    )


ARCHIVES = {
    "cudnn-8.9": (
        "cudnn",
        "x.tar.xz",
        {f"{CUDNN}/include/cudnn_version.h": CUDNN_896, f"{CUDNN}/lib/libcudnn.so.8.9.6": elf(X86_64)},
        ("8.9.6.50", "12", "x86_64", f"{CUDNN}.tar.xz"),
    ),
    "cudnn-8.0": (
        "cudnn",
        "cudnn-11.1-linux-x64-v8.0.5.39.tgz",
        {
            "cuda/include/cudnn_version.h": CUDNN_805,
            "cuda/lib64/libcudnn_ops_infer.so.8": elf(X86_64, "libcublas.so.11"),
        },
        ("8.0.5.39", "11.1", "x86_64", "cudnn-8.0.5.tar.gz"),
    ),
    "cudnn-8.0-renamed": (
        "cudnn",
        "download(3).tgz",
        {
            "cuda/include/cudnn_version.h": CUDNN_805,
            "cuda/lib64/libcudnn_ops_infer.so.8": elf(X86_64, "libcublas.so.11"),
        },
        ("8.0.5.39", "11", "x86_64", "cudnn-8.0.5.tar.gz"),
    ),
    "tensorrt": (
        "tensorrt",
        "t.tar.gz",
        {
            f"{TENSORRT}/include/NvInferVersion.h": TENSORRT_861,
            f"{TENSORRT}/lib/libnvinfer.so.8.6.1": elf(X86_64, "libcudart.so.12"),
        },
        ("8.6.1.6", "12", "x86_64", f"{TENSORRT}.tar.gz"),
    ),
    "nccl": (
        "nccl",
        "nccl.txz",
        {
            "nccl_2.18.5-1+cuda12.2_x86_64/include/nccl.h": NCCL_2185,
            "nccl_2.18.5-1+cuda12.2_x86_64/lib/libnccl.so.2.18.5": elf(X86_64),
        },
        ("2.18.5", "12.2", "x86_64", "nccl_2.18.5-1+cuda12.2_x86_64.tar.xz"),
    ),
}


@pytest.mark.parametrize("case", ARCHIVES)
def test_an_archive_is_known_by_its_headers_and_libraries(case: str, tmp_path: Path) -> None:
    component, name, files, expected = ARCHIVES[case]
    found = read(component, tar(tmp_path / name, files))
    assert (found.version, found.cuda, found.arch, found.file) == expected
    assert found.form == "tar"


def test_a_zip_for_windows_is_known_by_its_dlls(tmp_path: Path) -> None:
    files = {"cuda/include/cudnn_version.h": CUDNN_805, "cuda/bin/cudnn_ops_infer64_8.dll": dll("cublas64_11.dll")}
    made = zipped(tmp_path / "cudnn-11.1-windows-x64-v8.0.5.39.zip", files)
    found = read("cudnn", made, host("windows11"))
    assert (found.form, found.version, found.cuda, found.arch) == ("zip", "8.0.5.39", "11.1", "x86_64")
    assert refusal("cudnn", made) == "not-that-file: is cudnn 8.0.5.39 for Windows, and this host is ubuntu22.04 x86_64"


def test_wheels_and_runfiles_name_themselves(tmp_path: Path) -> None:
    made = wheel(tmp_path / "x.zip", "nvidia-cudnn-cu12", "9.1.0.70", "py3-none-manylinux2014_x86_64")
    found = read("cudnn", made)
    assert (found.form, found.version, found.cuda) == ("wheel", "9.1.0.70", "12")
    assert found.file == "nvidia_cudnn_cu12-9.1.0.70-py3-none-manylinux2014_x86_64.whl"
    driver = read("driver", driver_run(tmp_path / "installer", "535.104.05"))
    assert (driver.form, driver.version, driver.file) == ("runfile", "535.104.05", "NVIDIA-Linux-x86_64-535.104.05.run")


def test_a_file_for_another_host_is_refused_with_what_it_is_for(tmp_path: Path) -> None:
    arm = tar(
        tmp_path / "arm.tar.gz",
        {f"{TENSORRT}/include/NvInferVersion.h": TENSORRT_861, f"{TENSORRT}/lib/libnvinfer.so.8": elf(AARCH64)},
    )
    assert refusal("tensorrt", arm) == (
        "not-that-file: is tensorrt 8.6.1.6 for aarch64, and this host is ubuntu22.04 x86_64"
    )
    assert read("tensorrt", arm, host("ubuntu22.04", "aarch64")).arch == "aarch64"
    deb = repository(tmp_path, "12.2")
    assert refusal("cudnn", deb, host("ubuntu24.04")) == (
        "not-that-file: is cudnn 8.9.6.50 for ubuntu2204, and this host is ubuntu24.04 x86_64"
    )
    assert refusal("cudnn", deb, host("rocky9")) == (
        "not-that-file: is cudnn 8.9.6.50 for Debian and Ubuntu, and this host is rocky9 x86_64"
    )


def test_a_file_that_is_something_else_says_what_it_is(tmp_path: Path) -> None:
    page = tmp_path / "cudnn.tar.xz"
    page.write_text("<!DOCTYPE html><title>Log in</title>")
    assert refusal("cudnn", page) == "not-that-file: is a web page: no archive, package, wheel or installer"
    driver = driver_run(tmp_path / "d.run", "535.104.05")
    assert refusal("cudnn", driver) == "not-that-file: is an installer of driver 535.104.05, and not of cudnn"
    other = build_deb(Package("hello", "2.10-3"), tmp_path)
    assert refusal("cudnn", other) == "not-that-file: is a package with hello, and not of cudnn"
    assert refusal("cudnn", tmp_path) == "unreadable-file: is not a file"
    assert refusal("ffmpeg", page) == "not-that-file: no file that is downloaded by hand contains ffmpeg"


def test_a_deb_that_xz_packs_and_one_that_zstd_packs_are_read(tmp_path: Path) -> None:
    plain = build_deb(Package("libcudnn8", "8.9.6.50-1+cuda12.2"), tmp_path)
    for packing in ("xz", "gzip", "zstd"):
        tree = tmp_path / packing
        again = tmp_path / f"{packing}.deb"
        for words in (("--raw-extract", str(plain), str(tree)), (f"-Z{packing}", "--build", str(tree), str(again))):
            _run("dpkg-deb", *words)
        assert read("cudnn", again).packages[0].version == "8.9.6.50-1+cuda12.2"


def _run(*argv: str) -> None:
    from gpustack.system.run import LocalRunner

    done = LocalRunner().run(argv, timeout=60.0)
    assert done.code == 0, done.err


@pytest.mark.parametrize("seed", range(40))
def test_a_damaged_file_is_a_refusal_and_never_a_traceback(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)  # noqa: S311 (no secret)
    made = [
        repository(tmp_path, "12.2"),
        tar(
            tmp_path / "a.tgz", {f"{CUDNN}/include/cudnn_version.h": CUDNN_896, f"{CUDNN}/lib/libcudnn.so": elf(X86_64)}
        ),
        wheel(tmp_path / "x.whl", "nvidia-cudnn-cu12", "9.1.0.70", "py3-none-manylinux2014_x86_64"),
    ]
    path = made[seed % 3]
    content = bytearray(path.read_bytes())
    for _ in range(rng.randint(1, 20)):
        content[rng.randrange(len(content))] = rng.randrange(256)
    path.write_bytes(bytes(content[: rng.randint(8, len(content))]))
    with suppress(UsageError):
        assert read("cudnn", path).version.startswith(("8.9.6", "9.1.0"))


def test_a_small_file_that_unpacks_without_end_is_not_read_whole(tmp_path: Path) -> None:
    """A header is read up to a limit: what follows is skipped over."""
    bomb = tmp_path / "bomb.tgz"
    with gzip.open(bomb, "wb", compresslevel=9) as packed, tarfile.open(fileobj=packed, mode="w|") as archive:
        entry = tarfile.TarInfo(f"{CUDNN}/include/cudnn_version.h")
        entry.size = 80 << 20
        archive.addfile(entry, io.BytesIO(CUDNN_896 + bytes(80 << 20)))
    assert refusal("tensorrt", bomb).startswith("not-that-file: is an archive of cudnn 8.9.6.50")
