"""The lines that known commands and files print: of which file of a host each is a part, or what it tells."""

from __future__ import annotations

import re
from collections.abc import Callable

from gpustack.detect.bug_report import KERNEL
from gpustack.detect.environments.names import DISTRIBUTIONS
from gpustack.detect.parse.driver import DRIVER_VERSION
from gpustack.patterns import later

LOG = "/root/pasted.log"
"""Where lines of programs stand: it is read as the log of a single program."""

_KERNEL = later(
    r"\[ *\d+\.\d+\] |(?:\w{3} +\d+ [\d:]{8}|\d{4}-\d\d-\d\dT\S+) \S+ kernel: |.{0,60}?\bNVRM: |nvidia-modeset: "
)
_BUILD = later(r".*(/var/lib/dkms/nvidia[\w-]*/[\d.]+/build/)\S+ .*error|DKMS make\.log for (nvidia[\w-]*)-([\d.]+) ")
_INSTALLER = later(r"nvidia-installer log file '/var/log/nvidia-installer\.log'")
RELEASE = r"\d{3}\.\d{2,3}(?:\.\d{2,3})?"
"""A driver's release where other numbers stand near it: a kernel's are shorter."""

_SMI = later(rf"\|?\s*NVIDIA-SMI \S+\s+(?:Driver|KMD) Version: ({DRIVER_VERSION})\b")
_DRIVER = later(
    r"\W*(?:GPU Firmware:|(?:Nvidia|GPU)(?:[ /-](?:GPU |graphics )?driver)?(?:[ /](?:Mesa )?version)?(?: is)?)"
    rf"\W{{1,40}}({RELEASE})$",
    re.IGNORECASE,
)
_SMI_GPU = later(r"\|\s+\d+\s+(\S.*?)\s+(?:On|Off|N/A)\s*\|\s*([0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)\s")
_GPU = later(
    r"\W*(?:(?:GPU models and configuration *: )?GPU \d+:|Model:(?=\s+NVIDIA))\s+"
    r"((?:NVIDIA|Tesla|GeForce|Quadro|TITAN) [^()]*?)\s*(?:\(UUID.*)?$"
)
_GPU_IS = later(
    r"\W*(?:(?:NVIDIA )?GPU(?: model| type| name)?s?|Graphics(?: card| processor)?|Video card)\W{1,8}"
    r"(?:\d ?x )?((?:NVIDIA |GeForce |Quadro |Tesla |TITAN |RTX |GTX |GT |MX|[AHLBVTPK]\d|GH|GB|DGX|Jetson)"
    r"[\w -]{1,40})",
    re.IGNORECASE,
)
"""A GPU as a form for reports of problems asks for it."""

_TEGRA = later(r"# R\d+ \(release\), REVISION: ")
_FAILED = later(
    r"NVIDIA-SMI has failed because .*|Failed to initialize NVML: (?!Unknown Error).*|No devices were found$"
)
_LIBRARY = later(rf"NVML library version: ({DRIVER_VERSION}|\d+\.\d+)$")
_TABLE = later(r"[|+][-=+ ]+[|+]$|\|.*\|$|.* *: (?:Could not collect|N/A)$")
"""The other lines of nvidia-smi's table, and what PyTorch's collect_env did not find."""

_BUS = later(
    r"\s*(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] (?:.*\[[0-9a-f]{4}:[0-9a-f]{4}\]|"
    r"(?:VGA compatible|3D|Display) controller: )|\s+Kernel driver in use: "
)
_RELEASE = later(r"(?:ID|VERSION_ID|ID_LIKE|PLATFORM_ID|VERSION_CODENAME|VARIANT_ID)=\S")
SYSTEMS = (
    r"Ubuntu|Debian|Fedora|CentOS|Rocky|Alma|Red Hat|RHEL|Oracle|openSUSE|SUSE|Arch|Manjaro|Pop!_OS|Linux ?Mint|"
    r"Amazon|Azure|Kali|NixOS|Windows|CachyOS|EndeavourOS|Proxmox"
)
"""How names of systems begin."""

