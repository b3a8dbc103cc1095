"""What services wrote about GPUs, and the lines of their configuration that concern GPUs."""

from __future__ import annotations

import re

from gpustack.detect.evidence import CommandOutput
from gpustack.detect.log_words import CAPITALS, WORDS
from gpustack.detect.probes import DOCKER, TOOLKIT
from gpustack.detect.tree import Tree
from gpustack.patterns import later
from gpustack.system.paths import matches
from gpustack.system.run import Runner

LOGS = (
    "/var/log/syslog", "/var/log/messages", "/var/log/kern.log", "/var/log/dmesg", "/var/log/daemon.log",
    "/var/log/user.log",
    "/var/log/nvidia-installer.log", "/var/log/nvidia-container-runtime.log", "/var/log/nvidia-container-toolkit.log",
    "/var/log/nv-hostengine.log", "/var/log/nvidia-imex.log", "/var/log/nvidia-dcgm/*.log",
    "/var/log/gpu-manager.log", "/var/log/Xorg.0.log", "/home/*/.local/share/xorg/Xorg.0.log",
    "/var/log/apt/term.log", "/var/log/dnf.log", "/var/log/zypper.log", "/var/log/pacman.log",
    "/var/log/dnf5.log", "/var/log/zypp/history", "/var/log/unattended-upgrades/*.log", "/var/log/Xorg.*.log",
    "/var/log/gdm3/*.log", "/var/log/gdm/*.log", "/var/log/lightdm/*.log", "/var/log/sddm.log",
    "/var/log/tritonserver*.log", "/var/log/cuda-installer.log", "/home/*/.config/obs-studio/logs/*.txt",
    "/home/*/.var/app/*/config/obs-studio/logs/*.txt", "/home/*/snap/*/*/.config/obs-studio/logs/*.txt",
    "/home/*/.local/share/sddm/*.log", "/home/*/.xsession-errors",
    "/run/user/*/hypr/*/hyprland.log", "/var/cache/akmods/akmods.log",
    "/home/*/*/build/CMakeFiles/CMakeError.log", "/home/*/*/CMakeFiles/CMakeError.log",
    "/var/log/portage/elog/summary.log",
    "/var/log/slurmd.log", "/var/log/slurm/*.log", "/var/log/slurm-llnl/*.log", "/var/log/ollama*.log",
    "/home/*/.ollama/logs/*.log", "/root/.ollama/logs/*.log", "/usr/share/ollama/.ollama/logs/*.log",
    "/config/Library/Application Support/Plex Media Server/Logs/Plex Media Server.log", "/var/lib/emby/logs/*.txt",
    "/config/logs/*.txt",
    "/var/lib/plexmediaserver/Library/Application Support/Plex Media Server/Logs/Plex Media Server.log",
    "/var/log/jellyfin/*.log", "/config/log/*.log", "/var/log/libvirt/qemu/*.log", "/var/log/cloud-init-output.log",
    "/var/log/audit/audit.log", "/var/log/nvidia-mps/*.log",
    "/var/log/incus/*/lxc.log", "/var/log/lxd/*/lxc.log", "/var/snap/lxd/common/lxd/logs/*/lxc.log",
    "/var/log/pods/*/*/*.log", "/var/log/containers/*.log", "/var/lib/docker/containers/*/*-json.log",
    "/var/log/fabricmanager.log", "/var/log/nvidia*/*.log", "/var/log/azure/*/*.log", "/var/log/amazon/*/*.log",
    "/var/log/docker*.log", "/var/log/containerd*.log", "/var/log/kubelet*.log", "/var/log/crio*.log",
    "/var/log/cuda*.log", "/var/log/nvidia*.log", "/var/log/dcgm*.log", "/var/log/gridd*.log", "/var/log/startup*.log",
    "/var/log/waagent.log", "/var/log/enroot*.log", "/var/log/pve/tasks/*/*", "/var/log/libvirt/*.log",
    "/home/*/.var/app/*/*/*/*.log", "/home/*/.config/*/*.log", "/home/*/.local/share/*/*.log",
    "/home/*/.local/state/*/*.log", "/home/*/.cache/*/*.log",
    "/var/log/tritonserver*.log", "/var/log/vllm*.log", "/root/*.log", "/home/*/*.log", "/workspace/*.log",
)  # fmt: skip
"""Where services of hosts with GPUs write; of these files the end is read."""

