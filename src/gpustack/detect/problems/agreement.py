"""Settings of container engines and schedulers that contradict each other, or this host."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from gpustack.detect.probes import DOCKER, TOOLKIT
from gpustack.detect.problems.engines import docker_config
from gpustack.detect.problems.registry import Finding, detects
from gpustack.detect.scene import Scene
from gpustack.patterns import later

_BINARY = later(r"(?m)^[^#\n]*\b(?:BinaryName|runtime_path)\s*=\s*[\"'](/[^\"'\n]+)")
_ADDED = later(r"--add-runtime[= ]([\w.-]+)=(/\S+)")
_DEFAULT = later(r"(?m)^[^#\n]*\bdefault_runtime_name\s*=\s*[\"']([\w.-]+)")
_SWARM = later(r"(?m)^[ \t]*swarm-resource[ \t]*=[ \t]*\"([^\"\n]*)\"")

_FILES = later(r"(?im)^[^#\n]*\bName=gpu\b[^#\n]*\bFile=(/dev/nvidia\S+)")
_RANGE = later(r"(\d+)-(\d+)|(\d+)")
_MOST = 64
"""So many devices of one pattern are counted."""
_GRES = later(r"(?im)^\s*NodeName=(\S+)[^#\n]*\bGres=\S*?gpu:(?:[A-Za-z_][\w.-]*:)?(\d+)")


@detects("detect-runtime-file")
def runtime_file(scene: Scene) -> Iterator[Finding]:
    """A runtime of an engine's configuration whose program does not exist."""
    for path, text in sorted(scene.evidence.files.items()):
        if "/containerd" not in path and "/crio" not in path and path != DOCKER:
            continue
        named = _BINARY.findall(text) if path != DOCKER else _paths(docker_config(scene))
        gone = next((one for one in named if "nvidia" in one and _is_absent(scene, one)), None)
        if gone is not None and scene.environment in {"bare-metal", "vm"}:
            yield Finding(
                message=f"{path} names {gone} as the program of NVIDIA's runtime, and that file does not exist: "
                "containers with it do not start",
                fix="`gpustack plan container-toolkit` installs it; where the toolkit was removed, or the GPU operator "
                f"had installed it, take the runtime and a default_runtime_name (default-runtime) out of {path}; then "
                "restart the engine",
                severity="warn",
                reboot=False,
            )


@detects("detect-runtime-option")
def runtime_option(scene: Scene) -> Iterator[Finding]:
    """A runtime on dockerd's command line: its program does not exist, or daemon.json has runtimes too."""
    for path, text in sorted(scene.evidence.files.items()):
        for match in _ADDED.finditer(text) if "/docker.service" in path else ():
            if _is_absent(scene, match[2]):
                says = f"names {match[2]} as the runtime {match[1]}, and that file does not exist"
                fix = f"`gpustack plan container-toolkit` installs it; or take --add-runtime out of {path}"
            elif "runtimes" in docker_config(scene):
                says = f"has --add-runtime, and {DOCKER} has runtimes: one of both only is allowed"
                fix = f"take --add-runtime out of {path}"
            else:
                continue
            yield Finding(
                message=f"{path} {says}: Docker does not start",
                fix=f"{fix}; then `sudo systemctl daemon-reload && sudo systemctl restart docker`",
                severity="warn",
                reboot=False,
            )
            return


