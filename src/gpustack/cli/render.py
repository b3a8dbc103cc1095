"""``gpustack render``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from gpustack.cli import frame
from gpustack.cli.declare import Argument, Option, command
from gpustack.cli.outputs import folder
from gpustack.cli.package_index import IndexOption, index_of
from gpustack.cli.plan import show

if TYPE_CHECKING:
    from gpustack.model.plan import Plan
    from gpustack.render.settings import Settings

_STAGES = 2
"""As many plans as a Dockerfile has stages."""


_Out = Annotated[
    Path | None,
    Option(
        "--out",
        metavar="DIR",
        help="With --format ansible: write playbook, inventory and one role a distinct plan into DIR; each plan's "
        "file is named after its host. With --format modules: module files and a script that installs.",
    ),
]
_BaseImage = Annotated[
    str | None,
    Option(
        "--base-image",
        metavar="NAME[@DIGEST]",
        help="dockerfile, apptainer, bootc: the image to start from; another system than the plan's is refused in it.",
    ),
]
_Prefix = Annotated[
    str | None, Option("--prefix", metavar="DIR", help="modules: the folder to install into, without root.")
]


@command("render", example="gpustack render plan.json --format table")
def render(
    plans: Annotated[
        list[Path],
        Argument(
            metavar="PLAN.json...",
            help="A plan saved by `gpustack plan --out`, - for standard input; several with --out.",
        ),
    ],
    format: Annotated[str, Option("--format", metavar="FORMAT", help="table, json, shell, ...")] = "table",
    out: _Out = None,
    base_image: _BaseImage = None,
    prefix: _Prefix = None,
    short: Annotated[bool, Option("--short", help="cloud-init: only call gpustack, for images that carry it.")] = False,
    no_verify: Annotated[
        bool, Option("--no-verify", help="Leave the verification out: for images built on a host without a GPU.")
    ] = False,
    index: IndexOption = None,
) -> int:
    """Write a saved plan in another form."""
    from gpustack.plan.document import load
    from gpustack.render.api import demand_format, remarks, render_short, render_stages, without_verification
    from gpustack.render.settings import Settings

    demand_format(format)
    named = index_of(format, index)
    settings = Settings(image=base_image or "", prefix=prefix or "")
    if out is not None:
        _write_tree(plans, format, folder(out, "--out"), settings, verified=not no_verify)
        return 0
    if len(plans) == _STAGES:
        first, second = (load(path) for path in plans)
        frame.document(render_stages(first, second, format, settings))
        return 0
    if len(plans) > 1:
        from gpustack.errors import UsageError

        msg = f"{len(plans)} plans are given, but this format writes one document"
        raise UsageError(msg, code="conflicting-options", hint="several go into a folder: --format ansible --out DIR")
    loaded = load(plans[0])
    if no_verify and format != "json":
        loaded = without_verification(loaded)
    if short:
        frame.document(render_short(loaded, format))
        return 0
    show(loaded, format, named, settings)
    for text in remarks(loaded, format):
        frame.warn(text)
    return 0


def _write_tree(paths: list[Path], format: str, into: Path, settings: "Settings", *, verified: bool) -> None:
    """Write the files that several plans make together. Raises UsageError if that fails."""
    from gpustack.errors import UsageError
    from gpustack.plan.document import load
    from gpustack.render.api import render_tree, without_verification

    plans: dict[str, Plan] = {}
    for path in paths:
        if path.stem in plans:
            msg = f"two plans are called {path.stem!r}"
            raise UsageError(
                msg, code="conflicting-names", where=str(path), hint="name each plan's file after its host: web1.json"
            )
        plan = load(path)
        plans[path.stem] = plan if verified else without_verification(plan)
    files = render_tree(plans, format, settings)
    _demand_ours(into, list(files))
    _write(into, _without_own_lines(into, files))


def _without_own_lines(into: Path, files: dict[str, str]) -> dict[str, str]:
    """The files to write: an inventory with the user's own lines stays. Raises UsageError if its hosts have changed."""
    from gpustack.errors import UsageError
    from gpustack.render.ansible_roles import INVENTORY, has_own_lines, is_same_inventory

    path = into / INVENTORY
    if INVENTORY not in files or not path.is_file():
        return files
    there = path.read_text(encoding="utf-8", errors="replace")
    if is_same_inventory(there, files[INVENTORY]):
        return {name: text for name, text in files.items() if name != INVENTORY}
    if has_own_lines(there):
        msg = "has lines of your own, and its hosts or groups have changed"
        hint = (
            "move your lines into an inventory of your own (ansible-playbook -i takes several), then remove this file"
        )
        raise UsageError(msg, code="unreadable-folder", where=str(path), hint=hint)
    return files


def _demand_ours(into: Path, names: list[str]) -> None:
    """Raise UsageError before replacing a file that this program did not write."""
    from gpustack.errors import UsageError
    from gpustack.render.api import is_ours

    for path in (into / name for name in names):
        try:
            with path.open(encoding="utf-8", errors="replace") as file:
                start = file.read(1000)
        except FileNotFoundError:
            continue
        except OSError as exc:
            msg = f"cannot be read: {exc.strerror or exc}"
            raise UsageError(msg, code="unreadable-folder", where=str(path), hint="choose another --out") from exc
        if not is_ours(start):
            msg = "already exists and was not written by gpustack"
            raise UsageError(
                msg, code="unreadable-folder", where=str(path), hint="choose another --out, or move the existing file"
            )


def _write(into: Path, files: dict[str, str]) -> None:
    from gpustack.errors import GpustackError
    from gpustack.system.files import write_atomically

    for name, text in files.items():
        path = into / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, text)
        except OSError as exc:
            msg = f"cannot be written: {exc.strerror or exc}"
            raise GpustackError(msg, code="not-writable", where=str(path), hint="choose another --out") from exc
