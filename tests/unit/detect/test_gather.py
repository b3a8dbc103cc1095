"""Gathering: from trees that are odd, and from the machine the tests run on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpustack.detect.api import detect
from gpustack.detect.evidence import Evidence
from gpustack.detect.gather import gather
from gpustack.detect.hostfile import dump
from gpustack.detect.parse.libraries import find_copies
from gpustack.detect.parse.platform import environment, secure_boot
from gpustack.matrix.index import Matrix, load_matrix
from gpustack.system.run import Finished


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix()


class NothingInstalled:
    """A runner on a machine without any of the programs."""

    def run(self, argv: tuple[str, ...], *, timeout: float = 10.0) -> Finished:
        return Finished(argv=argv, code=None, error=f"{argv[0]} is not installed ({timeout:g} s)")


def put(root: Path, path: str, data: bytes | str = b"") -> None:
    place = root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data.encode() if isinstance(data, str) else data)


def test_the_running_machine_is_described_without_its_programs(matrix: Matrix) -> None:
    evidence = gather(None, runner=NothingInstalled())
    assert evidence.live
    assert evidence.files["/proc/sys/kernel/arch"].strip() == os.uname().machine
    host = detect(None, matrix)
    assert host.kernel == os.uname().release
    assert dump(host)


def test_an_empty_tree_is_unknown_throughout(tmp_path: Path, matrix: Matrix) -> None:
    host = detect(tmp_path, matrix)
    assert (host.os.id, host.arch, host.kernel, host.next_kernel) == (None, None, None, None)
    assert (host.environment, host.secure_boot, host.gpus, host.installed) == ("chroot", None, (), {})
    assert [problem.id for problem in host.problems] == ["detect-os-unknown"]


def test_unusable_files_are_problems_and_values_unknown(tmp_path: Path, matrix: Matrix) -> None:
    (tmp_path / "etc").mkdir()
    os.mkfifo(tmp_path / "etc/os-release")
    put(tmp_path, "etc/ld.so.conf", b"\0\1\2")
    put(tmp_path, "etc/apt/sources.list", b"x" * (2 << 20))
    (tmp_path / "var/lib/dpkg").mkdir(parents=True)
    (tmp_path / "var/lib/dpkg/status").symlink_to("status")
    (tmp_path / "proc/modules").mkdir(parents=True)
    host = detect(tmp_path, matrix)
    told = {problem.message.partition(" ")[0]: problem.message for problem in host.problems}
    for path in (
        "/etc/os-release",
        "/etc/ld.so.conf",
        "/etc/apt/sources.list",
        "/var/lib/dpkg/status",
        "/proc/modules",
    ):
        assert "could not be read" in told[path]
    assert host.os.id is None


def test_nothing_outside_the_tree_is_read(tmp_path: Path, matrix: Matrix) -> None:
    put(tmp_path, "secret", "ID=secret\nVERSION_ID=1\n")
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    (root / "etc/os-release").symlink_to(tmp_path / "secret")
    (root / "usr").symlink_to("../..")
    assert detect(root, matrix).os.id is None
    (root / "etc/os-release").unlink()
    (root / "etc/os-release").symlink_to("/inner/release")
    put(root, "inner/release", "ID=debian\nVERSION_ID=12\n")
    assert detect(root, matrix).os.repo == "debian12"


def test_libcuda_behind_debians_alternatives(tmp_path: Path) -> None:
    folder = "usr/lib/x86_64-linux-gnu"
    put(tmp_path, f"{folder}/nvidia/current/libcuda.so.550.163.01")
    (tmp_path / folder / "nvidia/current/libcuda.so.1").symlink_to("libcuda.so.550.163.01")
    (tmp_path / folder / "libcuda.so.1").symlink_to("/etc/alternatives/glx--libcuda.so.1-x86_64-linux-gnu")
    (tmp_path / "etc/alternatives").mkdir(parents=True)
    link = tmp_path / "etc/alternatives/glx--libcuda.so.1-x86_64-linux-gnu"
    link.symlink_to(f"/{folder}/nvidia/current/libcuda.so.1")
    first = find_copies(gather(tmp_path))[0]
    assert (first.path, first.version, first.wins) == (f"/{folder}/libcuda.so.1", "550.163.01", True)


def test_copies_come_in_load_order() -> None:
    def copy(version: str) -> tuple[str, ...]:
        return ("libcudnn.so.9", f"libcudnn.so.{version}")

    evidence = Evidence(
        files={
            "/etc/ld.so.conf": "/b\ninclude /etc/ld.so.conf.d/*.conf\n",
            "/etc/ld.so.conf.d/z.conf": "/z # remark\n",
        },
        environ={"LD_LIBRARY_PATH": "/a::relative"},
        listings={"/usr/lib": copy("9.4.0"), "/z": copy("9.3.0"), "/b": copy("9.2.0"), "/a": copy("9.1.0")},
        links={
            f"/{f}/libcudnn.so.9": f"libcudnn.so.9.{n}.0" for f, n in (("usr/lib", 4), ("z", 3), ("b", 2), ("a", 1))
        },
    )
    assert [(c.version, c.wins) for c in find_copies(evidence)] == [
        ("9.1.0", True), ("9.2.0", False), ("9.3.0", False), ("9.4.0", False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("files", "marks", "kernel", "kind"),
    [
        ({"/proc/modules": ""}, {}, "6.8.0-71-generic", "bare-metal"),
        ({"/sys/class/dmi/id/sys_vendor": "QEMU\n"}, {}, "6.8.0", "vm"),
        (
            {"/sys/class/dmi/id/sys_vendor": "Amazon EC2", "/sys/class/dmi/id/product_name": "p5.48xlarge"},
            {},
            "6.8",
            "vm",
        ),
        (
            {"/sys/class/dmi/id/sys_vendor": "Amazon EC2", "/sys/class/dmi/id/product_name": "g4dn.metal"},
            {},
            "6.8",
            "bare-metal",
        ),
        ({"/sys/hypervisor/type": "xen\n"}, {}, "5.10.0", "vm"),
        ({}, {"/.dockerenv": "there"}, "6.8.0", "container"),
        ({"/proc/1/environ": "container=podman\n"}, {}, "6.8.0", "container"),
        ({"/proc/1/cgroup": "0::/kubepods/besteffort/pod1\n"}, {}, "6.8.0", "container"),
        ({}, {}, "5.15.167.4-microsoft-standard-WSL2", "wsl"),
        ({"/proc/device-tree/compatible": "nvidia,p3737\nnvidia,tegra234\n"}, {}, "5.15.148-tegra", "jetson"),
        ({}, {}, None, "chroot"),
    ],
)
def test_environment(files: dict[str, str], marks: dict[str, str], kernel: str | None, kind: str) -> None:
    assert environment(Evidence(files=files, marks=marks), kernel) == kind


@pytest.mark.parametrize(("content", "state"), [("BgAAAAE=", True), ("BgAAAAA=", False), ("Bg==", None), ("", None)])
def test_secure_boot(content: str, state: bool | None) -> None:
    path = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
    assert secure_boot(Evidence(blobs={path: content})) is state


@pytest.mark.parametrize("prefix", ["usr/local/ffmpeg-5.1.9", "usr/local"])
def test_an_ffmpeg_that_was_built_in_a_tree_is_told_by_what_its_build_left(
    tmp_path: Path, matrix: Matrix, prefix: str
) -> None:
    """Nothing of a tree is run; without the version each installation would build it anew."""
    put(tmp_path, f"{prefix}/bin/ffmpeg", b"\x7fELF")
    if prefix != "usr/local":
        (tmp_path / "usr/local/bin").mkdir()
        (tmp_path / "usr/local/bin/ffmpeg").symlink_to(f"/{prefix}/bin/ffmpeg")
        put(tmp_path, "usr/local/include/libavutil/ffversion.h", '#define FFMPEG_VERSION "4.4"\n')
    put(tmp_path, f"{prefix}/include/libavutil/ffversion.h", '#define FFMPEG_VERSION "n5.1.9"\n')
    found = detect(tmp_path, matrix).installed["ffmpeg"]
    assert (found.version, found.method, found.path) == ("5.1.9", "source", "/usr/local/bin/ffmpeg")


def test_a_gdrcopy_from_source_has_the_version_of_its_modules_sources(tmp_path: Path, matrix: Matrix) -> None:
    put(tmp_path, "usr/src/gdrdrv-2.5.2/dkms.conf", 'PACKAGE_NAME="gdrdrv"\n')
    assert "gdrcopy" not in detect(tmp_path, matrix).installed
    put(tmp_path, "usr/local/bin/gdrcopy_sanity", b"\x7fELF")
    found = detect(tmp_path, matrix).installed["gdrcopy"]
    assert (found.version, found.method, found.path) == ("2.5.2", "source", "/usr/local/bin/gdrcopy_sanity")
    put(tmp_path, "usr/src/gdrdrv-2.6/dkms.conf", 'PACKAGE_NAME="gdrdrv"\n')
    assert detect(tmp_path, matrix).installed["gdrcopy"].version is None
