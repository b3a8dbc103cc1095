"""The vendor's guides section by section: what a plan holds for each step list, and where it departs from the page.

Section numbers and titles are those of the cuDNN Installation Guide 8.0.5, of the same guide 8.9.6, and of "Using FFmpeg
with NVIDIA GPU Hardware Acceleration".
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from msgspec.structs import replace

from gpustack.detect.describe import describe
from gpustack.errors import NoSolutionError
from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.host import Host, Installed
from gpustack.model.plan import Plan
from gpustack.model.request import Request
from gpustack.model.steps import Step
from gpustack.plan.build import build
from gpustack.render.api import render
from gpustack.solve.check import check
from gpustack.solve.requirements import merge, parse_methods, parse_requirement
from gpustack.solve.resolve import resolve
from gpustack.versions import version_key

OLD = "cuda==11.1.* cudnn==8.0.5.*"
NEW = "cuda==12.2.* cudnn==8.9.6.*"
T4 = ("Tesla T4",)
GRACE = ("GH200 480GB",)


@cache
def matrix() -> Matrix:
    return load_matrix()


def machine(system: str, *, arch: str = "x86_64", gpus: tuple[str, ...] = T4, **there: str) -> Host:
    """A described host; ``there`` maps components to versions that its package manager brought."""
    installed = {
        name: Installed(version=version, method="network", packages=(f"lib{name}{version.partition('.')[0]}",))
        for name, version in there.items()
    }
    return replace(describe(matrix(), os=system, arch=arch, gpus=gpus), installed=installed)


def plan(host: Host, requirements: str, *methods: str) -> Plan:
    asked = merge(tuple(parse_requirement(text) for text in requirements.split()))
    request = Request(requirements=asked, methods=parse_methods(methods))
    return build(host, request, resolve(matrix(), host, request), matrix())


def step(made: Plan, prefix: str) -> Step:
    """The step whose id begins with a word."""
    return next(one for one in made.steps if one.id.startswith(prefix))


def lines(made: Plan) -> list[str]:
    """The commands of the plan, each as one line."""
    return [" ".join(argv) for one in made.steps for argv in one.commands]


def in_this_order(made: Plan, *patterns: str) -> None:
    """Each pattern finds a line of the script below the one that the pattern before it found."""
    rest = iter(render(made, "shell").splitlines())
    for pattern in patterns:
        assert any(re.search(pattern, line) for line in rest), pattern


@pytest.mark.parametrize(
    ("system", "requirements"), [("ubuntu20.04", OLD), ("ubuntu22.04", NEW), ("rhel8", OLD), ("rhel9", NEW)]
)
class TestPrerequisites:
    def test_installing_nvidia_graphics_drivers(self, system: str, requirements: str) -> None:
        """8.0.5, 2.1.1. and 8.9.6, 1.1.1. Installing NVIDIA Graphics Drivers: install, then restart the system."""
        made = plan(machine(system), requirements)
        driver, reboot = step(made, "install-driver"), step(made, "reboot")
        assert made.steps.index(driver) < made.steps.index(reboot)
        assert reboot.reboot_after
        assert driver.id in reboot.depends_on
        assert "exit 5" in render(made, "shell")

    def test_installing_the_cuda_toolkit_for_linux(self, system: str, requirements: str) -> None:
        """8.0.5, 2.1.2. and 8.9.6, 1.1.2. Installing The CUDA Toolkit For Linux: before cuDNN, and found by shells."""
        made = plan(machine(system), requirements)
        cuda = made.stack["cuda"].version
        minor = ".".join(cuda.split(".")[:2])
        assert any(
            word.startswith(f"cuda-toolkit-{minor.replace('.', '-')}") for word in step(made, "install-cuda").packages
        )
        assert f"/usr/local/cuda-{minor}/bin" in step(made, "environment-cuda").files[0].content
        in_this_order(made, "cuda-toolkit-", "install .*libcudnn8")


class TestCudnn805Linux:
    def test_2_2_downloading_cudnn_for_linux(self) -> None:
        """2.2. Downloading cuDNN For Linux: the page asks for an account; the file lies in the open, and is pinned."""
        made = plan(machine("ubuntu20.04"), OLD, "cudnn=tar")
        (artifact,) = step(made, "archive-cudnn").artifacts
        assert artifact.url == (
            "https://developer.download.nvidia.com/compute/redist/cudnn/v8.0.5/cudnn-11.1-linux-x64-v8.0.5.39.tgz"
        )
        assert re.fullmatch("[0-9a-f]{64}", artifact.sha256)

    def test_2_3_1_tar_file_installation(self) -> None:
        """2.3.1. Tar File Installation: unpack, copy headers and libraries into the toolkit, let everybody read them.

        Departs: links are copied as links (the page copies each library three times), placeholders are versions.
        """
        made = plan(machine("ubuntu20.04"), OLD, "cudnn=tar")
        in_this_order(
            made,
            r"tar --extract .*cudnn-11\.1-linux-x64-v8\.0\.5\.39\.tgz .*--strip-components=1",
            r"chmod -R a\+rX ",
            r"cp -R -P .*/include/\. /usr/local/cuda-11\.1/include/",
            r"cp -R -P .*/lib64/\. /usr/local/cuda-11\.1/lib64/",
            r"ldconfig",
        )
        assert not re.search(r"x\.x|<cuda_?path>", render(made, "shell"))

    def test_2_3_1_tar_file_installation_on_arm(self) -> None:
        """2.3.1. Tar File Installation, the second command of step 2: the archive for aarch64sbsa."""
        made = plan(machine("ubuntu20.04", arch="aarch64", gpus=("A100-PCIE-40GB",)), OLD, "cudnn=tar")
        in_this_order(made, r"tar --extract .*cudnn-11\.1-linux-aarch64sbsa-v8\.0\.5\.39\.tgz", "ldconfig")

    @pytest.mark.parametrize("system", ["ubuntu16.04", "ubuntu18.04", "ubuntu20.04"])
    def test_2_3_2_debian_installation_on_each_system(self, system: str) -> None:
        """2.3. Installing On Linux: the single packages apply to Ubuntu 16.04, 18.04 and 20.04, each with its own file."""
        made = plan(machine(system), OLD, "cudnn=local")
        urls = [one.url for step in made.steps for one in step.artifacts if "libcudnn8" in one.url]
        assert len(urls) == 3
        assert len({url.rpartition("/")[0] for url in urls}) == 1

    def test_2_3_2_debian_installation(self) -> None:
        """2.3.2. Debian Installation: the library, its headers, the samples, in this order.

        Departs: the page prints libcudnn8_x.x.x for the library where the file says 8.0.5.39.
        """
        made = plan(machine("ubuntu20.04"), OLD, "cudnn=local")
        files = [line.rpartition("/")[2] for line in lines(made) if "dpkg -i" in line and "libcudnn" in line]
        assert files == [
            "libcudnn8_8.0.5.39-1+cuda11.1_amd64.deb",
            "libcudnn8-dev_8.0.5.39-1+cuda11.1_amd64.deb",
            "libcudnn8-samples_8.0.5.39-1+cuda11.1_amd64.deb",
        ]

    def test_2_3_3_rpm_installation(self) -> None:
        """2.3.3. RPM Installation. Departs: whole names; the page's libcudnn8-* would take headers and samples too."""
        made = plan(machine("rhel7"), OLD, "cudnn=local")
        files = [line.rpartition("/")[2] for line in lines(made) if line.startswith("rpm --install")]
        assert files == [
            "libcudnn8-8.0.5.39-1.cuda11.1.x86_64.rpm",
            "libcudnn8-devel-8.0.5.39-1.cuda11.1.x86_64.rpm",
            "libcudnn8-samples-8.0.5.39-1.cuda11.1.x86_64.rpm",
        ]
        assert step(made, "install-cudnn").undo == (
            ("yum", "-y", "remove", "libcudnn8", "libcudnn8-devel", "libcudnn8-samples"),
        )

    @pytest.mark.parametrize(
        ("system", "key"),
        [
            ("ubuntu18.04", ("3bf863cc.pub", "--export EB693B3035CD5710E231E123A4B469963BF863CC", "Signed-By: ")),
            ("ubuntu20.04", ("cuda-keyring_", "dpkg -i .*cuda-keyring_")),
        ],
    )
    def test_2_3_4_1_ubuntu_network_installation(self, system: str, key: tuple[str, ...]) -> None:
        """2.3.4.1. Ubuntu Network Installation: preferences, key, source, then both packages at their exact version.

        Departs: cuda-keyring, or the key by its fingerprint; 7fa2af80 was withdrawn, apt-key and http are not used.
        """
        made = plan(machine(system), OLD)
        folder = system.replace(".", "")
        in_this_order(
            made,
            f"curl .*https://developer.download.nvidia.com/compute/cuda/repos/{folder}/x86_64/{key[0]}",
            *key[1:],
            r"apt-get .* update",
            r"install -y libcudnn8=8\.0\.5\.39-1\+cuda11\.1 libcudnn8-dev=8\.0\.5\.39-1\+cuda11\.1",
            r"apt-mark hold libcudnn8 libcudnn8-dev",
        )
        assert not re.search(r"apt-key|7fa2af80|http://|add-apt-repository", render(made, "shell"))

    @pytest.mark.parametrize(
        ("system", "cuda"),
        [
            *((system, cuda) for system in ("ubuntu16.04", "ubuntu18.04") for cuda in ("10.1", "10.2", "11.0", "11.1")),
            *((system, cuda) for system in ("ubuntu20.04", "rhel8") for cuda in ("11.0", "11.1")),
            *(("rhel7", cuda) for cuda in ("10.1", "10.2", "11.0", "11.1")),
        ],
    )
    def test_2_3_4_package_manager_installation_for_every_cuda_it_names(self, system: str, cuda: str) -> None:
        """2.3.4. Package Manager Installation, step 2: 8.0.5.39 for cuda10.1, cuda10.2, cuda11.0 and cuda11.1.

        Departs: the folders of Ubuntu 20.04 and RHEL 8 begin with CUDA 11.0 (and 10.2 on RHEL 8, without its cuDNN).
        """
        made = plan(machine(system), f"cuda=={cuda}.* cudnn==8.0.5.*")
        mark = f"=8.0.5.39-1+cuda{cuda}" if system.startswith("ubuntu") else f"-8.0.5.39-1.cuda{cuda}"
        assert f"libcudnn8{mark}" in step(made, "install-cudnn").packages
        assert made.stack["cuda"].version.startswith(f"{cuda}.")

    @pytest.mark.parametrize("system", ["ubuntu20.04", "rhel8"])
    def test_2_3_4_package_manager_installation_without_such_packages(self, system: str) -> None:
        """2.3.4. Package Manager Installation: what the folder does not have is refused with what is there."""
        with pytest.raises(NoSolutionError) as caught:
            plan(machine(system), "cuda==10.1.* cudnn==8.0.5.*")
        assert "try cuda==11.8.0, which is compatible with cudnn 8.0.5.39" in (caught.value.hint or "")
        assert ("sources differ: the guide of 8.0.5 (2.3.4.2) lists" in str(caught.value)) is (system == "rhel8")

    @pytest.mark.parametrize(("system", "tool"), [("rhel7", "yum"), ("rhel8", "dnf")])
    def test_2_3_4_2_rhel_network_installation(self, system: str, tool: str) -> None:
        """2.3.4.2. RHEL Network Installation. Departs: yum knows no name=version, and the key is checked first."""
        made = plan(machine(system), OLD)
        repository = step(made, "repository-cuda").files[0]
        assert repository.path == f"/etc/yum.repos.d/cuda-{system}.repo"
        assert f"baseurl=https://developer.download.nvidia.com/compute/cuda/repos/{system}/x86_64" in repository.content
        assert "gpgcheck=1" in repository.content
        in_this_order(
            made,
            "rpm --import",
            f"{tool} -y makecache",
            rf"{tool} -y install libcudnn8-8\.0\.5\.39-1\.cuda11\.1 libcudnn8-devel-8\.0\.5\.39-1\.cuda11\.1",
        )
        assert not re.search(r"libcudnn8(-devel)?=", render(made, "shell"))