UNITS = (
    "docker", "snap.docker.dockerd", "containerd", "crio", "cri-docker", "kubelet", "k3s", "k3s-agent", "rke2-server",
    "rke2-agent", "k0scontroller", "k0sworker", "snap.microk8s.daemon-kubelite", "snap.microk8s.daemon-containerd",
    "nvidia-persistenced", "nvidia-fabricmanager", "nvidia-imex", "nvidia-dcgm", "dcgm", "dcgm-exporter",
    "nvidia-dcgm-exporter", "nvidia-suspend", "nvidia-resume", "nvidia-hibernate", "nvidia-powerd", "nvidia-gridd",
    "nvidia-vgpud", "nvidia-vgpu-mgr", "nvidia-cdi-refresh", "nvidia-container-toolkit-cdi-generator", "gdm", "gdm3",
    "sddm", "lightdm", "supergfxd", "bumblebeed", "nvidia-mps", "nvidia-mig-manager", "slurmd", "slurmctld", "ollama",
    "snap.ollama.listener", "jellyfin", "plexmediaserver", "emby-server", "frigate", "libvirtd", "virtqemud",
    "tritonserver", "triton", "incus", "snap.lxd.daemon",
)  # fmt: skip
"""The units of systemd that use GPUs or hand them to containers and guests: the end of their journal is read."""

UNIT_FOLDERS = ("/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")
JOURNALS = ("/var/log/journal", "/run/log/journal")

JOURNAL = "journalctl --unit"
"""The name of the units' journal among the commands of the evidence."""

JOURNAL_LINES = 2000
"""So many of the last lines of all units together are asked for."""

JOURNAL_OPTIONS = ("--boot", "--no-pager", "--quiet", "--output=short-iso", f"--lines={JOURNAL_LINES}")

LIMIT, MANY = 512 << 10, 64 << 10
"""So much of a log's end is read, in bytes: of one file, and of each where there are many."""

NAMED = 100
"""So many files that lines name are searched in the tree."""

FILES = 40
"""So many files of one pattern are read."""

KEPT_LINES, WIDTH = 120, 1000
"""So many of a log's last lines about GPUs are kept, each cut to this width."""

PROGRAMS = (
    "/home/*", "/root/*", "/workspace/*", "/var/log/pods/*", "/var/log/containers/*", "/var/lib/docker/containers/*",
    "/var/log/*installer.log", "/var/log/tritonserver*", "/var/log/vllm*", "/var/log/libvirt/*", "/var/log/ollama*",
    "/var/log/startup*", "/var/log/slurm*", "/var/log/enroot*", "/config/*", "/var/log/pve/tasks/*",
    "/var/cache/akmods/*",
)  # fmt: skip
"""Logs of single programs: their failures count although they name no GPU."""

FAILURES = (
    b"rror:", b"ERROR", b"atal:", b"FATAL", b"ailed", b"annot ", b"ould not ", b"nable to ", b" not found", b"No rule ",
    b"o such file", b"UNAVAILABLE", b"file too short", b"result=", b"known ", b"nsupported ", b"undefined symbol",
    b"Exception", b"outdated", b"not valid yet", b"xited with", b"ut of resource", b"timed out", b"no element",
    b"t support ", b"tatic TLS",
    b"is missing", b"No module named", b"not installed", b"checksums", b"in use by", b"t supported", b"nvalid ",
    b"n-zero",
    b"please report", b"compute cap", b"no such ", b"is less than", b"no available", b"has no ", b"no read access",
    b"all_reduce", b"utdated ", b"directives are", b"tcc", b"nly supported on", b"llegal ", b"rror ",
)  # fmt: skip
KEPT_FAILURES = 40
"""So many of a program's last lines that read like a failure are kept."""

_BOOT = b"Linux version "

_DIGITS = b"0123456789"

_CONTAINERD = (
    r"^\s*version\s*=|nvidia|^\s*imports\s*=|SystemdCgroup|default_runtime_name|disabled_plugins|runtimes|enable_cdi"
)

_UNIT = r"(?i)CUDA|NVIDIA|OLLAMA|GPU|Device|^ExecStart=.*dockerd"

