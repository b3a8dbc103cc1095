"""cuDNN 7, 8 and 9 as .rpm and as archives place them: real headers and libraries, out of wheels, at the real paths.

NVIDIA's own .rpm and archives cannot be had where these tests run. Each test has /usr, /etc and the package databases of
this machine to itself: what is written over them in a mount namespace is gone when its process ends.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from tests.integration.nvcc import TOOLKIT

pytestmark = pytest.mark.slow

NO_DRIVER = "before cuDNN is reached, CUDA answers with error 35 (cudaErrorInsufficientDriver)"
CLEAN = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "CUDA_HOME": "/usr/local/cuda"}
NAMESPACE = """
set -e
for part in usr etc var/lib; do
    name=$(echo $part | tr / _)
    mkdir -p "$1/$name/upper" "$1/$name/work"
    mount -t overlay overlay -o "lowerdir=/$part,upperdir=$1/$name/upper,workdir=$1/$name/work" "/$part"
done
mkdir -p /usr/local/cuda-13.0
cp -r "$2/." /usr/local/cuda-13.0/
ln -s lib /usr/local/cuda-13.0/lib64
ln -sfn cuda-13.0 /usr/local/cuda
. "$3"
ldconfig
exec "$4" "$5" "$6"
"""


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("parts")


def fetched(folder: Path, wheel: str, *options: str) -> Path:
    """A wheel unpacked, once for all tests of this module."""
    place = folder / wheel.replace("==", "-")
    if not place.exists():
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", *options, "-d", str(folder / "wheels")]
        subprocess.run([*command, wheel], check=True)
        (archive,) = (folder / "wheels").glob("*.whl")
        zipfile.ZipFile(archive).extractall(place)
        archive.unlink()
    return place


def named(folder: Path, libraries: Path, version: str) -> Path:
    """The libraries as NVIDIA's archives and packages name them: a file of the whole version, and links to it."""
    place = folder / "named"
    place.mkdir()
    major = version.partition(".")[0]
    for library in libraries.glob("libcudnn*.so*"):
        stem = library.name.partition(".so")[0]
        os.link(library, place / f"{stem}.so.{version}")
        (place / f"{stem}.so.{major}").symlink_to(f"{stem}.so.{version}")
        (place / f"{stem}.so").symlink_to(f"{stem}.so.{major}")
    return place