class TestCudnn896Linux:
    @pytest.mark.parametrize(
        ("system", "command"), [("ubuntu22.04", "install -y zlib1g"), ("rhel8", "dnf -y install zlib")]
    )
    def test_1_1_3_installing_zlib(self, system: str, command: str) -> None:
        """1.1.3. Installing Zlib: before cuDNN, whatever method brings it; 8.0.5 does not need it."""
        for method in ("cudnn=network", "cudnn=tar"):
            in_this_order(plan(machine(system), NEW, method), re.escape(command), r"libcudnn8=?|cudnn-linux-.*tar\.xz")
        assert command not in render(plan(machine(system if system == "rhel8" else "ubuntu20.04"), OLD), "shell")

    def test_1_2_downloading_cudnn_for_linux(self) -> None:
        """1.2. Downloading cuDNN for Linux: the page asks for an account; the archive lies in the open, with its sum."""
        made = plan(machine("ubuntu22.04"), NEW, "cudnn=tar")
        (artifact,) = step(made, "archive-cudnn").artifacts
        assert artifact.url == (
            "https://developer.download.nvidia.com/compute/cudnn/redist/cudnn/linux-x86_64/"
            "cudnn-linux-x86_64-8.9.6.50_cuda12-archive.tar.xz"
        )
        assert artifact.sha256 == "1722259db95265bb3813438a5a1c6ecd979de89ae4536603904042e124d302d5"

    @pytest.mark.parametrize(("arch", "gpus", "word"), [("x86_64", T4, "x86_64"), ("aarch64", GRACE, "sbsa")])
    def test_1_3_1_tar_file_installation(self, arch: str, gpus: tuple[str, ...], word: str) -> None:
        """1.3.1. Tar File Installation. Departs: the real names carry the CUDA major only, where it prints X.Y."""
        made = plan(machine("ubuntu22.04", arch=arch, gpus=gpus), NEW, "cudnn=tar")
        (artifact,) = step(made, "archive-cudnn").artifacts
        assert artifact.path.endswith(f"/cudnn-linux-{word}-8.9.6.50_cuda12-archive.tar.xz")
        assert re.fullmatch("[0-9a-f]{64}", artifact.sha256)
        assert artifact.size
        in_this_order(made, r"tar --extract", r"cp -R -P .*/lib/\. /usr/local/cuda-12\.2/lib64/", "ldconfig")

    def test_1_3_2_debian_local_installation(self) -> None:
        """1.3.2. Debian Local Installation: 8.9.6 is behind a login, so it is refused with what does; 9.x is open.

        The step list is the same: package, key among the keyrings, index, packages at their version.
        """
        with pytest.raises(NoSolutionError) as caught:
            plan(machine("ubuntu22.04"), NEW, "cudnn=local")
        assert "--method cudnn=network offers cuDNN 8.9.6.50 here" in (caught.value.hint or "")
        made = plan(machine("ubuntu22.04"), "cuda==12.* cudnn==9.2.*", "cudnn=local")
        in_this_order(
            made,
            r"dpkg -i .*/cudnn-local-repo-ubuntu2204-9\.2\.\d+_1\.0-1_amd64\.deb",
            r"find /var/cudnn-local-repo-ubuntu2204-9\.2\.\d+ .*keyring\.gpg.* /usr/share/keyrings/",
            r"install -y .*libcudnn9-cuda-12=9\.2\.",
        )

    def test_1_3_3_rpm_local_installation(self) -> None:
        """1.3.3. RPM Local Installation: the same for rpm; the packages are named with a dash, never with =."""
        with pytest.raises(NoSolutionError) as caught:
            plan(machine("rhel9"), NEW, "cudnn=local")
        assert "cudnn=network" in (caught.value.hint or "")
        made = plan(machine("rhel9"), "cuda==12.* cudnn==9.*", "cudnn=local")
        in_this_order(
            made, r"rpm --install .*/cudnn-local-repo-rhel9-9\..*\.rpm", r"dnf clean", r"libcudnn9-cuda-12-9\."
        )
        assert "libcudnn9-cuda-12=" not in render(made, "shell")

    @pytest.mark.parametrize(
        ("system", "arch"),
        [
            *((system, "x86_64") for system in ("ubuntu18.04", "ubuntu20.04", "ubuntu22.04", "debian11")),
            *((system, "aarch64") for system in ("ubuntu20.04", "ubuntu22.04", "rhel8", "rhel9")),
            *((system, "x86_64") for system in ("rhel7", "rhel8", "rhel9")),
            ("rhel8", "ppc64le"),
        ],
    )
    def test_1_3_4_package_manager_installation_for_every_folder_it_names(self, system: str, arch: str) -> None:
        """1.3.4. Package Manager Installation: each of its twelve folders has 8.9.6 for cuda11.8, with its samples."""
        gpus = {"x86_64": T4, "aarch64": ("A100-PCIE-40GB",), "ppc64le": ("V100-SXM2-16GB",)}[arch]
        made = plan(machine(system, arch=arch, gpus=gpus), "cuda==11.8.* cudnn==8.9.6.*")
        mark = "-8.9.6.50-1.cuda11.8" if system.startswith("rhel") else "=8.9.6.50-1+cuda11.8"
        samples = f"libcudnn8-samples{mark}"
        assert {f"libcudnn8{mark}", samples} <= set(step(made, "install-cudnn").packages)

    def test_1_3_4_package_manager_installation_on_power_with_cuda_12_2(self) -> None:
        """1.3.4.2. RHEL Network Installation, rhel8/ppc64le: for cuda12.2 the driver has to be there already."""
        power = machine("rhel8", arch="ppc64le", gpus=("V100-SXM2-16GB",))
        driver = Installed(version="535.104.05", method="local")
        made = plan(replace(power, installed={"driver": driver}), NEW)
        assert "/rhel8/ppc64le" in step(made, "repository-cuda").files[0].content
        assert made.stack["driver"].state == "keep"

    @pytest.mark.parametrize(
        ("system", "arch", "folder"),
        [
            ("ubuntu20.04", "x86_64", "ubuntu2004/x86_64"),
            ("ubuntu22.04", "x86_64", "ubuntu2204/x86_64"),
            ("debian11", "x86_64", "debian11/x86_64"),
            ("ubuntu22.04", "aarch64", "ubuntu2204/sbsa"),
        ],
    )
    def test_1_3_4_1_ubuntu_debian_network_installation(self, system: str, arch: str, folder: str) -> None:
        """1.3.4.1. Ubuntu/Debian Network Installation: the folder of the system, three packages at one version."""
        made = plan(machine(system, arch=arch, gpus=T4 if arch == "x86_64" else GRACE), NEW)
        assert f"https://developer.download.nvidia.com/compute/cuda/repos/{folder}/" in render(made, "shell")
        pin = "8.9.6.50-1+cuda12.2"
        wanted = [f"{name}={pin}" for name in ("libcudnn8", "libcudnn8-dev", "libcudnn8-samples")]
        assert list(step(made, "install-cudnn").packages) == wanted

    @pytest.mark.parametrize(
        ("system", "arch", "folder"),
        [
            ("rhel7", "x86_64", "rhel7/x86_64"),
            ("rhel8", "x86_64", "rhel8/x86_64"),
            ("rhel9", "x86_64", "rhel9/x86_64"),
            ("rhel9", "aarch64", "rhel9/sbsa"),
        ],
    )
    def test_1_3_4_2_rhel_network_installation(self, system: str, arch: str, folder: str) -> None:
        """1.3.4.2. RHEL Network Installation. Departs: no yum-config-manager, and the key by its fingerprint."""
        made = plan(machine(system, arch=arch, gpus=T4 if arch == "x86_64" else GRACE), NEW)
        assert f"/compute/cuda/repos/{folder}" in step(made, "repository-cuda").files[0].content
        wanted = [f"{name}-8.9.6.50-1.cuda12.2" for name in ("libcudnn8", "libcudnn8-devel", "libcudnn8-samples")]
        assert list(step(made, "install-cudnn").packages) == wanted
        assert any("610C7B14E068A878070DA4E99CD0A493D42D0685" in line for line in lines(made))


