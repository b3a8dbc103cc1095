"""The container toolkit: gives containers access to GPUs."""

from __future__ import annotations

from gpustack.model import actions as do
from gpustack.model.resolution import Pick
from gpustack.plan import done
from gpustack.plan.components.base import Component
from gpustack.plan.context import Context
from gpustack.plan.draft import Draft, draft
from gpustack.versions import is_within

CDI_FILE = "/etc/cdi/nvidia.yaml"


class ContainerToolkit(Component):
    """Configures only engines that are present; no step reloads systemd, which would take GPUs away from containers."""

    phase = "applications"

    def after(self, ctx: Context, pick: Pick, installed: tuple[str, ...]) -> list[Draft]:
        drafts = []
        if "docker" in ctx.host.installed:
            drafts += _docker(ctx, installed)
        elif ctx.host.described:
            drafts.append(_docker_note(ctx, installed))
        if "podman" in ctx.host.installed and not is_within(pick.version, ">=1.18"):
            drafts.append(_podman(ctx, installed))
        return drafts


def _docker(ctx: Context, installed: tuple[str, ...]) -> list[Draft]:
    configure = draft(
        "docker-runtime",
        after=installed,
        component="container-toolkit",
        kind="run",
        title="register the NVIDIA runtime with Docker",
        why="it adds the runtime to /etc/docker/daemon.json and leaves the rest of that file unchanged",
        actions=(do.Run(argv=("nvidia-ctk", "runtime", "configure", "--runtime=docker"), settings=True),),
        undo_note="remove the entry 'nvidia' from 'runtimes' in /etc/docker/daemon.json",
        done_when=done.succeeds("grep", "--quiet", "nvidia-container-runtime", "/etc/docker/daemon.json"),
        phase="applications",
        sources=ctx.matrix.addresses(("container-toolkit/guide",)),
    )
    restart = draft(
        "docker-restart",
        after=["docker-runtime"],
        component="container-toolkit",
        kind="run",
        title="restart Docker",
        why="Docker reads its configuration at start; containers without live restore stop with it",
        actions=(do.RestartService(unit="docker"),),
        undo_note="a restart has nothing to undo",
        phase="applications",
        sources=ctx.matrix.addresses(("container-toolkit/guide",)),
    )
    return [configure, restart]


def _docker_note(ctx: Context, installed: tuple[str, ...]) -> Draft:
    return draft(
        "docker-note",
        after=installed,
        component="container-toolkit",
        kind="note",
        title="where Docker is installed, register the NVIDIA runtime with it",
        why="nvidia-ctk runtime configure --runtime=docker, then systemctl restart docker (which stops containers "
        "without live restore); a described host does not say whether Docker is installed",
        needs_root=False,
        undo_note="nothing is changed",
        phase="applications",
        sources=ctx.matrix.addresses(("container-toolkit/guide",)),
    )


def _podman(ctx: Context, installed: tuple[str, ...]) -> Draft:
    return draft(
        "podman-cdi",
        after=installed,
        component="container-toolkit",
        kind="run",
        title="write the CDI specification for Podman",
        why="Podman finds GPUs through it; toolkits before 1.18 do not write it automatically",
        actions=(do.Run(argv=("nvidia-ctk", "cdi", "generate", f"--output={CDI_FILE}"), settings=True),),
        undo=(do.Remove(paths=(CDI_FILE,)),),
        done_when=f"path {CDI_FILE}",
        phase="applications",
        sources=ctx.matrix.addresses(("container-toolkit/guide",)),
    )


COMPONENT = ContainerToolkit()
