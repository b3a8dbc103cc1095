"""``gpustack triton``."""

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from gpustack.cli import frame
from gpustack.cli.declare import Argument, Option, command
from gpustack.cli.options import TextOrJson

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix.index import Matrix
    from gpustack.triton.rules import Judgement
    from gpustack.triton.store import NewModel


@command("triton", example="gpustack triton model-store /srv/models --release 25.03 --digits")
def triton(
    action: Annotated[str, Argument(metavar="model-store", help="The action: model-store.")],
    directory: Annotated[Path, Argument(metavar="DIR", help="The model repository.")],
    release: Annotated[
        str | None, Option("--release", metavar="YY.MM", help="The server's release (default: the newest known).")
    ] = None,
    digits: Annotated[bool, Option("--digits", help="Create the model of gpustack's digits network.")] = (False),
    engine: Annotated[
        list[str] | None,
        Option(
            "--engine", metavar="[CC=]FILE", help="A TensorRT engine for it; CC is its compute capability. Repeatable."
        ),
    ] = None,
    built: Annotated[
        Path | None,
        Option("--from", metavar="DIR", help="Use the files of `gpustack verify tensorrt --artifacts DIR`."),
    ] = None,
    version: Annotated[int, Option("--version", metavar="N", min=1, help="The version to create.")] = 1,
    keep: Annotated[
        int, Option("--keep", metavar="N", min=0, help="How many of the newest versions to serve (0: all).")
    ] = 1,
    copies: Annotated[int, Option("--instances", metavar="N", min=1, help="Instances of the model.")] = 1,
    on_cpu: Annotated[bool, Option("--cpu", help="Run the instances on the CPU.")] = False,
    compute: Annotated[
        list[str] | None,
        Option("--compute-capability", metavar="CC", help="Check for GPUs of this compute capability. Repeatable."),
    ] = None,
    format: Annotated[TextOrJson, Option("--format", help="Text or JSON.")] = TextOrJson.TEXT,
) -> int:
    """Create a model repository, or check one by the rules of a Triton release. Exit code 1 if it breaks any."""
    from gpustack.errors import UsageError
    from gpustack.triton.releases import newest, refuse_unsupported, release_row, when_seen
    from gpustack.triton.rules import judge
    from gpustack.triton.store import create_version

    if action != "model-store":
        message = f"{action!r} is not an action of triton"
        raise UsageError(message, code="unknown-action", where="triton", hint="use: model-store")
    matrix = frame.matrix()
    row = release_row(matrix, release) if release else newest(matrix)
    month = row.version
    if digits or engine or built:
        with _files(matrix, month, tuple(engine or ()), built) as (platform, files):
            refuse_unsupported(matrix, platform, row)
            directory.mkdir(parents=True, exist_ok=True)
            create_version(directory, _model(platform, files, (version, keep, copies), on_cpu=on_cpu), month)
        frame.say(f"Triton {month}: {when_seen(month)}")
    found = judge(matrix, directory, month, tuple(compute or ()))
    frame.page(frame.to_json(found) if format is TextOrJson.JSON else _as_text(found, month))
    return 0 if found.is_good else 1


@contextmanager
def _files(
    matrix: "Matrix", month: str, engines: tuple[str, ...], built: Path | None
) -> "Iterator[tuple[str, dict[str, Path]]]":
    """The platform and the files of the digits network; a generated ONNX file exists for the length of the block."""
    import tempfile

    from gpustack.errors import UsageError
    from gpustack.triton.artifacts import choose_files
    from gpustack.triton.releases import release_row
    from gpustack.verify.tensorrt.onnx import digits_model, load_digits

    if engines and built:
        message = "--engine and --from exclude each other"
        raise UsageError(message, code="conflicting-options", where="--from", hint="use one of them")
    if built:
        chosen = choose_files(built, month, release_row(matrix, month).tensorrt)
        for line in chosen.skipped:
            frame.warn(f"skipped: {line}")
        yield chosen.platform, chosen.files
    elif engines:
        parts = [text.rpartition("=") for text in engines]
        yield "tensorrt_plan", {capability: Path(name) for capability, _, name in parts}
    else:
        with tempfile.TemporaryDirectory(prefix="gpustack-model-") as folder:
            onnx = Path(folder) / "digits.onnx"
            onnx.write_bytes(digits_model(load_digits().weights))
            yield "onnxruntime_onnx", {"": onnx}


def _model(platform: str, files: dict[str, Path], numbers: tuple[int, int, int], *, on_cpu: bool) -> "NewModel":
    """The digits network as a model to lay out; ``numbers`` are its version, how many are served, and instances."""
    from gpustack.triton.store import NewModel
    from gpustack.verify.tensorrt.onnx import INPUT, OUTPUT
    from gpustack.verify.triton.endpoint import DIGITS

    version, keep, copies = numbers
    return NewModel(
        name=DIGITS,
        platform=platform,
        files=files,
        # The network processes one image per run, so the batch is part of its dims and max_batch_size is 0.
        inputs=((INPUT, "TYPE_FP32", (1, 1, 28, 28)),),
        outputs=((OUTPUT, "TYPE_FP32", (1, 10)),),
        labels=tuple(str(digit) for digit in range(10)),
        number=version,
        keep=keep,
        copies=copies,
        on_cpu=on_cpu,
    )


def _as_text(found: "Judgement", month: str) -> str:
    lines = [
        f"{name}: {', '.join(f'version {one}' for one in versions) or 'no version'}"
        for name, versions in found.models.items()
    ]
    for one in found.findings:
        lines.append(f"{one.severity}: {one.place}: {one.message}")
        lines += [f"  fix: {one.fix}"] if one.fix else []
    faults = sum(one.severity == "error" for one in found.findings)
    lines.append(f"{faults} fault{'' if faults == 1 else 's'} for Triton {month}")
    return "\n".join(lines)
