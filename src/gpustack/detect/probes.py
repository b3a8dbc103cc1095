"""What detect reads on a machine, as data. Paths are absolute inside the root; ``*`` matches one path component."""

from __future__ import annotations

TEXT_LIMIT = 1 << 20
"""The longest text file that is read, in bytes; a longer one is a problem, not a value."""

LOG_LIMIT = 256 << 10
"""The part of a log that is read, in bytes from its end."""

QUERY = "nvidia-smi -q"
"""What the driver reports of each GPU: where somebody has captured it."""

DOCKER = "/etc/docker/daemon.json"
TOOLKIT = "/etc/nvidia-container-runtime/config.toml"
"""The configuration of the container toolkit."""

TEXTS = (
    "/etc/os-release", "/usr/lib/os-release", "/etc/dgx-release", "/etc/armbian-release", "/etc/rpi-issue",
    "/etc/nv_tegra_release", "/etc/redhat-release", "/etc/debian_version",
    "/proc/version", "/proc/sys/kernel/osrelease", "/proc/sys/kernel/arch", "/proc/modules",
    "/proc/driver/nvidia/version", "/proc/driver/nvidia/params", "/proc/sys/fs/binfmt_misc/WSLInterop",
    "/sys/class/dmi/id/sys_vendor", "/sys/class/dmi/id/product_name", "/sys/hypervisor/type",
    "/var/lib/dpkg/arch", "/etc/apt/sources.list", "/etc/apt/preferences", "/etc/dnf/plugins/versionlock.list",
    "/etc/yum/pluginconf.d/versionlock.list", "/etc/dnf/versionlock.toml", "/etc/zypp/locks", "/etc/ld.so.conf",
    "/etc/environment", "/run/reboot-required", "/run/reboot-required.pkgs", "/var/run/reboot-required",
    "/var/run/reboot-required.pkgs", TOOLKIT, "/opt/tritonserver/TRITON_VERSION",
    "/sys/module/nvidia_drm/parameters/modeset", "/sys/module/nvidia_drm/parameters/fbdev",
    "/sys/module/nvidia_uvm/parameters/uvm_disable_hmm",
    "/etc/default/grub", "/etc/apt/apt.conf.d/50unattended-upgrades", "/boot/grub2/grubenv", "/boot/grub/grubenv",
)  # fmt: skip

NAMES = ("/proc/sys/kernel/hostname", "/etc/hostname")
"""Where a machine has its name: the kernel's own, else that of the next boot."""

QUIET_TEXTS = (
    *NAMES,
    "/proc/1/environ", "/proc/1/cgroup", "/proc/device-tree/compatible", "/proc/device-tree/model", "/proc/cmdline",
    "/proc/devices", "/sys/devices/platform/asus-nb-wmi/dgpu_disable", "/sys/devices/platform/asus-nb-wmi/gpu_mux_mode",
)  # fmt: skip
"""Read if allowed; NUL separates their parts. A lack of permission says nothing about the machine."""

DESKTOPS = (
    "/usr/bin/gnome-shell", "/usr/bin/kwin_wayland", "/usr/bin/Hyprland", "/usr/bin/sway", "/usr/bin/cosmic-comp",
    "/run/current-system/sw/bin/gnome-shell", "/run/current-system/sw/bin/kwin_wayland",
    "/run/current-system/sw/bin/Hyprland", "/usr/sbin/lightdm", "/usr/bin/sddm",
)  # fmt: skip
"""Compositors of desktops, and login screens."""

