"""Container engines on a host with a GPU: what their configuration lacks, and drivers in a root of their own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from gpustack.detect.probes import DOCKER, TOOLKIT
from gpustack.detect.problems import cures
from gpustack.detect.problems.registry import Finding, detects
from gpustack.detect.scene import Scene
from gpustack.versions import is_within

_DOCKER = r"docker-ce|docker\.io|docker-engine|moby-engine|docker|podman-docker"
_PODMAN = r"podman"
_TOOLKIT = r"nvidia-container-toolkit|nvidia-docker2|nvidia-container-runtime"
_CONTAINERD = ("/etc/containerd/config.toml", "/var/lib/rancher/k3s/agent/etc/containerd/config.toml")
_SNAP = "/var/snap/docker/current/config/daemon.json"
_NO_CGROUPS = r"(?m)^[ \t]*no-cgroups[ \t]*=[ \t]*true"
_CDI_MODE = r'(?m)^[ \t]*mode[ \t]*=[ \t]*"cdi"'
_SHM = r"(?m)^\S+ /dev/shm tmpfs \S*?size=(\d+)k"
_SMALL_SHM = 256 << 10
"""Shared memory below this, in KiB, is too little for NCCL between GPUs."""

ROOTS = {
    "/home/kubernetes/bin/nvidia/lib64/libcuda.so.1": "/home/kubernetes/bin/nvidia",
    "/usr/local/glibc/usr/lib/libcuda.so.1": "/usr/local/glibc",
    "/usr/local/glibc/lib/libcuda.so.1": "/usr/local/glibc",
    "/run/nvidia/driver/usr/lib/x86_64-linux-gnu/libcuda.so.1": "/run/nvidia/driver",
    "/cm/local/apps/cuda-driver/libs/current/lib64/libcuda.so": "/cm/local/apps/cuda-driver/libs/current",
}
"""Where container systems and clusters keep the driver's libraries, and the root that a driver has there."""


def _is_host(scene: Scene) -> bool:
    """Whether engines of this system would start containers with its GPUs."""
    return scene.environment in {"bare-metal", "vm"} and scene.driver_is_loaded


def docker_config(scene: Scene) -> dict[str, Any]:
    """Docker's configuration, what concerns GPUs; that it is no JSON `docker_runtime` says."""
    return msgspec.json.decode(scene.evidence.text(DOCKER) or "{}", type=dict[str, Any])


def _has_toolkit(scene: Scene) -> bool:
    return bool(scene.installed(_TOOLKIT)) or bool(
        {"/usr/bin/nvidia-ctk", "/usr/bin/nvidia-container-runtime"} & scene.evidence.marks.keys()
    )


@detects("detect-engine-without-toolkit")
def no_toolkit(scene: Scene) -> Iterator[Finding]:
    """An engine on a host with a driver, and nothing that gives containers its GPUs."""
    engines = scene.installed(f"{_DOCKER}|{_PODMAN}")
    if _is_host(scene) and engines and not _has_toolkit(scene):
        yield Finding(
            message=f"{engines[0].name} is installed, the NVIDIA Container Toolkit is not: containers get no GPU "
            "(could not select device driver with capabilities: [[gpu]])",
            fix=f"{cures.plan('container-toolkit')} installs it and configures the engine",
            severity="info",
            reboot=False,
        )


@detects("detect-docker-snap")
def snap(scene: Scene) -> Iterator[Finding]:
    """Docker from a snap, whose own toolkit set up no runtime; the host's toolkit is not for it."""
    configured = "nvidia" in (scene.evidence.text(_SNAP) or "")
    if _is_host(scene) and "/snap/bin/docker" in scene.evidence.marks and not configured:
        beside = scene.installed(_DOCKER)
        yield Finding(
            message=f"Docker is a snap here, and its configuration ({_SNAP}) names no runtime of NVIDIA's; what "
            f"nvidia-ctk writes to {DOCKER} is not for it"
            + (f"; {beside[0].name} is installed besides" if beside else ""),
            fix="`sudo snap refresh docker` and `sudo snap restart docker.nvidia-container-toolkit` set it up from the "
            "host's driver (`snap logs docker.nvidia-container-toolkit` says what failed), then `docker run "
            "--runtime=nvidia`; or save its volumes, `sudo snap remove docker`, install Docker's own packages, and "
            f"{cures.plan('container-toolkit')}",
            reboot=False,
        )