@detects("detect-default-runtime")
def default_runtime(scene: Scene) -> Iterator[Finding]:
    """A default runtime of Docker's or containerd's that no runtime of the same configuration has as its name."""
    for path, text in sorted(scene.evidence.files.items()):
        found = _DEFAULT.search(text) if path.endswith("config.toml") else None
        # The rest may stand in files that it imports.
        if found is not None and found[1] != "runc" and f"runtimes.{found[1]}" not in text and "imports" not in text:
            yield Finding(
                message=f"{path} makes {found[1]!r} the default runtime, and its runtimes lack it: containerd's CRI "
                "plugin does not load, and kubelet starts nothing",
                fix="`sudo nvidia-ctk runtime configure --runtime=containerd --set-as-default`, then "
                "`sudo systemctl restart containerd`",
                severity="warn",
                reboot=False,
            )
    config = docker_config(scene)
    name, runtimes = config.get("default-runtime"), config.get("runtimes")
    known = runtimes if isinstance(runtimes, dict) else {}
    if isinstance(name, str) and "nvidia" in name and name not in known:
        yield Finding(
            message=f"{DOCKER} makes {name!r} the default runtime, and its runtimes lack it: Docker does not start",
            fix="`sudo nvidia-ctk runtime configure --runtime=docker --set-as-default`, then "
            "`sudo systemctl restart docker`",
            severity="warn",
            reboot=False,
        )


@detects("detect-swarm-resource")
def swarm_resource(scene: Scene) -> Iterator[Finding]:
    """Resources of a swarm's node of another name than the variable that the toolkit looks at."""
    offered = docker_config(scene).get("node-generic-resources")
    names = (
        {one.partition("=")[0].upper() for one in offered if isinstance(one, str)}
        if isinstance(offered, list)
        else set()
    )
    config = scene.evidence.text(TOOLKIT)
    if not names or config is None:
        return
    found = _SWARM.search(config)
    told = set(found[1].split(",")) if found else set()
    wanted = {f"DOCKER_RESOURCE_{name}" for name in names}
    if not wanted & told:
        kind = min(wanted)
        yield Finding(
            message=f"{DOCKER} offers {', '.join(sorted(names))} in node-generic-resources, for which Docker sets "
            f"{kind}, and {TOOLKIT} has {f'swarm-resource = {found[1]!r}' if found else 'no swarm-resource'}: tasks of "
            "a swarm get all GPUs, or none",
            fix=f'set swarm-resource = "{kind}" there, then `sudo systemctl restart docker`',
            severity="info",
            reboot=False,
        )


@detects("detect-slurm-count")
def slurm_count(scene: Scene) -> Iterator[Finding]:
    """Slurm's files that name more GPUs than this node has."""
    here = len(scene.gpus)
    if not here or scene.environment not in {"bare-metal", "vm"}:
        return
    for path, text in sorted(scene.evidence.files.items()):
        if not re.fullmatch(r"/etc/slurm[\w-]*/(?:gres|slurm)\.conf", path):
            continue
        if path.endswith("gres.conf"):
            devices = [number for line in _FILES.findall(text) for number in _numbers(line)]
            if "NodeName" in text or len(set(devices)) <= here:
                continue
            says = f"{path} names {len(set(devices))} device files of GPUs"
        else:
            nodes = _GRES.findall(text)
            if len({count for _, count in nodes}) != 1 or int(nodes[0][1]) <= here:
                continue
            says = f"{path} gives {nodes[0][0]} {nodes[0][1]} GPUs (Gres=)"
        yield Finding(
            message=f"{says}, and this host has {here}: slurmctld drains the node (gres/gpu count reported lower than "
            "configured), or slurmd does not start",
            fix=f"correct {path}, or find the GPU that is missing (`nvidia-smi -L`, `lspci -d 10de:`), then "
            "`sudo systemctl restart slurmd`",
            severity="info",
            reboot=False,
        )
        return


def _numbers(path: str) -> list[int]:
    """The numbers that a pattern of device files like /dev/nvidia[0-3,6] stands for."""
    found: list[int] = []
    for first, last, single in _RANGE.findall(path):
        found += range(int(first), int(last) + 1)[:_MOST] if first else [int(single)]
    return found


def _paths(config: dict[str, Any]) -> list[str]:
    runtimes = config.get("runtimes")
    found = runtimes.values() if isinstance(runtimes, dict) else ()
    paths = (one.get("path") for one in found if isinstance(one, dict))
    return [path for path in paths if isinstance(path, str)]


def _is_absent(scene: Scene, path: str) -> bool:
    """Whether a path that a file names was searched, and is not there."""
    return scene.evidence.marks.get(f"named {path}") == "absent"