_SYSTEM = later(
    r"(?:.*\b(?:OS(?: Version| Image)?|Operating System|Description|Distro|Distribution|Linux distribution|Host OS)|"
    rf"PRETTY_NAME)\W{{1,40}}((?:{SYSTEMS})[\w .!/-]*)|\W*((?:{SYSTEMS})(?: Linux)? \d+(?:\.\d+)?(?: LTS)?)$",
    re.IGNORECASE,
)
_NIX = later(r"(?:\W*host os\W+)?Linux (\d+\.\d+\S*), NixOS, |\W*nixos-version\W{1,8}\d\d\.\d\d")
_UNAME = later(r"Linux \S+ (\d+\.\d+\.\d\S*) .*?\b(x86_64|aarch64|ppc64le)\b")
_KERNEL_IS = later(
    r"\W*(?:(?:Linux )?Kernel(?: Version| release)?|uname -r)\W{1,8}(?:Linux )?(\d+\.\d+(?:\.\d+|-rc\d)[\w.+~-]*)\W*$|"
    r"Linux version (\d+\.\d+\.\d\S*)",
    re.IGNORECASE,
)
_DPKG = later(r"([hirpu])([cHUFWti])R? +([a-z0-9][a-z0-9+.-]+)(?::\w+)? +(\d\S*) +(amd64|arm64|all|i386)\b")
_WANTED = {"i": "install", "h": "hold", "r": "deinstall", "p": "purge", "u": "unknown"}
_STATES = {
    "i": "installed", "F": "half-configured", "U": "unpacked", "H": "half-installed", "W": "triggers-awaited",
    "t": "triggers-pending", "c": "config-files",
}  # fmt: skip
_RPM = later(r"([\w.+-]+)-([\w.+~^]+)-([\w.+~^]+)\.(x86_64|aarch64|noarch)$")
_LSMOD = later(r"(nvidia(?:_\w+)?|nouveau|nova_core|vfio_pci) +(\d+) +(\d+)(?: +([\w,]+))?$")
_NVRM = later(r"NVRM version: ")
_SECURE = later(r"SecureBoot (?:enabled|disabled)$")
_OPTIONS = later(r"BOOT_IMAGE=\S+ ")
_NVCC = later(r"Cuda compilation tools, release (\d+\.\d+),|CUDA runtime version *: (\d+\.\d+)\.\d+$")
"""By nvcc's own build number, which several releases of CUDA share: it tells the first two numbers of theirs."""
_TORCH = later(r"PyTorch version *: (\d\S*)$")
_WHEEL = later(r"(?:\[(?:pip3?|conda)\] | *\+ )?([A-Za-z][\w.-]*?)(?:==| {1,60})(\d[\w.+!]*)(?: +pypi_0)?(?: +pypi)?$")
_PYTHON = later(r"\W*Python(?: version)?\W{1,40}(3\.\d+)(?:\.\d+)?\b", re.IGNORECASE)
_PLATFORM = later(r"Python platform *: Linux-(\d+\.\d+\.\d\S*)-(x86_64|aarch64)-")
_GLIBC = later(r"Libc version *: glibc-([\d.]+)$|ldd \([^)]*\) ([\d.]+)$")
_DKMS = later(r"(nvidia[\w-]*)(?:/|, )([\d.]+), (\d\S+), (x86_64|aarch64): (?:installed|built)")


_PACMAN = later(r"((?:lib32-)?nvidia(?:-[\w-]+)?|linux(?:-[\w-]+)?) (\d[\w.+]*-\d+(?:\.\d+)?)$")


def _dpkg(one: re.Match[str]) -> tuple[str, str]:
    return stanza(one[3], f"{_WANTED[one[1]]} ok {_STATES[one[2]]}", one[5], one[4])