@detects("detect-docker-runtime")
def docker_runtime(scene: Scene) -> Iterator[Finding]:
    """Docker with the toolkit, whose configuration cannot be read or has no runtime of NVIDIA's."""
    if not (_is_host(scene) and scene.installed(_DOCKER)):
        return
    broken = scene.evidence.marks.get(DOCKER, "")
    if broken:
        yield Finding(
            message=f"Docker does not start with its configuration: {DOCKER} is {broken}",
            fix=f"repair {DOCKER}, then `sudo systemctl restart docker`",
            severity="warn",
            reboot=False,
        )
    if broken or not _has_toolkit(scene):
        return
    text = scene.evidence.text(DOCKER)
    config = docker_config(scene)
    runtimes = config.get("runtimes")
    cdi = isinstance(config.get("features"), dict) and config["features"].get("cdi")
    if not cdi and not (isinstance(runtimes, dict) and any("nvidia" in name for name in runtimes)):
        yield Finding(
            message=f"Docker has no runtime of NVIDIA's: {DOCKER} {'names none' if text else 'does not exist'} "
            "(unknown or invalid runtime name: nvidia)",
            fix="`sudo nvidia-ctk runtime configure --runtime=docker`, then `sudo systemctl restart docker`",
            severity="info",
            reboot=False,
        )


@detects("detect-containerd-runtime")
def containerd_runtime(scene: Scene) -> Iterator[Finding]:
    """Kubernetes' containerd with the toolkit, without NVIDIA's runtime."""
    marks = scene.evidence.marks
    if not (_is_host(scene) and _has_toolkit(scene) and "/var/lib/kubelet/config.yaml" in marks):
        return
    path = next((path for path in _CONTAINERD if scene.evidence.text(path) is not None), None)
    text = scene.evidence.text(path) if path else None
    if text is not None and "nvidia" not in text and not re.search(r"^\s*imports\s*=", text, re.MULTILINE):
        yield Finding(
            message=f"{path} names no runtime of NVIDIA's: pods with that runtime class fail "
            '(no runtime for "nvidia" is configured)',
            fix="`sudo nvidia-ctk runtime configure --runtime=containerd`, then `sudo systemctl restart containerd`",
            reboot=False,
        )


@detects("detect-containerd-section")
def containerd_section(scene: Scene) -> Iterator[Finding]:
    """A configuration of containerd 2 that names NVIDIA's runtime where only containerd 1 looks."""
    for path in _CONTAINERD if _is_host(scene) else ():
        text = scene.evidence.text(path) or ""
        if (
            re.search(r"^\s*version\s*=\s*3\b", text, re.MULTILINE)
            and re.search(r"io\.containerd\.grpc\.v1\.cri\W?\.containerd\.runtimes\.nvidia", text)
            and not re.search(r"io\.containerd\.cri\.v1\.runtime\W?\.containerd\.runtimes\.nvidia", text)
        ):
            yield Finding(
                message=f"{path} has version = 3 and names NVIDIA's runtime in the section io.containerd.grpc.v1.cri, "
                'which containerd 2 does not read in that version (no runtime for "nvidia" is configured)',
                fix="with container-toolkit 1.17.4 or newer `sudo nvidia-ctk runtime configure --runtime=containerd` "
                "writes io.containerd.cri.v1.runtime; then `sudo systemctl restart containerd`",
                reboot=False,
            )


@detects("detect-cdi-missing")
def no_specification(scene: Scene) -> Iterator[Finding]:
    """Podman with the toolkit but without a device specification, by which alone it gives containers GPUs."""
    toolkit = next(iter(scene.installed(_TOOLKIT)), None)
    # From 1.18 on a service writes it at each start, to a folder that a tree of files does not have.
    is_seen = scene.evidence.live or (toolkit is not None and is_within(toolkit.upstream, "<1.18"))
    specified = any(re.search(r"/cdi/[^/]+$", path) for path in scene.evidence.files)
    if _is_host(scene) and toolkit is not None and scene.installed(_PODMAN) and is_seen and not specified:
        yield Finding(
            message="podman finds the GPUs by a CDI specification, and none exists in /etc/cdi or /var/run/cdi "
            "(unresolvable CDI devices nvidia.com/gpu=all)",
            fix="`sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`",
            severity="info",
            reboot=False,
        )


