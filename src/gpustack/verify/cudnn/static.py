"""The network linked statically with cuDNN: the whole archives, as cuDNN's guide requires."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from gpustack.verify.cuda.build import Built, build
from gpustack.verify.cuda.toolchain import Home, select_toolkit
from gpustack.verify.cudnn.quick import INSTALL
from gpustack.verify.cudnn.vendor import major_of
from gpustack.verify.declare import Context, Outcome, needless, skipped


class Parts(Struct, frozen=True, kw_only=True):
    """What cuDNN of one major version is linked with: its own archives, the toolkit's, the system's libraries."""

    major: int
    archives: tuple[str, ...]
    toolkit: tuple[str, ...]
    system: tuple[str, ...]


def build_static(context: Context, home: Home) -> Built | Outcome:
    """The network built with the static libraries in the folder of ``home``, or why it is not."""
    kit, major = select_toolkit(context), major_of(home)
    rows = context.matrix.rows("cudnn", "static_link", Parts)
    parts = next((row for row in rows if row.major == major), None)
    own = _archives(home.library.parent, parts.archives, major) if parts else []
    if not own:
        return needless("cuDNN's static libraries are not installed; only statically linked programs require them")
    if kit is None or parts is None:
        return skipped("no nvcc was found to build a program", INSTALL)
    folder = kit.root / ("lib64" if (kit.root / "lib64").exists() else "lib")
    others = [str(path) for name in parts.toolkit if (path := folder / f"lib{name}.a").is_file()]
    words = ["--start-group", "--whole-archive", *own, "--no-whole-archive", *others, "--end-group"]
    linked = [word for text in words for word in ("-Xlinker", text)]
    system = [f"-l{name}" for name in parts.system]
    includes = [] if str(home.include) == "/usr/include" else [f"-I{home.include}"]
    return build(context, "digits.cpp", options=("-Wno-deprecated-declarations", *includes, *linked, *system))


def _archives(folder: Path, names: tuple[str, ...], major: int | None) -> list[str]:
    """The files of those archives that exist, each once: a name without the major version may be a link."""
    found: dict[Path, str] = {}
    for name in names:
        for file in (folder / f"lib{name}_v{major}.a", folder / f"lib{name}.a"):
            if file.is_file():
                found.setdefault(file.resolve(), str(file))
                break
    return list(found.values())