SETTINGS = {
    "/proc/mounts": r" /dev/shm ",
    "/etc/containerd/config.toml": _CONTAINERD,
    "/etc/containerd/conf.d/*.toml": _CONTAINERD,
    "/var/lib/rancher/k3s/agent/etc/containerd/config.toml": _CONTAINERD,
    "/var/lib/rancher/rke2/agent/etc/containerd/config.toml": _CONTAINERD,
    "/etc/k0s/containerd.d/*.toml": _CONTAINERD,
    "/var/snap/microk8s/current/args/containerd-template.toml": _CONTAINERD,
    "/usr/local/nvidia/toolkit/.config/nvidia-container-runtime/config.toml": r"root|mode|no-cgroups",
    "/var/snap/docker/current/config/daemon.json": r"nvidia",
    "/home/*/.config/docker/daemon.json": r"nvidia|cdi",
    "/home/*/.config/hypr/*.conf": r"^\s*env\s*=\s*(?:AQ|WLR)_DRM",
    "/etc/crio/crio.conf": r"runtime|cdi|hooks",
    "/etc/crio/crio.conf.d/*": r"runtime|cdi|hooks",
    "/etc/slurm*/gres.conf": r"(?i)gpu|autodetect",
    "/etc/slurm*/slurm.conf": r"(?i)gres",
    "/etc/slurm*/cgroup.conf": r"(?i)device",
    "/etc/slurm*/plugstack.conf": r"(?i)gpu|pyxis",
    "/etc/nixos/*.nix": r"(?i)nvidia|docker|podman|rootless|cdi|unfree|kernelPackages|videoDrivers|cuda",
    "/etc/pve/lxc/*.conf": r"^(?:lxc\.(?:cgroup2?\.devices|mount\.entry)|dev\d+:)",
    "/etc/selinux/config": r"^SELINUX=",
    "/etc/X11/xorg.conf": r"(?i)driver|busid|allowempty|option",
    "/etc/X11/xorg.conf.d/*.conf": r"(?i)driver|busid|allowempty|option",
    "/etc/systemd/system/*.service.d/*.conf": _UNIT,
    "/etc/systemd/system/*.service": _UNIT,
    "/etc/systemd/user/*.service": _UNIT,
    "/home/*/.config/systemd/user/*.service": _UNIT,
    "/opt/*/jupyterhub_config.py": r"isolate_devices|device_policy",
    "/etc/jupyterhub/jupyterhub_config.py": r"isolate_devices|device_policy",
    "/srv/jupyterhub/jupyterhub_config.py": r"isolate_devices|device_policy",
    "/var/lib/kubelet/config.yaml": r"cgroupDriver",
    "/usr/lib/systemd/system/nvidia-persistenced.service": r"ExecStart|User",
    "/etc/profile.d/*.sh": r"CUDA|NVIDIA|LD_LIBRARY_PATH|LD_PRELOAD|NCCL|GBM|GLX|WLR|LIBVA",
    "/etc/environment.d/*.conf": r"CUDA|NVIDIA|LD_LIBRARY_PATH|LD_PRELOAD|NCCL|GBM|GLX|WLR|LIBVA",
    "/etc/security/limits.d/*.conf": r"memlock",
    "/etc/modules": r"nvidia|vfio|nouveau",
    "/etc/modules-load.d/*.conf": r"nvidia|vfio|nouveau|ib_umad|mlx5",
    "/etc/mkinitcpio.conf": r"^(?:MODULES|HOOKS)",
    "/etc/mkinitcpio.conf.d/*.conf": r"^(?:MODULES|HOOKS)",
    "/etc/dracut.conf.d/*.conf": r"nvidia|vfio|nouveau|drivers",
    "/etc/apptainer/apptainer.conf": r"nv|cuda|nvidia|ldconfig",
    "/etc/singularity/singularity.conf": r"nv|cuda|nvidia|ldconfig",
    "/etc/enroot/enroot.conf": r"(?i)nvidia|libcuda|hook",
    "/usr/share/ublue-os/image-info.json": r"image|flavor",
    "/etc/eks/release": r".",
    "/etc/ecs/ecs.config": r"GPU|NVIDIA",
    "/etc/dnf/dnf.conf": r"^exclude",
    "/etc/yum.conf": r"^exclude",
    "/etc/pacman.conf": r"^Ignore",
    "/etc/supergfxd.conf": r"mode",
    "/etc/nccl.conf": r".",
    "/usr/share/glvnd/egl_vendor.d/*.json": r"library_path",
    "/etc/glvnd/egl_vendor.d/*.json": r"library_path",
    "/usr/lib/udev/rules.d/61-gdm.rules": r"(?i)nvidia",
    "/lib/udev/rules.d/61-gdm.rules": r"(?i)nvidia",
    "/proc/driver/nvidia/gpus/*/power": r"Runtime D3",
    "/sys/class/power_supply/*/type": r"Battery",
    "/proc/sys/kernel/modules_disabled": r".",
    "/sys/bus/thunderbolt/devices/*/authorized": r".",
    "/sys/class/infiniband/*/ports/*/state": r".",
    "/etc/libvirt/qemu/*.xml": r"<hostdev |</hostdev>|<address domain=",
    "/etc/pve/qemu-server/*.conf": r"^hostpci",
    "/var/lib/rancher/*/agent/etc/containerd/*.tmpl": _CONTAINERD + r"|template \"base\"",
    "/etc/rancher/*/config.yaml": r"default-runtime",
    "/etc/containerd/config.d/*.toml": _CONTAINERD,
    "/usr/share/containers/oci/hooks.d/*nvidia*": r".",
    "/run/containers/oci/hooks.d/*nvidia*": r".",
    "/etc/OpenCL/vendors/*.icd": r".",
    "/usr/share/vulkan/icd.d/*.json": r"library_path",
    "/etc/vulkan/icd.d/*.json": r"library_path",
    "/etc/gdm3/custom.conf": r"^WaylandEnable",
    "/etc/gdm/custom.conf": r"^WaylandEnable",
    "/etc/jellyfin/encoding.xml": r"HardwareAccelerationType",
    "/etc/sysctl.d/*.conf": r"modules_disabled",
    "/etc/udev/rules.d/*nvidia*": r".",
    "/usr/lib/udev/rules.d/*nvidia*": r"remove|nvidia-frontend|power/control",
    "/lib/udev/rules.d/*nvidia*": r"remove|nvidia-frontend|power/control",
    "/usr/share/nvidia/nvswitch/fabricmanager.cfg": r"^FABRIC_MODE",
    "/etc/tmpfiles.d/*nvidia*": r".",
    "/usr/lib/tmpfiles.d/*nvidia*": r".",
}  # fmt: skip
"""Which lines are kept of the configuration that decides about GPUs, by the pattern of the path.

The rest of the engines' files holds registries and their passwords.
"""