@pytest.mark.parametrize(("system", "requirements"), [("ubuntu20.04", OLD), ("ubuntu22.04", NEW)])
def test_verifying_the_install_on_linux(system: str, requirements: str) -> None:
    """8.0.5, 2.4. and 8.9.6, 1.4. Verifying The Install On Linux: copy the samples, make clean, make, run mnistCUDNN.

    Departs: FreeImage, without which it does not compile, is installed first, and the copy is not in a home folder.
    """
    made = plan(machine(system), requirements)
    cuda = ".".join(made.stack["cuda"].version.split(".")[:2])
    in_this_order(
        made,
        "install -y .*libfreeimage-dev libfreeimage3",
        "install -y .*libcudnn8-samples=",
        "cp -R -P -- /usr/src/cudnn_samples_v8 ",
        "make -C .*/cudnn_samples_v8/mnistCUDNN clean",
        f"make -C .*/cudnn_samples_v8/mnistCUDNN CUDA_PATH=/usr/local/cuda-{re.escape(cuda)}",
        "./mnistCUDNN",
        "gpustack verify",
    )
    assert step(made, "install-cudnn").id in step(made, "mnistcudnn").depends_on


def test_verifying_the_install_where_freeimage_is_not_in_the_systems_own_repositories() -> None:
    """8.9.6, 1.4. Verifying the Install on Linux, on RHEL: the samples are there, what they need is said."""
    made = plan(machine("rhel9"), NEW)
    note = step(made, "mnistcudnn")
    assert note.kind == "note"
    assert "freeimage-devel" in note.why


