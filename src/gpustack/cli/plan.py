"""``gpustack plan``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpustack.cli import frame
from gpustack.cli.asking import Asked, asked, host_and_request
from gpustack.cli.options import (
    Arch,
    Driver,
    Gpu,
    HostFile,
    MethodOption,
    ModuleOption,
    Os,
    PolicyOption,
    RequestFile,
    Root,
)

if TYPE_CHECKING:
    from gpustack.model.plan import Plan

CHANGES_PENDING = 6


def make_plan(question: Asked) -> "Plan":
    """The plan for what is asked. Raises NoSolutionError (3), UnsupportedError (4), UsageError (2)."""
    from gpustack.plan.build import build
    from gpustack.solve.resolve import resolve

    matrix = frame.matrix(question.matrices)
    host, request = host_and_request(matrix, question)
    return build(host, request, resolve(matrix, host, request), matrix)


def register(application: typer.Typer) -> None:
    """Add the command to the application."""

    @frame.command(application, "plan", example='gpustack plan cuda "cudnn==9.*" --os ubuntu24.04 --gpu L4')
    def plan(
        requirements: Annotated[
            list[str] | None, typer.Argument(metavar="REQUIREMENT...", help="cuda>=12.4,<13 cudnn==9.* ffmpeg ...")
        ] = None,
        root: Root = None,
        host: HostFile = None,
        os: Os = None,
        arch: Arch = None,
        gpu: Gpu = None,
        driver: Driver = None,
        file: RequestFile = None,
        method: MethodOption = None,
        policy: PolicyOption = None,
        kernel_module: ModuleOption = None,
        target: Annotated[
            str | None, typer.Option("--target", metavar="NAME", help="Cross-compile for sbsa, drive-os or qnx.")
        ] = None,
        format: Annotated[
            str | None, typer.Option("--format", metavar="FORMAT", help="table (if none is given), json, shell, ...")
        ] = None,
        out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Save the plan as JSON.")] = None,
        detailed_exitcode: Annotated[
            bool | None, typer.Option("--detailed-exitcode", help="Exit 6 when changes are pending.")
        ] = None,
    ) -> int:
        """Plan the steps that take a host to a stack. Changes nothing, needs no root, touches no network.

        With no requirement: driver, CUDA and cuDNN for this machine.
        """
        from gpustack.render.api import demand_format, remarks, render

        question = asked(
            requirements=requirements,
            root=root,
            host=host,
            os=os,
            arch=arch,
            gpus=gpu,
            driver=driver,
            file=file,
            methods=method,
            policy=policy,
            kernel_module=kernel_module,
            target=target,
            format=format,
            out=out,
            is_exit_detailed=detailed_exitcode,
        )
        form = question.format or "table"
        demand_format(form)
        made = make_plan(question)
        if question.out is not None:
            save(made, question.out)
        frame.document(render(made, form))
        if form != "table":  # which shows them itself
            for text in (*made.warnings, *remarks(made, form)):
                frame.warn(text)
        return CHANGES_PENDING if question.is_exit_detailed and made.steps else 0


def save(plan: "Plan", path: Path) -> None:
    """Write the plan as JSON, whole or not at all. Raises GpustackError when the place cannot be written."""
    from gpustack.errors import GpustackError
    from gpustack.plan.document import dump
    from gpustack.system.files import write_atomically

    try:
        write_atomically(path, dump(plan))
    except OSError as exc:
        msg = f"cannot be written: {exc.strerror or exc}"
        raise GpustackError(msg, where=str(path), hint="choose another --out") from exc