_PATH = later(
    r"(?<![\w.:/@-])(/(?:dev|proc|sys|usr|etc|run|var|opt|lib|lib64|bin|sbin|tmp|root|home|mnt|host|build)/[\w./+@~*-]*[\w*])"
    r"(?![\w./+@~*-]*:\d+:)"
)
"""Files, and not the place in a source file that a message begins with."""

_SET = later(
    r"(?:\b(?:BinaryName|runtime_path|path|ldconfig)\"?\s*[:=]\s*[\"']@?|--add-runtime[= ][\w.-]+=)(/[^\"'\s]+)"
)
"""A program that the configuration of an engine names."""

ABSENT = later(
    r"no such file|not found|does not exist|doesn't exist|cannot stat|can't stat|not exist\b|missing", re.IGNORECASE
)
DENIED = later(
    r"permission denied|operation not permitted|EACCES|EPERM|insufficient permissions|access denied", re.IGNORECASE
)


def named_paths(line: str) -> list[str]:
    """The files that a line names, where it is about something missing or refused."""
    return _PATH.findall(line) if "/" in line and (ABSENT.search(line) or DENIED.search(line)) else []


class ServiceReader:
    """Reads one tree; what is found is added to ``files``."""

    def __init__(self, tree: Tree, files: dict[str, str]) -> None:
        self.tree = tree
        self.files = files

    def settings(self) -> None:
        """The lines of configuration."""
        for pattern, kept in SETTINGS.items():
            for path in self._paths(pattern):
                lines = self.tree.bytes_if_any(path, LIMIT, tail=True).decode("utf-8", "replace").splitlines()
                found = [line for line in lines if re.search(kept, line) and not line.lstrip().startswith("#")]
                if not found and kept == _UNIT:
                    continue
                self.files[path] = "".join(f"{line[:WIDTH]}\n" for line in found)

    def logs(self) -> None:
        """The last lines about GPUs of each log, after those that are known of it already."""
        for pattern in LOGS:
            for path in self._paths(pattern):
                if path.endswith("/nvidia-uninstall.log"):  # of a driver that is gone
                    continue
                data = self.tree.bytes_if_any(path, MANY if "*" in pattern else LIMIT, tail=True)
                lines = about_gpus(data, failures=any(matches(path, one) for one in PROGRAMS))
                known = self.files.get(path, "")
                seen = set(known.splitlines())
                more = [line for line in lines if line not in seen]
                if more:
                    self.files[path] = known + "".join(f"{line}\n" for line in more[-KEPT_LINES - KEPT_FAILURES :])

    def named(self) -> dict[str, str]:
        """Which of the files exist that logs name as missing or refused, or an engine's settings as its program."""
        paths: dict[str, None] = {}
        for path, text in self.files.items():
            if any(path.startswith(pattern.partition("*")[0]) for pattern in LOGS):
                paths.update(dict.fromkeys(found for line in text.splitlines() for found in named_paths(line)))
            if any(one in path for one in ("/containerd", "/crio", "/docker.service")) or path in {DOCKER, TOOLKIT}:
                paths.update(dict.fromkeys(_SET.findall(text)))
        plain = [path for path in paths if "*" not in path]
        return {f"named {path}": "there" if self.tree.exists(path) else "absent" for path in plain[-NAMED:]}

    def journal(self, runner: Runner) -> dict[str, CommandOutput]:
        """The last lines about GPUs in the journal of the installed units, or why it could not be read.

        Empty where none of the units is installed, or journald keeps nothing in files.
        """
        journals = [path for folder in JOURNALS for path in self.tree.glob(f"{folder}/*/system.journal", limit=FILES)]
        units = self._units() if journals else []
        if not units:
            return {}
        readable = [path for path in journals if self.tree.bytes_if_any(path, 8, tail=True)]
        if not readable:
            return {JOURNAL: CommandOutput(err="no permission: root and the group systemd-journal can read it")}
        # Of a tree a boot is the last one in its files, which journalctl finds if it is given their folder.
        folder = self.tree.resolve(readable[0].rpartition("/")[0])
        where = () if self.tree.is_whole else (f"--directory={self.tree.root}{folder}",)
        done = runner.run(
            ("journalctl", *JOURNAL_OPTIONS, *where, *(f"--unit={unit}.service" for unit in units)), timeout=5.0
        )
        if done.code != 0:
            why = done.error or next(iter(done.err.splitlines()), f"journalctl ended with {done.code}")
            return {JOURNAL: CommandOutput(code=done.code, err=why[:WIDTH])}
        lines = about_gpus(done.out.encode())[-KEPT_LINES:]
        return {JOURNAL: CommandOutput(code=0, out="".join(f"{line}\n" for line in lines))}

    def _units(self) -> list[str]:
        """Those of the units that are installed, in the order in which they are declared."""
        paths = (path for folder in UNIT_FOLDERS for path in self.tree.glob(f"{folder}/*.service"))
        names = {path.rpartition("/")[2] for path in paths}
        return [unit for unit in UNITS if f"{unit}.service" in names]

    def _paths(self, pattern: str) -> list[str]:
        if "*" not in pattern:
            return [pattern] if self.tree.is_file(pattern) else []
        return list(self.tree.glob(pattern, limit=FILES))