@pytest.mark.parametrize(("system", "requirements"), [("ubuntu20.04", OLD), ("ubuntu22.04", NEW)])
def test_upgrading_from_cudnn_7_to_cudnn_8(system: str, requirements: str) -> None:
    """8.0.5, 2.5. and 8.9.6, 1.5. Upgrading From cuDNN 7.x.x To cuDNN 8.x.x: side by side, with update-alternatives.

    Departs: --set names the choice, where the page's --config waits for somebody to answer.
    """
    made = plan(machine(system, cudnn="7.6.5.32"), requirements)
    assert made.stack["cudnn"].state == "upgrade"
    assert not [line for line in lines(made) if re.search(r"(purge|remove).*libcudnn7", line)]
    in_this_order(
        made,
        "install -y libcudnn8=",
        "update-alternatives --set libcudnn /usr/include/x86_64-linux-gnu/cudnn_v8.h",
    )
    choice = step(made, "alternatives-cudnn")
    assert "--config libcudnn" in choice.why
    assert choice.undo == (("update-alternatives", "--auto", "libcudnn"),)
    assert step(made, "install-cudnn").undo, "version 8 can be taken away again: 7 never went"


def test_upgrading_from_cudnn_7_to_cudnn_8_on_rhel() -> None:
    """8.9.6, 1.5. Upgrading from cuDNN 7.x.x to cuDNN 8.x.x, for rpm: a person chooses among the alternatives."""
    choice = step(plan(machine("rhel8", cudnn="7.6.5.32"), NEW), "alternatives-cudnn")
    assert choice.kind == "manual"
    assert choice.commands == (("update-alternatives", "--config", "libcudnn"),)


