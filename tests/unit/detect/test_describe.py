"""Hosts that are described: systems, architectures, GPU names."""

from __future__ import annotations

import pytest

from gpustack.detect.describe import describe
from gpustack.errors import UnsupportedError, UsageError
from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.host import Gpu, Host


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix()


def gpu(name: str, matrix: Matrix) -> Gpu:
    return describe(matrix, os="ubuntu24.04", arch=None, gpus=(name,)).gpus[0]


@pytest.mark.parametrize(
    "name", ["H200", "h200", "NVIDIA H200", "nvidia  h200", "10de:2335", "10DE:2335", "H200 141GB"]
)
def test_one_gpu_in_many_spellings(name: str, matrix: Matrix) -> None:
    found = gpu(name, matrix)
    assert (found.pci_id, found.compute_capability, found.nvenc) == ("10de:2335", "9.0", 0)


@pytest.mark.parametrize(
    ("name", "capability", "kind"),
    [
        ("RTX 4090", "8.9", "consumer"), ("geforce rtx 4090", "8.9", "consumer"), ("T4", "7.5", "datacenter"),
        ("A100-SXM4-80GB", "8.0", "datacenter"), ("a100 80gb", "8.0", "datacenter"), ("V100", "7.0", "datacenter"),
        ("GTX 1060", "6.1", "consumer"), ("RTX A6000", "8.6", "professional"), ("RTX 6000 Ada", "8.9", "professional"),
        ("L4", "8.9", "datacenter"), ("A10", "8.6", "datacenter"), ("A2", "8.6", "datacenter"),
        ("RTX PRO 6000", "12.0", "professional"), ("GH200 480GB", "9.0", "datacenter"), ("K80", "3.7", "datacenter"),
        ("Jetson AGX Orin", "8.7", "soc"), ("cc:6.1", "6.1", None),
    ],
)  # fmt: skip
def test_names_without_maker_line_or_memory(name: str, capability: str, kind: str | None, matrix: Matrix) -> None:
    found = gpu(name, matrix)
    assert (found.compute_capability, found.kind) == (capability, kind)


def test_capability_keeps_the_driver_window_that_all_its_gpus_share(matrix: Matrix) -> None:
    assert gpu("cc:6.1", matrix).driver_last == "580"
    assert gpu("cc:12.0", matrix).open_module == "required"


@pytest.mark.parametrize("name", ["RTX 6000", "TITAN X", "GT 730"])
def test_ambiguous_names_are_refused_with_the_candidates(name: str, matrix: Matrix) -> None:
    with pytest.raises(UsageError, match=r"is ambiguous: .*compute capability") as caught:
        gpu(name, matrix)
    assert caught.value.exit_code == 2