def about_gpus(data: bytes, *, failures: bool = False) -> list[str]:
    """The lines with one of the words since the last boot that the text shows, searched word by word, for speed.

    With ``failures`` also the last lines that read like one.
    """
    first = data.rfind(b"\n", 0, max(0, data.rfind(_BOOT))) + 1
    found: dict[int, int] = {}
    folded = data.lower()
    # Lines that differ in numbers only are searched once: so many words take as long as one in a log of alike lines.
    kinds = b"\n".join(set(folded.translate(None, _DIGITS).splitlines()))
    # Most words of a log stand in many lines: each once, they are a third of it or less.
    pieces = b"\n".join(set(kinds.split()))
    for word in WORDS:
        plain = word.translate(None, _DIGITS)
        # The longest part first: it is the rarest, and the fastest to look for.
        parts = sorted(plain.split(), key=len, reverse=True)
        if all(part in pieces for part in parts) and (plain in pieces or plain in kinds):
            found.update(_last(folded, word, first, KEPT_LINES))
    for word in CAPITALS:
        found.update(_last(data, word, first, KEPT_LINES))
    for word in FAILURES if failures else ():
        found.update(_last(data, word, first, KEPT_FAILURES))
    return [data[start:stop].decode("utf-8", "replace")[:WIDTH] for start, stop in sorted(found.items())]


def _last(data: bytes, word: bytes, first: int, most: int) -> dict[int, int]:
    """Where the last lines with a word begin and end."""
    found: dict[int, int] = {}
    at = data.rfind(word, first)
    while at >= 0 and len(found) < most:
        start = data.rfind(b"\n", first, at) + 1 or first
        stop = data.find(b"\n", at)
        found[start] = len(data) if stop < 0 else stop
        at = data.rfind(word, first, start)
    return found