def test_upgrading_from_cudnn_8_to_cudnn_9() -> None:
    """The same section for the next major version: cuDNN 8 stays, 9 has other names."""
    made = plan(machine("ubuntu22.04", cudnn="8.9.6.50"), "cuda==12.* cudnn==9.*")
    assert step(made, "install-cudnn").packages[0].startswith("libcudnn9-cuda-12=")
    assert "stays next to 9" in step(made, "alternatives-cudnn").why


@pytest.mark.parametrize("method", ["network", "local", "tar"])
def test_troubleshooting_begins_with_a_plan_that_can_be_taken_back(method: str) -> None:
    """8.0.5, 2.6. and 8.9.6, 1.6. Troubleshooting: the page names a forum; each step says why, and how it is undone."""
    made = plan(machine("ubuntu20.04"), OLD, f"cudnn={method}")
    assert all(one.why for one in made.steps)
    assert all(one.undo or one.undo_note for one in made.steps)
    assert made.steps[-1].commands == (("gpustack", "verify", "driver", "cuda", "cudnn"),)


def test_3_1_including_cudnns_dependencies() -> None:
    """8.9.6, 3.1. Including cuDNN's Dependencies: cublas comes with the toolkit, zlib as a package, before cuDNN."""
    made = plan(machine("ubuntu22.04"), NEW)
    cudnn = step(made, "install-cudnn")
    before = made.steps[: made.steps.index(cudnn)]
    assert {"zlib1g"} <= {word for one in before for word in one.packages}
    assert [one for one in before if one.id.startswith("install-cuda")]