MARKS = (
    *DESKTOPS,
    "/.dockerenv", "/run/.containerenv", "/run/ostree-booted", "/etc/nvidia/gridd.conf", "/usr/lib/nvidia/sriov-manage",
    "/usr/bin/nvidia-vgpu-mgr", "/usr/bin/nvidia-uninstall", "/var/lib/nvidia/log", "/var/log/nvidia-installer.log",
    "/usr/lib/wsl/lib", "/usr/bin/nv-fabricmanager", "/usr/bin/nvidia-ctk", "/usr/bin/nvidia-smi", "/usr/bin/dcgmi",
    "/usr/bin/gdrcopy_sanity", "/usr/local/bin/gdrcopy_sanity", "/usr/bin/nvidia-imex",
    "/usr/bin/ffmpeg", "/usr/local/bin/ffmpeg", "/opt/tritonserver/bin/tritonserver", "/etc/apt/trusted.gpg",
    "/usr/bin/clang", "/usr/bin/ld.lld",
    "/usr/bin/sqv", "/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm", "/dev/dxg", "/usr/bin/nvidia-modprobe",
    "/sbin/ldconfig.real", "/usr/sbin/ldconfig.real", "/usr/bin/kubelet", "/proc/device-tree", "/proc/sys/kernel",
    "/sys/bus/pci/devices",
    "/usr/lib/systemd/system/nvidia-suspend.service", "/lib/systemd/system/nvidia-suspend.service",
    "/etc/systemd/system/systemd-suspend.service.wants/nvidia-suspend.service", "/opt/nvidia/nvlsm",
)  # fmt: skip
"""Paths whose existence alone is information."""

TEXT_GLOBS = (
    "/etc/apt/sources.list.d/*.list", "/etc/apt/sources.list.d/*.sources", "/etc/apt/preferences.d/*",
    "/etc/apt/apt.conf.d/*unattended*", "/etc/yum.repos.d/*.repo", "/etc/zypp/repos.d/*.repo",
    "/etc/dnf/modules.d/*.module", "/etc/tdnf/locks.d/*", "/etc/ld.so.conf.d/*.conf", "/etc/modprobe.d/*.conf",
    "/usr/lib/modprobe.d/*.conf", "/lib/modprobe.d/*.conf",
    "/run/modprobe.d/*.conf", "/etc/cdi/*.yaml", "/etc/cdi/*.json", "/run/cdi/*.yaml",
    "/run/cdi/*.json", "/var/run/cdi/*.yaml", "/var/run/cdi/*.json", "/sys/module/nvidia*/version",
    "/sys/module/nouveau/version", "/usr/local/cuda-*/version.json", "/usr/local/cuda-*/version.txt",
    "/usr/local/cuda/version.json", "/usr/local/cuda/version.txt",
    "/usr/include/cudnn*.h", "/usr/include/*-linux-gnu/cudnn*.h", "/usr/local/cuda*/include/cudnn*.h",
    "/usr/include/NvInferVersion.h", "/usr/include/*-linux-gnu/NvInferVersion.h",
    "/usr/local/*/include/NvInferVersion.h", "/opt/*/include/NvInferVersion.h",
    "/usr/lib/pkgconfig/ffnvcodec.pc", "/usr/local/lib/pkgconfig/ffnvcodec.pc", "/usr/share/pkgconfig/ffnvcodec.pc",
    "/usr/local/share/pkgconfig/ffnvcodec.pc", "/usr/lib/*/pkgconfig/ffnvcodec.pc", "/usr/lib64/pkgconfig/ffnvcodec.pc",
    "/usr/local/lib64/pkgconfig/ffnvcodec.pc", "/boot/loader/entries/*.conf",
    "/usr/local/include/libavutil/ffversion.h", "/usr/local/ffmpeg-*/include/libavutil/ffversion.h",
    "/usr/src/gdrdrv-*/dkms.conf",
)  # fmt: skip

CUDNN_HEADERS = ("cudnn_version", "cudnn.h")
"""Of the cudnn*.h files only those with these prefixes contain version numbers."""

LOGS = (
    "/var/log/unattended-upgrades/unattended-upgrades.log", "/var/log/apt/history.log", "/var/log/dpkg.log",
    "/var/log/dnf.rpm.log", "/var/log/kern.log", "/var/log/dmesg", "/var/log/messages",
)  # fmt: skip

LOG_WORDS = (
    "nvidia",
    "nouveau",
    "nova",
    "NVRM",
    "unattended-upgrade",
    "module verification",
    "unsigned module",
    "unavailable key",
    "Key was rejected",
    "A4B469963BF863CC",
    "libcuda",
    "autoremove",
)
"""Only log lines with one of these words are kept."""

