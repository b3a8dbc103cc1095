"""apt's preference for the vendor's packages over packages of the same name in the archive."""

from msgspec import Struct

from gpustack.model import actions as do
from gpustack.model.steps import FileWrite
from gpustack.plan.context import Context
from gpustack.plan.draft import Draft, draft

_PATH = "/etc/apt/preferences.d/cuda-repository-pin-600"


class PinRule(Struct, frozen=True, kw_only=True):
    """One rule of the vendor's apt preferences."""

    packages: tuple[str, ...]
    pin: str
    priority: int
    effect: str = ""
    src: tuple[str, ...] = ()


def apt_pin(ctx: Context) -> Draft:
    """The step that writes the preferences."""
    rules = _rules(ctx)
    return draft(
        "apt-pin",
        component="",
        kind="write-file",
        title="prefer NVIDIA's packages over those of the archive with the same name",
        why="the archive carries packages of the same names in other versions; mixed sets do not work",
        files=(_file_of(rules),),
        undo=(do.Remove(paths=(_PATH,)),),
        phase="repositories",
        sources=ctx.addresses(*rules),
    )


def _rules(ctx: Context) -> list[PinRule]:
    return [row for row in ctx.matrix.everywhere("pin_rules", PinRule) if "older" not in row.effect]


def _file_of(rules: list[PinRule]) -> FileWrite:
    blocks = [
        f"# {row.effect}\nPackage: {' '.join(row.packages)}\nPin: {row.pin}\nPin-Priority: {row.priority}\n"
        for row in rules
    ]
    return FileWrite(path=_PATH, content="\n".join(blocks))


def preferences(ctx: Context) -> FileWrite:
    """The preferences file of cuda-keyring."""
    return _file_of(_rules(ctx))