def test_3_2_cudnns_inter_library_dependencies() -> None:
    """8.9.6, 3.2. cuDNN's Inter-Library Dependencies: all parts come from one archive or one version of one package."""
    for method in ("network", "tar"):
        made = plan(machine("ubuntu22.04"), NEW, f"cudnn={method}")
        named = set(re.findall(r"8\.9\.\d+(?:\.\d+)?", " ".join(lines(made))))
        assert named == {"8.9.6.50"}


FFMPEG = "driver cuda nv-codec-headers ffmpeg"


@pytest.fixture(scope="module", name="made")
def ffmpeg_plan() -> Plan:
    return plan(machine("ubuntu24.04", gpus=("GeForce RTX 4090",)), FFMPEG)


class TestFfmpeg:
    @pytest.mark.parametrize(("gpu", "has_encoder"), [("GeForce RTX 4090", True), ("L4", True), ("H200", False)])
    def test_hardware_setup(self, gpu: str, has_encoder: bool) -> None:
        """Hardware Setup: it assumes a GPU with NVENC and NVDEC; where a chip has no NVENC, the plan says so."""
        made = plan(machine("ubuntu24.04", gpus=(gpu,)), FFMPEG)
        assert any("NVENC" in text for text in made.warnings) is not has_encoder

    @pytest.mark.parametrize(
        ("headers", "below", "floor"),
        [("8.0.14.9", "375.66", "384.47"), ("8.1.24.15", "387.34", "390.25"), ("10.0.26.2", "440.118.02", "450.51")],
    )
    def test_prerequisites_table_1(self, headers: str, below: str, floor: str) -> None:
        """Software Setup, Prerequisites, Table 1: the drivers of its rows for Linux, and those one release older.

        Its 378.66 is no driver that the facts know for Linux; the next one is.
        """
        host = machine("ubuntu18.04", gpus=("Tesla P100-PCIE-16GB",))
        for driver, fits in ((below, False), (floor, True)):
            asked = (parse_requirement(f"nv-codec-headers=={headers}"), parse_requirement(f"driver=={driver}"))
            assert check(matrix(), host, Request(requirements=merge(asked))).compatible is fits

    @pytest.mark.parametrize("requirements", ["ffmpeg", "nv-codec-headers"])
    def test_compiling_for_windows(self, requirements: str) -> None:
        """Compiling for Windows and Readily Available FFmpeg Builds: by MSYS2 and Visual Studio, from pinned sources

        (test_windows_source.py holds each sentence of it), and never a build from a place that is long gone.
        """
        made = plan(machine("windows11"), requirements)
        text = render(made, "powershell")
        places = [text.index(word) for word in ("msys2-base-x86_64", "--sync --needed", "nv-codec-headers-1")]
        assert places == sorted(places)
        assert "zeranoe" not in text

    def test_prerequisites(self, made: Plan) -> None:
        """Software Setup, Prerequisites: the toolkit is there to compile with, and the driver with its video libraries."""
        floors = {"nv-codec-headers==8.1.*": "390.25", "nv-codec-headers==10.0.*": "445.87"}
        for headers, floor in floors.items():
            stack = plan(machine("ubuntu20.04"), f"driver ffmpeg {headers}").stack
            assert version_key(stack["driver"].version) >= version_key(floor)
        in_this_order(made, "install .*nvidia-", "install .*cuda-toolkit-", r"\./configure")
        assert {one for one in ("driver", "cuda") if made.stack[one].state == "install"} == {"driver", "cuda"}

    def test_compiling_for_linux_clone_and_install_ffnvcodec(self, made: Plan) -> None:
        """Compiling for Linux, steps 1 and 2. Departs: one tagged release by its commit or sum, not the head of a branch;

        make is told the folder, as the page's way back (cd with a typographic dash) leads nowhere.
        """
        in_this_order(made, "git clone .*--branch n|nv-codec-headers-.*tar", "make -C .*nv-codec-headers-.* install")
        text = render(made, "shell")
        assert (
            re.search(r"checkout --quiet --detach [0-9a-f]{40}", text) or step(made, "archive-nv").artifacts[0].sha256
        )
        assert not re.search("cd [\u2013-]", text)

    def test_compiling_for_linux_clone_ffmpeg(self, made: Plan) -> None:
        """Compiling for Linux, step 3. Departs: a release whose signature or sum is checked ("TOT may be broken")."""
        text = render(made, "shell")
        assert re.search(r"gpgv --keyring|check_sum .*ffmpeg-", text)
        assert "git.ffmpeg.org/ffmpeg.git" not in text

    def test_compiling_for_linux_install_necessary_packages(self, made: Plan) -> None:
        """Compiling for Linux, step 4. Departs: nasm for yasm, which FFmpeg no longer takes; no cmake, wget or libnuma."""
        tools = step(made, "build-tools-ffmpeg").packages
        assert {"build-essential", "nasm"} <= set(tools)
        assert not {"yasm", "cmake"} & set(tools)

    def test_compiling_for_linux_configure(self, made: Plan) -> None:
        """Compiling for Linux, step 5. Departs: plain dashes; nvcc for the obsolete CUDA SDK switch; an architecture that

        the toolkit has; libnpp only where it still builds.
        """
        configure = next(
            argv for one in made.steps for argv in one.commands if any("./configure" in word for word in argv)
        )
        assert {"--enable-nvenc", "--enable-cuda-nvcc", "--enable-nonfree"} <= set(configure)
        assert not [word for word in configure if "cuda-sdk" in word or not word.isascii()]
        assert "--nvccflags=-gencode arch=compute_89,code=sm_89 -O2" in configure
        assert "--enable-libnpp" not in configure, "CUDA 13 no longer has what FFmpeg asks of it"
        older = plan(machine("ubuntu22.04"), "cuda==12.2.* ffmpeg==6.1.* nv-codec-headers")
        words = next(
            argv for one in older.steps for argv in one.commands if any("./configure" in word for word in argv)
        )
        assert "--enable-libnpp" in words
        assert "--extra-cflags=-I/usr/local/cuda-12.2/include" in words
        assert "--extra-ldflags=-L/usr/local/cuda-12.2/lib64" in words

    def test_compiling_for_linux_compile_and_install(self, made: Plan) -> None:
        """Compiling for Linux, steps 6 and 7: make, make install, into a folder of its own."""
        version = re.escape(made.stack["ffmpeg"].version)
        in_this_order(
            made,
            rf"\./configure .*--prefix=/usr/local/ffmpeg-{version}",
            r'make -C "\$2" --jobs="\$\(nproc\)',
            rf"make -C /usr/local/src/ffmpeg-{version} install",
            rf"ln -sfn /usr/local/ffmpeg-{version}/bin/ffmpeg /usr/local/bin/ffmpeg",
        )

    def test_common_compilation_issues(self, made: Plan) -> None:
        """Common compilation issues: the toolkit with cuda.h is there before configure, and pkg-config finds the headers."""
        in_this_order(made, "cuda-toolkit-", "pkg-config --print-errors --exact-version=", r"\./configure")


