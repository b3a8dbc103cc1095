"""What package managers, installers and programs report when a driver or toolkit was not installed, or is not found."""

from __future__ import annotations

from gpustack.detect.problems.phrases import Cause, Phrase, said
from gpustack.detect.scene import Scene

_ROWS: tuple[Phrase, ...] = (
    (r"held broken packages|unmet dependencies",
     "apt cannot install the driver: packages of two repositories or releases do not fit together, or some are held",
     ("`apt-mark showhold` and `apt-cache policy` of the named package show which; `gpustack plan driver` takes all "
     "from one repository"), True),
    (r"Conflicting values set for option Signed-By", "two entries of sources name one repository with different keys",
     "keep one of the entries in /etc/apt/sources.list.d: cuda-keyring has its own", True),
    (r"dpkg: error processing package (?P<a>[\w.+-]+)", "the package {a} was not configured: its script failed",
     "the lines before it tell why (a build by dkms: its make.log); then `sudo dpkg --configure -a`", True),
    (r"filtered out by modular filtering", "a module stream of dnf hides the driver's packages",
     "`sudo dnf module list nvidia-driver`; enable the stream that you want, or reset it", True),
    (r"Failed to download metadata for repo|repomd\.xml.{0,40}(?:404|Cannot download)|Cannot download repomd",
     "a repository does not answer, or has no folder for this release",
     "`gpustack detect` names sources that are wrong for this system; look at proxy and network", True),
    (r"GPG check FAILED|Signature verification failed|is not signed\b|public key is not available|NO_PUBKEY",
     "the repository's key is missing or an old one", ("install the repository's present key (cuda-keyring; `rpm "
     "--import` of the key next to repomd.xml)"), True),
    (r"attempt to install files?|conflicts with file from package|exists in filesystem|trying to overwrite",
     "two packages have the same file of the driver, or a .run file left it: two builders are mixed",
     "remove the other one first (`sudo nvidia-uninstall`, or its packages); keep one source of the driver", True),
    (r"breaks dependency '(?P<a>[^']+)' required by (?P<b>\S+)",
     "{b} still requires {a}: parts of the driver are upgraded without it", ("`sudo pacman -Syu` upgrades all parts; "
     "those of the AUR have to be rebuilt, or wait for their release"), True),
    (r"Packages not found: (?P<a>\S+)", "{a} is in none of the enabled repositories",
     "enable the repository that has it (RPM Fusion nonfree for akmod-nvidia), then ask again", True),
    (r"Kernel source too new|nvidia-drivers-(?P<a>[\d.]+)\S* failed \(compile",
     "the driver was not built: this kernel is too new for it, or its configuration lacks a part",
     "`gpustack plan driver` chooses a driver for this kernel; Portage's build.log has the first error", True),
    (r"unfree license", "Nix refuses the driver, because its licence is not free",
     "nixpkgs.config.allowUnfree = true (NIXPKGS_ALLOW_UNFREE=1 for one command)", True),
    (r"marked as broken", "nixpkgs says that this driver does not build with this kernel",
     "another hardware.nvidia.package (production, stable, legacy_580), or an older boot.kernelPackages", True),
    (r"find the kernel source tree|kernel headers for kernel", "the installer does not find the kernel's headers",
     "install the headers of the running kernel (`uname -r`), then run it again", True),
    (r"Nouveau kernel driver is currently in use", "nouveau holds the GPU, so that the installer stopped",
     "blacklist nouveau in /etc/modprobe.d, rebuild the initramfs, reboot, run it again; `gpustack plan driver` does",
     True),
    (r"module failed to load\. Secure [Bb]oot", "Secure Boot refuses the module that the installer built",
     "`gpustack plan driver` names how to sign and enroll a key; the installer has --module-signing-secret-key", True),
    (r"EFI variables are not supported", "the machine was started without UEFI, so that there is no Secure Boot",
     "nothing has to be enrolled; start it by UEFI where keys are wanted", True),
    (r"Installation has failed", "NVIDIA's installer gave up: the first ERROR above that line is the reason",
     "read /var/log/nvidia-installer.log from its first ERROR", True),
    (r"couldn't communicate with the NVIDIA driver", "no module of the driver is loaded",
     "`sudo modprobe nvidia` says why; `gpustack detect` lists what this kernel lacks", True),
    (r"CL_PLATFORM_NOT_FOUND|no OpenCL platforms?|clGetPlatformIDs.{0,30}(?:-1001|failed)",
     "OpenCL finds no platform: NVIDIA's description of it (/etc/OpenCL/vendors/nvidia.icd) or its library is missing",
     "install the driver's OpenCL part (Debian nvidia-opencl-icd, Arch opencl-nvidia, Fedora xorg-x11-drv-nvidia-cuda)",
     True),
    (r"[Cc]odec not supported|no decoder for|not supported by (?:the )?decoder",
     "this GPU's decoder (NVDEC) does not support the codec, or its depth of colour",
     "decode on the processor; `gpustack check ffmpeg` names what the GPU supports", False),
    (r"peer access is not supported", "two GPUs cannot reach each other's memory: boards without it, or the IOMMU",
     "NCCL_P2P_DISABLE=1; `nvidia-smi topo -p2p r` shows the pairs", True),
    (r"persistenced failed to initialize", "nvidia-persistenced found no module or no /dev/nvidia files",
     "`sudo modprobe nvidia` and `sudo nvidia-modprobe -c0 -u` say why", True),
    (r"suitable GPU context|any suitable GPU", "a program found no graphics interface that works on the GPU",
     "`nvidia-smi` must work; EGL and Vulkan descriptions of NVIDIA must be there (`gpustack detect`)", False),
    (r"command '?\S*nvcc'? failed with exit", "nvcc stopped with an error: the first one above that line is the reason",
     "read the build's log from its first error", False),
)  # fmt: skip


def transaction(_: Scene, line: str) -> Cause | None:
    """The cause that the line of a failed installation has."""
    return said(_ROWS, line)