def stanza(package: str, status: str, arch: str, version: str) -> tuple[str, str]:
    """A package in dpkg's database, without an architecture where it is unknown."""
    arch = f"Architecture: {arch}\n" if arch else ""
    return "/var/lib/dpkg/status", f"Package: {package}\nStatus: {status}\n{arch}Version: {version}\n"


_KINDS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], tuple[str, str]]], ...] = (
    (_KERNEL, lambda one: (KERNEL, one.string)),
    (_BUILD, lambda one: (f"{one[1] or f'/var/lib/dkms/{one[2]}/{one[3]}/build/'}make.log", one.string)),
    (_INSTALLER, lambda one: ("/var/log/nvidia-installer.log", one.string)),
    (_SMI, lambda one: ("driver", one[1])),
    (_DRIVER, lambda one: ("driver", one[1])),
    (_SMI_GPU, lambda one: ("gpu", f"{one[2]} {one[1]}")),
    (_GPU, lambda one: ("gpu", f" {one[1]}")),
    (_GPU_IS, lambda one: ("named", one[1])),
    (_TEGRA, lambda one: ("/etc/nv_tegra_release", one.string)),
    (_FAILED, lambda one: ("failed", one[0])),
    (_LIBRARY, lambda one: ("library", one[1])),
    (_TABLE, lambda one: ("table", one[0])),
    (_BUS, lambda one: ("bus", one.string.lstrip() if one[0][:1] != "\t" else one.string)),
    (_RELEASE, lambda one: ("/etc/os-release", one.string)),
    (_NIX, lambda one: ("nix", one[1] or "")),
    (_SYSTEM, lambda one: ("system", one.string[one.start(1) :] if one[1] else one[2])),
    (_UNAME, lambda one: ("kernel", f"{one[1]} {one[2]}")),
    (_KERNEL_IS, lambda one: ("kernel", f"{one[1] or one[2]} ")),
    (_DPKG, _dpkg),
    (_PACMAN, lambda one: (f"/var/lib/pacman/local/{one[1]}-{one[2]}/desc", "")),
    (_RPM, lambda one: ("rpm", f"{one[1]}\t\t{one[2]}\t{one[3]}\t{one[4]}\t")),
    (_LSMOD, lambda one: ("/proc/modules", f"{one[1]} {one[2]} {one[3]} {one[4] or '-'}, Live 0x0")),
    (_NVRM, lambda one: ("/proc/driver/nvidia/version", one.string)),
    (_SECURE, lambda one: ("mokutil --sb-state", one[0])),
    (_OPTIONS, lambda one: ("/proc/cmdline", one.string)),
    (_NVCC, lambda one: ("toolkit", one[1] or one[2])),
    (_TORCH, lambda one: ("wheel", f"torch {one[1]}")),
    (_WHEEL, lambda one: ("wheel", f"{one[1]} {one[2]}")),
    (_PYTHON, lambda one: ("python", one[1])),
    (_PLATFORM, lambda one: ("kernel", f"{one[1]} {one[2]}")),
    (_GLIBC, lambda one: ("confstr CS_GNU_LIBC_VERSION", f"glibc {one[1] or one[2]}")),
    (_DKMS, lambda one: (f"/var/lib/dkms/{one[1]}/{one[2]}/{one[3]}/{one[4]}/module", "")),
)
"""What lines say, in the order in which they are tried: the file that a line is of, and its text there; else a kind."""


def kind_of(line: str) -> tuple[str, str]:
    """The file that a line is of and its text there, or the kind of what it tells and that; lines of programs else."""
    for pattern, kind in _KINDS:
        if (match := pattern.match(line)) and (pattern is not _WHEEL or is_distribution(match[1])):
            return kind(match)
    return LOG, line


def is_distribution(name: str) -> bool:
    """Whether a distribution of Python matters to a GPU stack."""
    return re.fullmatch(DISTRIBUTIONS, name.replace("-", "_").lower()) is not None
