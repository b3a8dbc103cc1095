"""A program inside a wheel: FFmpeg, in an environment of its own, linked where programs are found."""

from __future__ import annotations

from gpustack.model import actions as do
from gpustack.model.resolution import Pick
from gpustack.model.steps import FileWrite
from gpustack.plan import done
from gpustack.plan.draft import Draft, draft

PROGRAMS = {"ffmpeg": "imageio_ffmpeg/binaries/ffmpeg-*"}
"""Components whose wheels hold a program, and where in the environment's packages it lies."""

_LINK = '''"""Written by gpustack: a fixed name for the program of a wheel, whose path has versions in it."""
import pathlib
import sys
import sysconfig

pattern, link = sys.argv[1], pathlib.Path(sys.argv[2])
found = sorted(pathlib.Path(sysconfig.get_path("purelib")).glob(pattern))
if len(found) != 1:
    sys.exit(f"{pattern}: {len(found)} programs in this environment, not one")
if link.is_symlink():
    link.unlink()
link.symlink_to(found[0])
'''


def link(home: str, pick: Pick, *, after: str) -> Draft:
    """The step that makes the program reachable as NAME, below the environment and in /usr/local/bin."""
    name = pick.component
    script, own, shown = f"{home}/gpustack-program.py", f"{home}/bin/{name}", f"/usr/local/bin/{name}"
    return draft(
        f"program:{name}",
        after=(after,),
        component=name,
        kind="make-link",
        title=f"link the {name} of the wheel into /usr/local/bin",
        why=f"the wheel has it under a path with versions in it; it has no ffprobe. {home} keeps it apart from others",
        actions=(
            do.Run(argv=(f"{home}/bin/python3", script, PROGRAMS[name], own), touches=(own,)),
            do.Link(path=shown, target=own),
            do.Look(argv=(own, "-hide_banner", "-version")),
        ),
        files=(FileWrite(path=script, content=_LINK),),
        undo=(do.Remove(paths=(shown, own, script)),),
        done_when=done.every(done.link(shown, own), done.succeeds(own, "-hide_banner", "-version")),
        phase="applications",
    )
