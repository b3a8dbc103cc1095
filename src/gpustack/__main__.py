"""The entry point. Answers ``--version`` at once; everything else goes through ``cli.main``."""

from __future__ import annotations

import codecs
import gc
import io
import os
import sys
from typing import NoReturn


def program() -> NoReturn:
    """Be the whole process: run the command line, then end without taking everything down piece by piece.

    To free each object of a process that ends anyway costs as much as to detect a host.
    """
    code: object = 0
    try:
        run()
    except SystemExit as end:
        code = end.code or 0
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except (OSError, ValueError):
        sys.exit(code if isinstance(code, int) else 1)
    commands = sys.modules.get("gpustack.system.run")
    if commands is not None:
        commands.stop_for_good()
    os._exit(code if isinstance(code, int) else 1)


def run() -> None:
    """Run the command line and exit with its code."""
    if sys.argv[1:] == ["--version"]:
        from gpustack import __version__  # noqa: PLC0415 (nothing else is worth importing for this)

        sys.stdout.write(f"gpustack {__version__}\n")
        return
    # A command lives for milliseconds and drops nothing worth collecting; the collector costs a tenth of its time.
    gc.disable()
    _import_msgspec()
    from gpustack.cli import main  # noqa: PLC0415 (more than --version may cost)

    # Documents are the same bytes in every locale.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")
    if isinstance(sys.stderr, io.TextIOWrapper) and codecs.lookup(sys.stderr.encoding).name == "ascii":
        sys.stderr.reconfigure(encoding="utf-8", errors="replace")
    sys.exit(main(sys.argv[1:]))


def _import_msgspec() -> None:
    """Import msgspec without typing_extensions, which it looks for and can do without.

    That costs as much as a bare interpreter, and no type here is declared with it.
    """
    if "typing_extensions" not in sys.modules:
        sys.modules["typing_extensions"] = None  # type: ignore[assignment]  # how Python spells "not to be had"
        import msgspec  # noqa: F401, PLC0415

        del sys.modules["typing_extensions"]


if __name__ == "__main__":
    program()
