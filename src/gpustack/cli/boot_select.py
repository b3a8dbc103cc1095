"""``gpustack boot-select``: the driver set for the GPUs of this boot."""

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from gpustack.cli import frame
from gpustack.cli.declare import Argument, Option, command
from gpustack.cli.options import Root, TextOrJson

if TYPE_CHECKING:
    from gpustack.boot.sets import BootSet, Flavour

REBOOT = 5


class Module(str, Enum):
    """The flavours of kernel modules."""

    OPEN = "open"
    PROPRIETARY = "proprietary"


@command(
    "boot-select", example="gpustack boot-select prepare r580 --driver 580.95.05 --module open --packages /srv/r580"
)
def boot_select(
    action: Annotated[str, Argument(metavar="ACTION", help="prepare, status or select.")],
    name: Annotated[str | None, Argument(metavar="[NAME]", help="The set to prepare.")] = None,
    driver: Annotated[str | None, Option("--driver", metavar="VERSION", help="prepare: the driver of the set.")] = None,
    module: Annotated[Module, Option("--module", help="prepare: the flavour of its kernel modules.")] = Module.OPEN,
    packages: Annotated[
        list[Path] | None,
        Option("--packages", metavar="PATH", help="prepare: a package file, or a folder of them. Repeatable."),
    ] = None,
    root: Root = None,
    format: Annotated[TextOrJson, Option("--format", help="status: text or JSON.")] = TextOrJson.TEXT,
    unit: Annotated[bool, Option("--unit", help="Print the systemd unit that selects at boot, and exit.")] = False,
) -> int:
    """Prepare several driver sets in an image, and install the one for this machine's GPUs at boot.

    Exit code 5 if a reboot is required.
    """
    from gpustack.errors import UsageError

    if unit:
        frame.page(_unit())
        return 0
    place = "" if root is None else str(root.absolute())
    if action == "prepare":
        return _prepare(place, (name or "", driver or "", module.value), packages or [])
    if action == "status":
        return _status(place, is_json=format is TextOrJson.JSON)
    if action == "select":
        return _select(place)
    message = f"{action!r} is not an action of boot-select"
    raise UsageError(message, code="unknown-action", where="boot-select", hint="use: prepare, status, select")


def _unit() -> str:
    import shutil
    import sys

    from gpustack.boot.module import unit
    from gpustack.install.lock.timer import FOLDER, quoted

    program = shutil.which("gpustack") or str(Path(sys.argv[0]).absolute())
    return f"# {FOLDER}/gpustack-boot-select.service\n{unit(quoted(program))}"


def _prepare(root: str, wanted: "tuple[str, str, Flavour]", given: list[Path]) -> int:
    from gpustack.boot.packages import manager_of
    from gpustack.boot.sets import devices_of, prepare
    from gpustack.detect.api import detect
    from gpustack.errors import UsageError
    from gpustack.system.run import LocalRunner

    files = [one for path in given for one in (sorted(path.iterdir()) if path.is_dir() else [path])]
    files = [one for one in files if one.suffix in {".deb", ".rpm"}]
    if not wanted[0] or not wanted[1] or not files:
        message = "a set has a name, a driver and packages"
        hint = "gpustack boot-select prepare NAME --driver VERSION --module open --packages DIR"
        raise UsageError(message, code="missing-argument", where="boot-select prepare", hint=hint)
    matrix = frame.matrix()
    host = detect(Path(root) if root else None, matrix)
    manager = manager_of(root, LocalRunner())
    made = prepare(root, manager, wanted, files, devices_of(matrix, host, wanted))
    frame.page(
        f"{made.name}: driver {made.driver}, {made.flavour}: {len(made.packages)} packages, {len(made.gpus)} GPUs"
    )
    return 0


def _select(root: str) -> int:
    from gpustack.boot.fast import told
    from gpustack.boot.module import replaced
    from gpustack.boot.packages import manager_of
    from gpustack.boot.select import choice, select
    from gpustack.boot.sets import load_sets
    from gpustack.system.run import LocalRunner

    if words := told(root):
        frame.page(words)
        return 0
    sets = load_sets(root)
    wanted = choice(root, sets)
    if wanted is None:
        frame.page("nothing to select: no NVIDIA GPU, or the override file says none")
        return 0
    runner = LocalRunner()
    is_changed = select(root, manager_of(root, runner), wanted, sets)
    frame.page(f"{wanted.name} is {'now installed' if is_changed else 'active: nothing to do'}")
    if not root and not replaced(runner, wanted.driver):
        frame.say("a kernel module of another driver is in use: reboot")
        return REBOOT
    return 0


def _status(root: str, *, is_json: bool) -> int:
    from gpustack.boot.fast import devices
    from gpustack.boot.packages import manager_of
    from gpustack.boot.select import active, choice
    from gpustack.boot.sets import load_sets
    from gpustack.errors import GpustackError
    from gpustack.system.run import LocalRunner

    sets = load_sets(root)
    now = active(sets, manager_of(root, LocalRunner())) if sets else ""
    try:
        wanted = choice(root, sets)
        name, reason = (wanted.name, "") if wanted else ("", "")
    except GpustackError as fault:
        name, reason = "", fault.message
    if is_json:
        rows = [_row(one) for one in sets.values()]
        told = {"active": now, "selected": name, "reason": reason, "gpus": devices(root), "sets": rows}
        frame.document(frame.to_json(told))
        return 0
    lines = [f"{one.name}: driver {one.driver}, {one.flavour}, {len(one.gpus)} GPUs" for one in sets.values()]
    lines += [f"GPUs here: {', '.join(devices(root)) or 'none'}", f"active: {now or 'none'}"]
    frame.page("\n".join([*lines, f"selected: {name or reason or 'none'}"]))
    return 0


def _row(one: "BootSet") -> dict[str, object]:
    return {"name": one.name, "driver": one.driver, "module": one.flavour, "packages": one.by_name}