def test_a_word_of_several_names_is_refused_with_those_names(matrix: Matrix) -> None:
    with pytest.raises(UsageError, match=r"'Orin' is ambiguous: .*Jetson AGX Orin 64GB.*Jetson Orin Nano 8GB"):
        gpu("Orin", matrix)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("RTX 9090", "RTX"),
        ("H2000", "H20"),
        ("10de:ffff", "10de:"),
        ("cc:4.2", "9.0"),
        ("$(reboot)", "H200"),
        ("", "H200"),
    ],
)
def test_unknown_names_are_refused_with_the_nearest(name: str, hint: str, matrix: Matrix) -> None:
    with pytest.raises(UsageError) as caught:
        gpu(name, matrix)
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("os", "identity", "version", "repo", "environment"),
    [
        ("ubuntu24.04", "ubuntu", "24.04", "ubuntu2404", "bare-metal"), ("rhel9.4", "rhel", "9.4", "rhel9", "bare-metal"),
        ("RHEL9.4", "rhel", "9.4", "rhel9", "bare-metal"), ("debian12", "debian", "12", "debian12", "bare-metal"),
        ("sles15.6", "sles", "15.6", "sles15", "bare-metal"), ("fedora42", "fedora", "42", "fedora42", "bare-metal"),
        ("amzn2023", "amzn", "2023", "amzn2023", "bare-metal"),
        ("azurelinux3.0", "azurelinux", "3.0", "azl3", "bare-metal"), ("windows11", "windows", "11", None, "bare-metal"),
        ("windows-server2022", "windows-server", "2022", None, "bare-metal"),
        ("wsl-ubuntu24.04", "wsl-ubuntu", "24.04", "wsl-ubuntu", "wsl"),
        ("l4t36", "l4t", "36", "ubuntu2204", "jetson"),
        ("opensuse-leap15.6", "opensuse-leap", "15.6", "opensuse15", "bare-metal"),
        ("opensuse-tumbleweed", "opensuse-tumbleweed", None, "suse16", "bare-metal"),
        ("kylinV10", "kylin", "V10", "kylin10", "bare-metal"),
    ],
)  # fmt: skip
def test_systems(
    os: str, identity: str, version: str | None, repo: str | None, environment: str, matrix: Matrix
) -> None:
    host: Host = describe(matrix, os=os, arch=None)
    found = (host.os.id, host.os.version_id, host.os.repo, host.environment)
    assert found == (identity, version, repo, environment)
    assert host.described
    assert host.problems == ()


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        # what PRETTY_NAME says
        ("Ubuntu 22.04.5 LTS", "ubuntu22.04.5"),
        ("Debian GNU/Linux 12 (bookworm)", "debian12"),
        ("Red Hat Enterprise Linux 9.4 (Plow)", "rhel9.4"),
        ("SUSE Linux Enterprise Server 15 SP6", "sles15.6"),
        ("Fedora Linux 43 (Workstation Edition)", "fedora43"),
        ("Pop!_OS 22.04 LTS", "pop22.04"),
        ("Windows Server 2022 Datacenter", "windows-server2022"),
        ("openSUSE Tumbleweed", "opensuse-tumbleweed"),
        # NVIDIA's folders, code names
        ("ubuntu2404", "ubuntu24.04"),
        ("opensuse15", "opensuse-leap15"),
        ("azl3", "azurelinux3.0"),
        ("noble", "ubuntu24.04"),
        ("bookworm", "debian12"),
        # short, with and without "linux", with another separator
        ("alma9", "almalinux9"),
        ("oraclelinux9", "ol9"),
        ("al2023", "amzn2023"),
        ("mint21.3", "linuxmint21.3"),
        ("sles15sp6", "sles15.6"),
        ("leap15.6", "opensuse-leap15.6"),
        ("centos-stream9", "centos9"),
        ("win11", "windows11"),
        ("wsl2-ubuntu22.04", "wsl-ubuntu22.04"),
        ("JetPack 6.2", "jetpack6.2"),
    ],
)
def test_systems_in_the_spellings_of_os_release_and_of_people(written: str, meant: str, matrix: Matrix) -> None:
    assert describe(matrix, os=written, arch=None) == describe(matrix, os=meant, arch=None)


@pytest.mark.parametrize("os", ["suse15.6", "coreos", "linux", "server", "fedora"])
def test_a_name_that_several_systems_have_is_refused(os: str, matrix: Matrix) -> None:
    with pytest.raises(UnsupportedError):
        describe(matrix, os=os, arch=None)


@pytest.mark.parametrize("name", ["8x H100 SXM", "8 x H100 SXM", "H100 SXM x8"])
def test_several_of_one_gpu(name: str, matrix: Matrix) -> None:
    assert describe(matrix, os="ubuntu24.04", arch=None, gpus=(name,)).gpus == (gpu("H100 SXM", matrix),) * 8


@pytest.mark.parametrize("name", ["0x H100", "99x H100", "x8"])
def test_a_number_of_gpus_that_no_host_has_is_refused(name: str, matrix: Matrix) -> None:
    with pytest.raises(UsageError):
        describe(matrix, os="ubuntu24.04", arch=None, gpus=(name,))


@pytest.mark.parametrize("os", ["ubuntu99.04", "templeos1", "ubunut24.04", "ubuntu"])
def test_unknown_systems_are_unsupported_with_the_nearest(os: str, matrix: Matrix) -> None:
    with pytest.raises(UnsupportedError) as caught:
        describe(matrix, os=os, arch="x86_64")
    assert caught.value.exit_code == 4
    assert "ubuntu" in caught.value.hint or "nearest" in caught.value.hint


@pytest.mark.parametrize("os", ["ubuntu24.04;reboot", "", "ubuntu\n24.04", "$(id)", "a" * 500, "../etc", "-x"])
def test_malformed_systems_are_wrong_usage(os: str, matrix: Matrix) -> None:
    with pytest.raises(UsageError):
        describe(matrix, os=os, arch="x86_64")


@pytest.mark.parametrize(
    ("word", "arch"),
    [
        ("x86_64", "x86_64"),
        ("amd64", "x86_64"),
        ("AARCH64", "aarch64"),
        ("arm64", "aarch64"),
        ("sbsa", "aarch64"),
        ("ppc64le", "ppc64le"),
    ],
)
def test_architectures(word: str, arch: str, matrix: Matrix) -> None:
    assert describe(matrix, os="ubuntu24.04", arch=word).arch == arch