LISTINGS = (
    "/boot", "/lib/modules", "/etc/apt/trusted.gpg.d", "/etc/apt/keyrings", "/usr/share/keyrings", "/usr/local",
    "/proc/driver/nvidia-nvswitch/devices", "/proc/driver/nvidia/gpus", "/var/lib/dkms",
    "/etc/apt/sources.list.d", "/sys/bus/pci/devices", "/etc/pki/rpm-gpg", "/usr/lib/wsl/lib",
    "/sys/firmware/efi/efivars", "/dev/nvidia-caps-imex-channels", "/dev/dri", "/sys/class/infiniband",
    "/lib/firmware/nvidia", "/sys/class/net", "/sys/class/backlight", "/var/lib/pacman/local",
    "/var/lib/pkgtools/packages", "/var/log/packages",
)  # fmt: skip

LINKS = (
    "/usr/local/cuda", "/etc/alternatives/cuda", "/boot/vmlinuz", "/vmlinuz", "/usr/bin/python3", "/usr/bin/gcc",
    "/usr/bin/cc",
    "/usr/bin/nvcc", "/usr/include/cudnn.h", "/etc/alternatives/libcudnn", "/usr/local/bin/ffmpeg",
)  # fmt: skip

BLOB_GLOBS = (
    "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c",
    "/usr/share/keyrings/*nvidia*", "/usr/share/keyrings/*cuda*", "/etc/apt/keyrings/*nvidia*",
    "/etc/apt/keyrings/*cuda*",
    "/etc/apt/trusted.gpg", "/etc/apt/trusted.gpg.d/*.gpg", "/etc/apt/trusted.gpg.d/*.asc",
)  # fmt: skip
BLOB_LIMIT = 256 << 10
INDEX_LIMIT = 16 << 20
"""The longest modules.dep that is read."""

KEPT_NAMES = {
    "/var/lib/dkms": r"nvidia",
    "/boot": r"vmlinu[xz]|initr|kernel|Image",
    "/usr/local": r"cuda|TensorRT|tensorrt|nvidia|ffmpeg",
    "/etc/apt/sources.list.d": r".*(?:nvidia|cuda|archive_uri)",
    "/etc/apt/trusted.gpg.d": r"(?i).*(?:nvidia|cuda|7fa2af80)",
    "/sys/firmware/efi/efivars": r"SecureBoot-|Mok(?:List|New|DelRT)|db-",
    "/usr/share/keyrings": r"nvidia|cuda|libnvidia",
    "/etc/apt/keyrings": r"nvidia|cuda",
    "/var/lib/pkgtools/packages": r"nvidia|kernel-|cuda|cudnn|xf86-video-nouveau",
    "/var/log/packages": r"nvidia|kernel-|cuda|cudnn|xf86-video-nouveau",
    "/var/lib/pacman/local": (
        r"(?:lib32-|opencl-|libva-|linux-[\w-]+-)?nvidia|linux|cuda|cudnn|nccl|tensorrt|dkms-|steam-|wine|egl-|gdm-|"
        r"(?:lib32-)?vulkan-icd|ffmpeg-|docker-|podman-|bbswitch|bumblebee|envycontrol|optimus|supergfx|gcc-|glibc-"
    ),
}
"""The names of a listing that are kept (all of them for other folders)."""

LIBRARY_NAMES = (
    r"lib(?:cuda|cudart|nvidia-[\w-]+|nvcuvid|cudnn[\w]*|nvinfer[\w]*|nvonnxparser|nvparsers|nccl|"
    r"nvrtc|cublas|tensorrt_rtx)\.so[\d.]*"
)
"""Libraries whose copies are listed wherever they are."""

LIBRARY_STARTS = ("libcu", "libnc", "libnv", "libtensorrt")
"""The prefix of each: of a thousand libraries only these are worth a regular expression."""

STANDARD_LIBRARY_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/lib/aarch64-linux-gnu",
    "/usr/lib/powerpc64le-linux-gnu", "/usr/lib64", "/lib64", "/usr/lib", "/lib",
)  # fmt: skip
"""Searched by the loader after its configured folders."""