SECTIONS = {
    "8.0.5": (
        "2.1.1 2.1.2 2.2 2.3.1 2.3.2 2.3.3 2.3.4 2.3.4.1 2.3.4.2 2.4 2.5 2.6 3.1.1 3.1.2 3.2 3.3 3.4 "
        "4.1.1 4.1.2 4.1.3 4.2.1 4.2.2 4.2.3 4.2.4"
    ),
    "8.9.6": (
        "1.1.1 1.1.2 1.1.3 1.2 1.3.1 1.3.2 1.3.3 1.3.4 1.3.4.1 1.3.4.2 1.4 1.5 1.6 2.1.1 2.1.2 2.2 2.3 2.4 3.1 3.2 "
        "4.1.1 4.1.2 4.1.3"
    ),
    "FFmpeg": (
        "Hardware Setup|Prerequisites|Compiling for Linux|Compiling for Windows|Readily Available FFmpeg Builds|"
        "Common compilation issues"
    ),
}
"""The sections of each guide that say how something is installed; what is run afterwards belongs to verification."""

TESTED_IN = (
    "test_guides.py",
    "unit/plan/test_windows.py",
    "unit/plan/test_windows_source.py",
    "unit/plan/test_targets.py",
)


def said_by_tests() -> dict[str, str]:
    """What the tests say of each guide: their names and docstrings, by the guide that they or their class name."""
    said = dict.fromkeys(SECTIONS, "")
    for name in TESTED_IN:
        tree = ast.parse((Path(__file__).parent / name).read_text(encoding="utf-8"))
        classes = {id(item): node.name for node in tree.body if isinstance(node, ast.ClassDef) for item in node.body}
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                text = f"{node.name.replace('_', '.')} {ast.get_docstring(node) or ''}\n"
                context = classes.get(id(node), "") + text
                for guide in said:
                    if guide in context or guide.replace(".", "") in context or guide.lower() in context.lower():
                        said[guide] += text
    return said


@pytest.mark.parametrize("guide", SECTIONS)
def test_every_section_that_installs_something_has_a_test(guide: str) -> None:
    said = said_by_tests()[guide]
    if guide == "FFmpeg":
        assert [title for title in SECTIONS[guide].split("|") if title not in said] == []
    else:
        there = set(re.findall(r"\d+(?:\.\d+)+", said))
        assert [number for number in SECTIONS[guide].split() if number not in there] == []