@pytest.mark.parametrize(
    "options", [{"arch": "i386"}, {"arch": ""}, {"arch": "x86_64", "driver": "new"}, {"arch": None, "driver": "58"}]
)
def test_other_bad_words(options: dict[str, str | None], matrix: Matrix) -> None:
    with pytest.raises(UsageError):
        describe(matrix, os="ubuntu24.04", **options)  # type: ignore[arg-type]


def test_the_driver_is_installed(matrix: Matrix) -> None:
    host = describe(matrix, os="ubuntu24.04", arch="amd64", gpus=("T4", "H100 PCIe"), driver="580.95.05")
    assert host.installed["driver"].version == "580.95.05"
    assert [one.name for one in host.gpus] == ["Tesla T4", "H100 PCIe"]


def test_every_product_is_found_by_its_own_id_and_capability(matrix: Matrix) -> None:
    for row in matrix.products:
        if not row.subsystem:
            found = gpu(f"10de:{row.device.lower().removeprefix('0x')}", matrix)
            assert found.name == row.name


@pytest.mark.parametrize(
    ("gpu_name", "arch", "right"),
    [
        ("GB200", "x86_64", "aarch64"),
        ("GB300", "x86_64", "aarch64"),
        ("GH200 480GB", "x86_64", "aarch64"),
        ("GB10", "x86_64", "aarch64"),
        ("Jetson AGX Orin", "x86_64", "aarch64"),
        ("B300", "aarch64", "x86_64"),
        ("10de:2941", "ppc64le", "aarch64"),
    ],
)
def test_a_host_that_cannot_exist_is_refused_with_the_architecture_that_would_do(
    gpu_name: str, arch: str, right: str, matrix: Matrix
) -> None:
    with pytest.raises(UsageError) as caught:
        describe(matrix, os="ubuntu24.04", arch=arch, gpus=(gpu_name,))
    assert caught.value.code == "impossible-host"
    assert caught.value.hint == f"--arch {right}"
    assert describe(matrix, os="ubuntu24.04", arch=right, gpus=(gpu_name,)).arch == right
    assert describe(matrix, os="ubuntu24.04", arch=None, gpus=(gpu_name,)).arch == right


OWN_KERNEL = "its publisher's kernel moves within the release, and no page of it was read"
PACKS = "the service packs have different kernels"
UNREAD = "no package list of it was read"

LACKING = {
    "gcc": dict.fromkeys(("hce2.0", "tencentos4"), UNREAD),
    "glibc": dict.fromkeys(("hce2.0", "sles_sap12", "tencentos4"), UNREAD),
    "kernel": {
        **dict.fromkeys(("altlinux10", "altlinux11", "mageia9", "mageia10", "trisquel11"), UNREAD),
        **dict.fromkeys(("elementary6", "elementary7", "elementary8", "neon22.04", "neon24.04"), OWN_KERNEL),
        **dict.fromkeys(("linuxmint6", "linuxmint20", "mx21", "mx23", "mx25"), OWN_KERNEL),
        **dict.fromkeys(("pop22.04", "pop24.04", "zorin16", "zorin17"), OWN_KERNEL),
        **dict.fromkeys(("opensuse-leap15", "sled15", "sles12", "sles15", "sles_sap12", "sles_sap15"), PACKS),
    },
    "python": dict.fromkeys(
        ("altlinux10", "altlinux11", "centos6", "hce2.0", "kylin10", "kylin11", "kylinV10", "kylinV11",
         "mageia9", "rhel6", "sles12", "sles12.3", "sles_sap12", "tencentos4"), UNREAD
    ),
}  # fmt: skip
"""What the facts do not state about a release of a Linux, and why. A row without a version stands for every release,
a rolling system has no fixed values, and the kernel of WSL is that of Windows."""


@pytest.mark.parametrize("name", LACKING)
def test_every_release_of_a_linux_has_its_properties_or_the_reason_is_here(name: str, matrix: Matrix) -> None:
    found = set()
    for row in matrix.systems:
        base = matrix.system(row.base) if row.base and name != "kernel" else None
        is_fixed = bool(row.version) and not row.rolling and row.family != "windows" and row.binaries != "none"
        is_of_windows = name == "kernel" and row.key.startswith("wsl-")
        if is_fixed and not is_of_windows and not (getattr(row, name) or (base and getattr(base, name))):
            found.add(row.key)
    assert found == set(LACKING[name])


def test_a_system_without_its_service_pack_has_the_c_library_of_none(matrix: Matrix) -> None:
    assert describe(matrix, os="sles15", arch="x86_64").glibc is None
    assert describe(matrix, os="sles15.6", arch="x86_64").glibc == "2.38"
