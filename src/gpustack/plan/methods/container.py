"""Triton as a container: the image, an empty model repository, and a container that starts at boot."""

from __future__ import annotations

from gpustack.model import actions as do
from gpustack.model.offer import ServerImage
from gpustack.model.resolution import Pick
from gpustack.model.steps import FileWrite
from gpustack.plan import done
from gpustack.plan.context import Context
from gpustack.plan.downloads import reason_of
from gpustack.plan.draft import Draft, draft
from gpustack.plan.methods.base import MethodPlanner
from gpustack.resources import template
from gpustack.versions import is_within

STORE = "/srv/triton/models"
NAME = "triton"
_PORTS = ("8000", "8001", "8002")
_PYTHON_SINCE = ">=20.10"
_RUNS = 'test "$("$1" container inspect --format "{{.State.Running}} {{.Config.Image}}" "$2")" = "$3"'
_FIRST_PROGRAM = "/opt/inference_server/bin/inference_server"
_LIMITS = ("--shm-size=1g", "--ulimit=memlock=-1", "--ulimit=stack=67108864")


class Container(MethodPlanner):
    """Docker, or Podman if only that is installed."""

    def drafts(self, ctx: Context, pick: Pick) -> list[Draft]:
        image = pick.offer.images[0]
        podman = "podman" in ctx.host.installed and "docker" not in ctx.host.installed
        engine = "podman" if podman else "docker"
        if engine not in ctx.host.installed:
            ctx.warn("Triton runs in Docker or Podman, which this plan does not install: one of them must be installed")
        pull = draft(
            "image",
            after=["install:container-toolkit", "docker-restart", "podman-cdi"],
            component="triton",
            kind="download",
            title=f"pull {image.reference}",
            why=reason_of(pick),
            actions=(do.PullImage(engine=engine, reference=image.reference),),
            undo=(do.RemoveImage(engine=engine, reference=image.reference),),
            done_when=done.succeeds(engine, "image", "inspect", image.reference),
            phase="applications",
            sources=ctx.addresses(image),
        )
        return [_store(ctx, pick), pull, _run(ctx, pick, engine, image), _ready(ctx, pick)]


def _store(ctx: Context, pick: Pick) -> Draft:
    """The model repository, with a model that needs no file of the user if the image can run one."""
    if is_within(pick.version, _PYTHON_SINCE):
        model = f"{STORE}/identity"
        why = "the server reads its models there; the model identity requires no GPU and returns its input"
        files: tuple[FileWrite, ...] = (
            FileWrite(path=f"{model}/config.pbtxt", content=template("triton/identity.pbtxt")),
            FileWrite(path=f"{model}/1/model.py", content=template("triton/identity.py")),
        )
    else:
        # A model without its file would stop the server, so the template is next to the repository.
        model = f"{STORE.rpartition('/')[0]}/pattern/engine"
        why = f"the server reads its models there; {model} is a template"
        files = (FileWrite(path=f"{model}/config.pbtxt", content=template("triton/engine.pbtxt")),)
    return draft(
        "model-store",
        component="triton",
        kind="run",
        title=f"make the model repository {STORE}",
        why=why,
        actions=(do.MakeFolders(paths=(STORE, f"{model}/1")),),
        files=files,
        undo=(do.Remove(paths=(model,), whole=True),),
        done_when=f"path {STORE}",
        phase="applications",
        sources=ctx.matrix.addresses(("triton-server/srv", "triton-server/common")),
    )


def _ready(ctx: Context, pick: Pick) -> Draft:
    """The server loads its models after the container has started: poll until it is ready."""
    path = "v2/health/ready" if is_within(pick.version, ">=20.06") else "api/health/ready"
    if is_within(pick.version, ">=18.04,<18.08"):
        path = "api/status"  # the endpoints for health came with 18.08
    return draft(
        "triton-ready",
        after=["install:triton"],
        component="triton",
        kind="run",
        title="wait until Triton has loaded its models",
        why="a running container does not prove that the server answers",
        actions=(do.AwaitServer(url=f"http://localhost:{_PORTS[0]}/{path}"),),
        needs_root=False,
        undo_note="it reads only",
        phase="verification",
        sources=ctx.matrix.addresses(("triton-server/srv",)),
    )


def _run(ctx: Context, pick: Pick, engine: str, image: ServerImage) -> Draft:
    whole = ("--device=nvidia.com/gpu=all", "--security-opt=label=disable") if engine == "podman" else ("--gpus=all",)
    gpus: tuple[str, ...] = whole if ctx.host.gpus else ()
    ports = tuple(f"--publish={port}:{port}" for port in _PORTS)
    start = do.StartContainer(
        engine=engine,
        name=NAME,
        reference=image.reference,
        options=(*gpus, *_LIMITS, *ports, f"--volume={STORE}:/models:ro"),
        server=_server(pick.version),
    )
    remove = do.RemoveContainer(engine=engine, name=NAME)
    return draft(
        "install:triton",
        after=["model-store", "image"],
        component="triton",
        kind="run",
        title=f"start Triton {pick.version}",
        why="ports: 8000 HTTP, 8001 gRPC, 8002 metrics; the larger shared memory is for backends in Python, the limits "
        "for pinned memory; the models are mounted read-only",
        actions=(remove, start) if pick.state in {"upgrade", "downgrade"} else (start,),
        undo=(remove,),
        done_when=done.succeeds("sh", "-c", _RUNS, "sh", engine, NAME, f"true {image.reference}"),
        phase="applications",
        sources=ctx.addresses(image),
    )


def _server(release: str) -> tuple[str, ...]:
    """The server program and its option for the model repository, by release."""
    if is_within(release, ">=18.04,<18.05"):
        return (_FIRST_PROGRAM, "--model_base_path=/models")
    if is_within(release, "<18.09"):
        return (_FIRST_PROGRAM, "--model-store=/models")
    if is_within(release, "<20.03.1"):
        return ("trtserver", "--model-store=/models")
    return ("tritonserver", "--model-repository=/models")


PLANNER = Container()