OTHER_LIBRARY_GLOBS = (
    "/usr/local/cuda*/lib64", "/usr/local/cuda*/compat", "/usr/local/cuda*/targets/*/lib", "/usr/local/TensorRT*/lib",
    "/opt/TensorRT*/lib", "/opt/tensorrt*/lib", "/usr/lib/wsl/lib", "/usr/local/nvidia/lib64", "/usr/local/nvidia/lib",
    "/run/opengl-driver/lib", "/usr/lib/*/nvidia/current", "/usr/lib/*/tegra", "/usr/lib/*/nvidia", "/usr/local/lib",
    "/usr/local/lib64",
)  # fmt: skip
"""Folders with copies that are not on the loader's path by themselves."""

WHEEL_LIBRARIES = ("nvidia/cudnn/lib", "nvidia/nccl/lib", "tensorrt_libs", "tensorrt_rtx_libs")

MODULE_FOLDERS = (
    "updates/dkms", "updates", "updates/nvidia", "extra", "extra/nvidia", "extra/nvidia-open",
    "extra/drivers/video/nvidia",
    "kernel/drivers/video", "kernel/drivers/video/nvidia", "kernel/nvidia-*", "weak-updates",
    "weak-updates/nvidia*", "misc",
    "weak-updates/updates", "kernel/drivers/gpu/drm/nouveau", "extramodules",
)  # fmt: skip
"""The folders of a kernel that can contain the driver's modules."""

ENVIRON = (
    "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "NVIDIA_VISIBLE_DEVICES",
    "NVIDIA_DRIVER_CAPABILITIES", "container", "WSL_DISTRO_NAME", "CUDAHOSTCXX",
)  # fmt: skip
"""Variables of the running process that decide what programs load."""

MAX_PREFIXES = 20
"""The number of PATH folders that are searched for Python environments."""

COMMANDS = (
    ("modinfo", "-F", "signer", "nvidia"),
    ("modinfo", "-F", "license", "nvidia"),
    ("modinfo", "-F", "version", "nvidia"),
    ("ffmpeg", "-hide_banner", "-version"),
    ("gcc", "-dumpfullversion"),
)
"""Run on the running machine only; none of them changes anything or needs root."""

PACKAGE_NAMES = (
    r"linux(?:\d[\d.]*)?(?:-lts|-mainline)?(?:-headers)?|"
    r"nvidia.*|32nvidia.*|lib32nvidia.*|libnv.*|cuda.*|libcuda.*|libcublas.*|libcufft.*|libcurand.*|libcusolver.*|"
    r"libcusparse.*|libcufile.*|cudnn.*|libcudnn.*|tensorrt.*|"
    r"nv-codec-headers|libffmpeg-nvenc-dev|libnccl.*|nccl.*|python3-libnvinfer.*|ffmpeg|"
    r"linux-image-.*|linux-headers-.*|linux-modules-nvidia-.*|linux-objects-nvidia-.*|linux-signatures-nvidia-.*|"
    r"kernel|kernel-.*|kmod-.*|akmod-.*|dkms|"
    r"xorg-x11-drv-nvidia.*|xserver-xorg-video-nvidia.*|nvidia-x11-drv.*|firmware-nvidia.*|glx-.*|libc6|glibc|"
    r"gcc(?:-\d+)?|clang|g\+\+|g\+\+-aarch64-linux-gnu|python3|docker.*|containerd.*|podman|mft|mlnx-.*|doca-.*|nvlsm|libnvsdm.*|almalinux-release-nvidia.*|"
    r"datacenter-gpu-manager.*|gpg-pubkey|sqv|apt|nsight-.*|nvlink.*|triton.*|ib_umad|infiniband-diags|primus.*|bumblebee.*|"
    r"incus.*|enroot.*|suse-prime.*|gdrcopy.*|gdrdrv-dkms|libgdrapi|steam|steam-.*|wine32.*|"
    r"jellyfin.*|obs-studio|plexmediaserver|emby-server|handbrake.*|snapd|flatpak|gdm|gdm3|mesa-vulkan-drivers"
)
"""The relevant packages, without groups where letters do: of each package of a host this is asked."""

SIGNING_KEYS = (
    "/var/lib/shim-signed/mok/MOK.der", "/var/lib/dkms/mok.pub", "/etc/pki/akmods/certs/public_key.der",
    "/etc/pki/akmods/certs/*.der", "/root/*.der",
)  # fmt: skip
"""Certificates of the keys that dkms, akmods and people sign modules with."""