@detects("detect-no-cgroups")
def no_cgroups(scene: Scene) -> Iterator[Finding]:
    """The setting for rootless containers, which keeps containers of root from the devices."""
    rooted = scene.installed(f"{_DOCKER}|containerd.*") or "/snap/bin/docker" in scene.evidence.marks
    if _is_host(scene) and rooted and re.search(_NO_CGROUPS, scene.evidence.text(TOOLKIT) or ""):
        yield Finding(
            message=f"{TOOLKIT} has no-cgroups = true, which is for rootless containers only: containers that root's "
            "engine starts are kept from the devices (Failed to initialize NVML: Unknown Error)",
            fix="`sudo nvidia-ctk config --in-place --set nvidia-container-cli.no-cgroups=false`, then "
            "`sudo systemctl restart docker`; rootless containers use CDI in its place: "
            "`sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`",
            reboot=False,
        )


@detects("detect-cdi-mode")
def cdi_mode(scene: Scene) -> Iterator[Finding]:
    """The runtime in CDI mode, in which the hook that Docker's option --gpus calls refuses to work."""
    if _is_host(scene) and scene.installed(_DOCKER) and re.search(_CDI_MODE, scene.evidence.text(TOOLKIT) or ""):
        yield Finding(
            message=f'{TOOLKIT} has mode = "cdi": `docker run --gpus` fails (invoking the NVIDIA Container Runtime '
            "Hook directly is not supported)",
            fix="start containers with `--runtime=nvidia`, or "
            "`sudo nvidia-ctk config --in-place --set nvidia-container-runtime.mode=auto`",
            severity="info",
            reboot=False,
        )


@detects("detect-systemd-cgroups")
def systemd_cgroups(scene: Scene) -> Iterator[Finding]:
    """Docker's cgroups in systemd's hands, with a toolkit that adds the devices behind their back."""
    toolkit = next(iter(scene.installed(_TOOLKIT)), None)
    config = msgspec.json.decode(scene.evidence.text(DOCKER) or "{}", type=dict[str, Any])
    is_systemd = "native.cgroupdriver=systemd" in (config.get("exec-opts") or ())
    if _is_host(scene) and is_systemd and toolkit is not None and is_within(toolkit.upstream, "<1.18"):
        yield Finding(
            message=f"{DOCKER} has native.cgroupdriver=systemd: after a `systemctl daemon-reload` running containers "
            "have no GPU any more (Failed to initialize NVML: Unknown Error)",
            fix=f"{cures.plan('container-toolkit>=1.18')} gives containers their GPUs by CDI; or "
            "native.cgroupdriver=cgroupfs there, then `sudo systemctl restart docker`; such a container has to be "
            "started again",
            severity="info",
            reboot=False,
        )


@detects("detect-shared-memory")
def shared_memory(scene: Scene) -> Iterator[Finding]:
    """A container whose /dev/shm is an engine's default."""
    match = re.search(_SHM, scene.evidence.text("/proc/mounts") or "")
    if scene.environment == "container" and match and int(match[1]) < _SMALL_SHM:
        yield Finding(
            message=f"this container has {int(match[1]) // 1024} MiB of shared memory (/dev/shm): NCCL between GPUs "
            "and data loaders with several processes fail (bus error, or no space left on device)",
            fix="start it with `--shm-size=8g` or `--ipc=host`; in a pod mount an emptyDir of medium Memory there",
            severity="info",
            reboot=False,
        )


@detects("detect-driver-root")
def driver_root(scene: Scene) -> Iterator[Finding]:
    """Driver libraries that lie in a root of their own, which no loader path and no default of a toolkit names."""
    if not _is_host(scene) or scene.copies:
        return
    found = next(
        (root for path, root in ROOTS.items() if any(mark.startswith(path) for mark in scene.evidence.marks)), None
    )
    if found is not None:
        yield Finding(
            message=f"the driver's libraries lie in a root of their own, {found}: programs and the toolkit's defaults "
            "do not find them",
            fix=f"tell the toolkit, the device plugin or the operator that root (nvidia-ctk: --driver-root={found}; "
            f"the plugin: NVIDIA_DRIVER_ROOT={found})",
            severity="info",
            reboot=False,
        )
