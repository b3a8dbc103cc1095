"""Triton as a container: the image, an empty model repository, and a container that starts with the machine."""

from __future__ import annotations

from msgspec import Struct

from gpustack.errors import UnsupportedError
from gpustack.model.resolution import Pick
from gpustack.plan.context import Context
from gpustack.plan.downloads import reason_of
from gpustack.plan.draft import Draft, draft
from gpustack.plan.methods.base import MethodPlanner
from gpustack.versions import is_within

STORE = "/srv/triton/models"
NAME = "triton"
_PORTS = ("8000", "8001", "8002")
_LIMITS = ("--shm-size=1g", "--ulimit=memlock=-1", "--ulimit=stack=67108864")


class Image(Struct, frozen=True, kw_only=True):
    """One image of a release, by its whole reference."""

    release: str
    variant: str
    reference: str
    src: tuple[str, ...] = ()


class Container(MethodPlanner):
    """Docker, or Podman where only that is there."""

    def drafts(self, ctx: Context, pick: Pick) -> list[Draft]:
        images = ctx.matrix.rows("triton", "images", Image)
        image = next((row for row in images if (row.release, row.variant) == (pick.version, "py3")), None)
        if pick.component != "triton" or image is None:
            msg = f"the facts know no container image of {pick.component} {pick.version}"
            raise UnsupportedError(msg, hint="`gpustack matrix show triton` lists the images")
        podman = "podman" in ctx.host.installed and "docker" not in ctx.host.installed
        engine = "podman" if podman else "docker"
        if engine not in ctx.host.installed:
            ctx.warn("Triton runs in Docker or Podman, which this plan does not install: one of them has to be there")
        store = draft(
            "model-store",
            component="triton",
            kind="run",
            title=f"make the model repository {STORE}",
            why="the server reads its models there; `gpustack triton model-store` lays a model out",
            commands=(("install", "-d", "-m", "0755", "--", STORE),),
            undo=(("rmdir", "--", STORE),),
            done_when=f"path {STORE}",
            phase="applications",
        )
        pull = draft(
            "image",
            after=["install:container-toolkit", "docker-restart", "podman-cdi"],
            component="triton",
            kind="download",
            title=f"pull {image.reference}",
            why=reason_of(pick),
            commands=((engine, "pull", image.reference),),
            undo=((engine, "image", "rm", image.reference),),
            phase="applications",
            sources=ctx.addresses(image),
        )
        return [store, pull, _run(ctx, pick, engine, image)]


def _run(ctx: Context, pick: Pick, engine: str, image: Image) -> Draft:
    gpus = ("--device=nvidia.com/gpu=all",) if engine == "podman" else ("--gpus=all",)
    ports = tuple(f"--publish={port}:{port}" for port in _PORTS)
    server = _server(pick.version)
    command = (
        *(engine, "run", "--detach", f"--name={NAME}", "--restart=unless-stopped", *gpus, *_LIMITS, *ports),
        *(f"--volume={STORE}:/models:ro", image.reference, *server),
    )
    return draft(
        "install:triton",
        after=["model-store", "image"],
        component="triton",
        kind="run",
        title=f"start Triton {pick.version}",
        why="ports: 8000 HTTP, 8001 gRPC, 8002 metrics; the larger shared memory is for backends in Python, the limits "
        "for pinned memory; the models are mounted read-only",
        commands=(command,),
        undo=((engine, "rm", "--force", NAME),),
        phase="applications",
        sources=ctx.addresses(image),
    )


def _server(release: str) -> tuple[str, ...]:
    """The server program and its option for the model repository, by its era."""
    if is_within(release, "<20.03.1"):
        return ("trtserver", "--model-store=/models")
    return ("tritonserver", "--model-repository=/models")


PLANNER = Container()