BUILD_LOGS = (
    "/var/lib/dkms/nvidia*/*/build/make.log", "/var/cache/akmods/nvidia*/*.failed.log", "/var/log/nvidia-installer.log",
)  # fmt: skip

SETUP_MARKS = (
    "/etc/systemd/system/*/nvidia-powerd.service", "/etc/systemd/system/nvidia-powerd.service",
    "/usr/bin/nvidia-powerd",
    "/cm/local/apps/cuda-driver/libs/current/lib64/libcuda.so*",
    "/usr/bin/nvidia-container-runtime", "/usr/local/bin/k3s", "/var/lib/rancher/k3s", "/etc/eks",
    "/sys/class/mdev_bus",
    "/snap/bin/docker", "/var/lib/kubelet/config.yaml", "/usr/bin/nvidia-gridd", "/etc/nvidia/ClientConfigToken/*.tok",
    "/etc/systemd/system/*/nvidia-gridd.service", "/etc/systemd/system/*/nvidia-suspend.service",
    "/etc/systemd/system/*/nvidia-hibernate.service", "/etc/systemd/system/*/nvidia-resume.service",
    "/usr/lib/systemd/system/nvidia-*.service", "/lib/systemd/system/nvidia-*.service",
    "/home/kubernetes/bin/nvidia/lib64/libcuda.so.1", "/usr/local/glibc/usr/lib/libcuda.so.1",
    "/usr/local/nvidia/toolkit/nvidia-container-runtime", "/etc/crio", "/etc/pve",
    "/etc/modprobe.d/nvidia-installer-disable-nouveau.conf",
    "/etc/systemd/system/multi-user.target.wants/nvidia-fabricmanager.service",
    "/usr/bin/incusd", "/usr/bin/nvidia-container-cli", "/run/cdi", "/usr/share/lxc/hooks/nvidia",
    "/usr/lib64/slurm/gpu_*.so", "/usr/lib/*/slurm*/gpu_*.so", "/usr/lib/slurm*/gpu_*.so",
    "/usr/local/lib*/slurm/gpu_*.so", "/var/lib/flatpak/runtime/org.freedesktop.Platform",
    "/var/lib/flatpak/runtime/org.freedesktop.Platform.GL.default",
    "/sys/bus/platform/drivers/simple-framebuffer/simple-framebuffer.0",
    "/var/lib/flatpak/runtime/org.freedesktop.Platform.GL.nvidia-*",
    "/home/*/.local/share/flatpak/runtime/org.freedesktop.Platform.GL.nvidia-*",
    "/usr/lib/systemd/system/akmods.service", "/etc/systemd/system/*.wants/akmods.service",
    "/usr/lib/x86_64-linux-gnu/libGLX_nvidia.so.*", "/usr/lib64/libGLX_nvidia.so.*", "/usr/lib/libGLX_nvidia.so.*",
    "/usr/lib/i386-linux-gnu/libGLX_nvidia.so.*", "/usr/lib32/libGLX_nvidia.so.*", "/usr/lib32/libGL.so.1",
    "/usr/lib/i386-linux-gnu/libGL.so.1", "/usr/lib/*/gbm/nvidia-drm_gbm.so", "/usr/lib*/gbm/nvidia-drm_gbm.so",
    "/var/db/pkg/x11-drivers/nvidia-drivers-*", "/var/db/pkg/dev-util/nvidia-cuda-toolkit-*",
    "/var/db/pkg/sys-kernel/*", "/usr/bin/nvcc",
    "/usr/bin/ollama", "/usr/local/bin/ollama", "/.singularity.d",
    "/usr/lib/ollama/*cuda*", "/usr/lib/ollama/cuda_v*", "/usr/local/lib/ollama/*cuda*", "/opt/docker-desktop",
    "/sys/bus/thunderbolt/devices/*", "/etc/nvidia-imex/nodes_config.cfg",
    "/usr/local/glibc/lib/libcuda.so.1", "/run/nvidia/driver/usr/lib/x86_64-linux-gnu/libcuda.so.1",
)  # fmt: skip
"""Paths of engines, services and roots of drivers whose mere existence tells something."""

LICENCE_LOGS = ("/var/log/syslog", "/var/log/messages")
