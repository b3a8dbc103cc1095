"""``gpustack explain``."""

from typing import TYPE_CHECKING, Annotated

import typer

from gpustack.cli import frame
from gpustack.cli.asking import asked, host_and_request
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
    TextOrJson,
)

if TYPE_CHECKING:
    from gpustack.model.resolution import Resolution


def register(application: typer.Typer) -> None:
    """Add the command to the application."""

    @frame.command(application, "explain", example="gpustack explain cuda cudnn --os ubuntu24.04 --gpu L4")
    def explain(
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
        format: TextOrJson = TextOrJson.TEXT,
    ) -> int:
        """Every choice with its reasons, what refused the newer version, and the sources."""
        from gpustack.solve.resolve import resolve

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
        )
        matrix = frame.matrix(question.matrices)
        found, request = host_and_request(matrix, question)
        resolution = resolve(matrix, found, request)
        frame.document(frame.to_json(resolution) if format is TextOrJson.JSON else _text(resolution))
        return 0


def _text(resolution: "Resolution") -> str:
    lines = []
    for pick in resolution.picks:
        flavour = f", {pick.flavour} kernel modules" if pick.flavour else ""
        lines.append(f"{pick.component} {pick.version} ({pick.method}, {pick.state}{flavour})")
        for reason in pick.reasons:
            lines.append(f"  - {reason.text}")
            lines += [f"    [{source}]" for source in reason.sources]
    lines += [f"warning: {text}" for text in resolution.warnings]
    return "\n".join(lines)