def answer(folder: Path, install: str) -> dict[str, Any]:
    """What gpustack says where the shell lines ``install`` have put a cuDNN in place."""
    recipe, work = folder / "install.sh", folder / "work"
    recipe.write_text(install)
    work.mkdir()
    script = Path(__file__).with_name("cudnn_there.py")
    arguments = [str(folder / "over"), str(TOOLKIT), str(recipe), sys.executable, str(script), str(work)]
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", NAMESPACE, "sh", *arguments],
        env={**CLEAN, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


def rpm(folder: Path, version: str, cudnn: Path) -> Path:
    """A package that places the files of a wheel as NVIDIA's runtime and development packages do together."""
    tree = folder / "tree"
    (tree / "usr").mkdir(parents=True)
    shutil.copytree(cudnn / "include", tree / "usr/include", ignore=shutil.ignore_patterns("__init__.py"))
    named(folder, cudnn / "lib", version.rpartition(".")[0]).rename(tree / "usr/lib64")
    spec = folder / "cudnn.spec"
    spec.write_text(
        "%global debug_package %{nil}\n%global __os_install_post %{nil}\n%define _binary_payload w0.gzdio\n"
        f"Name: libcudnn9-cuda-13\nVersion: {version}\nRelease: 1\nSummary: tests\nLicense: none\nVendor: NVIDIA\n"
        f"AutoReqProv: no\n%description\nNone.\n%install\ncp -rlP {tree}/. %{{buildroot}}/\n%files\n/usr/include/*.h\n"
        "/usr/lib64/*\n"
    )
    top = ["--define", f"_topdir {folder}", "--define", f"_rpmdir {folder}", "--define", "_build_id_links none"]
    subprocess.run(["rpmbuild", "-bb", "--quiet", "--target", "x86_64", *top, str(spec)], check=True)
    (package,) = folder.rglob("*.rpm")
    return package


def test_nine_from_an_rpm(parts: Path, tmp_path: Path) -> None:
    cudnn = fetched(parts, "nvidia-cudnn-cu13==9.14.0.64") / "nvidia/cudnn"
    package = rpm(tmp_path, "9.14.0.64", cudnn)
    found = answer(
        tmp_path,
        "mount -t tmpfs none /var/lib/dpkg\n"
        "printf 'ID=rocky\\nVERSION_ID=9.4\\nID_LIKE=\"rhel centos fedora\"\\n' > /usr/lib/os-release\n"
        # Where that system's loader looks by itself.
        "echo /usr/lib64 > /etc/ld.so.conf.d/lib64.conf\n"
        f"rpm --dbpath /var/lib/rpm --initdb\nrpm --dbpath /var/lib/rpm --nodeps --nosignature -i {package}\n",
    )
    assert found["installed"] == ["9.14.0.64", "network"]
    assert found["checks"]["cudnn.found"] == ["pass", "/usr/lib64/libcudnn.so.9 (9.14.0)"]
    assert found["checks"]["cudnn.versions"] == ["pass", "9.14.0 throughout"]
    assert found["homes"][0] == ["/usr/include", "/usr/lib64/libcudnn.so"]
    linked(found, 91400)


def linked(found: dict[str, Any], version: int) -> None:
    """The network was built against it and started: header and library are of one version, and no driver is there."""
    status, reason, said = found["network"]
    assert status == "fail"
    assert reason.startswith(NO_DRIVER)
    assert f'"header": {version}, "library": {version}' in said


def test_nine_from_an_archive_where_it_was_unpacked(parts: Path, tmp_path: Path) -> None:
    cudnn = fetched(parts, "nvidia-cudnn-cu13==9.14.0.64") / "nvidia/cudnn"
    libraries = named(tmp_path, cudnn / "lib", "9.14.0")
    place = "/usr/local/cudnn-linux-x86_64-9.14.0.64_cuda13-archive"
    found = answer(
        tmp_path,
        f"mkdir {place}\ncp -r {cudnn}/include {place}/\ncp -r {libraries} {place}/lib\n"
        f"echo {place}/lib > /etc/ld.so.conf.d/cudnn.conf\n",
    )
    assert found["installed"] == ["9.14.0", "unknown"]
    assert found["checks"]["cudnn.found"] == ["pass", f"{place}/lib/libcudnn.so.9 (9.14.0)"]
    assert found["checks"]["cudnn.versions"] == ["pass", "9.14.0 throughout"]
    assert found["homes"][0] == [f"{place}/include", f"{place}/lib/libcudnn.so"]
    linked(found, 91400)


def test_eight_from_an_archive_copied_into_the_toolkit(parts: Path, tmp_path: Path) -> None:
    """As cuDNN's guide has it: cp .../include/cudnn*.h /usr/local/cuda/include, cp -P .../lib/libcudnn* .../lib64."""
    cudnn = fetched(parts, "nvidia-cudnn-cu12==8.9.7.29") / "nvidia/cudnn"
    libraries = named(tmp_path, cudnn / "lib", "8.9.7")
    found = answer(
        tmp_path,
        f"cp {cudnn}/include/cudnn*.h /usr/local/cuda/include/\ncp -P {libraries}/libcudnn* /usr/local/cuda/lib64/\n"
        "echo /usr/local/cuda/lib64 > /etc/ld.so.conf.d/cuda.conf\n",
    )
    assert found["installed"] == ["8.9.7", "unknown"]
    assert found["checks"]["cudnn.versions"] == ["pass", "8.9.7 throughout"]
    assert found["homes"][0] == ["/usr/local/cuda/include", "/usr/local/cuda/lib64/libcudnn.so"]
    linked(found, 8907)


def test_seven_from_an_archive_unpacked_over_the_toolkit(parts: Path, tmp_path: Path) -> None:
    """cuDNN 7.6.5 out of a wheel of CuPy 7, which brought header and library; its archives held cuda/{include,lib64}."""
    options = ("--python-version", "3.8", "--only-binary=:all:")
    cudnn = fetched(parts, "cupy-cuda101==7.8.0", *options) / "cupy/.data"
    libraries = named(tmp_path, cudnn / "lib", "7.6.5")
    found = answer(
        tmp_path,
        f"cp {cudnn}/include/cudnn.h /usr/local/cuda/include/\ncp -P {libraries}/libcudnn* /usr/local/cuda/lib64/\n"
        "echo /usr/local/cuda/lib64 > /etc/ld.so.conf.d/cuda.conf\n",
    )
    assert found["installed"] == ["7.6.5", "unknown"]
    assert found["checks"]["cudnn.versions"] == ["pass", "7.6.5 throughout"]
    linked(found, 7605)
