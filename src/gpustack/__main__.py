"""The entry point. Answers ``--version`` at once; everything else goes through ``cli.main``."""

from __future__ import annotations

import codecs
import gc
import io
import os
import sys
from contextlib import suppress
from importlib import import_module
from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def program() -> NoReturn:
    """Run the command line as the whole process, then exit without freeing every object.

    Freeing the objects of a process that ends anyway costs as much as detecting a host.
    """
    code: object = 0
    try:
        if sys.argv[1:2] and sys.argv[1] in _STARTS_OTHERS:
            # Before anything slow: signals that end the program are handled from here on.
            from gpustack.system.signals import end_in_order  # noqa: PLC0415

            end_in_order()
        _keep_streams()
        run()
    except SystemExit as end:
        code = end.code or 0
    except KeyboardInterrupt as stop:
        code = 128 + getattr(stop, "number", 2)
        _say(str(stop) or "interrupted")
    flushed = _flushed()
    code = code or flushed
    commands = sys.modules.get("gpustack.system.run")
    if commands is not None:
        commands.stop_for_good()
    os._exit(code if isinstance(code, int) else 1)


_STARTS_OTHERS = frozenset({"install", "fetch", "verify", "bench", "boot-select", "fleet"})
"""Commands that start programs, which must not be left running."""


def _keep_streams() -> None:
    """Keep files that we open from taking the descriptor of a closed standard stream."""
    while (free := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(free)


def _flushed(text: str = "") -> int:
    """Write what standard output still buffers, and ``text``; return the exit code."""
    if sys.stdout is None:
        return 0
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        return 0  # the reader has seen enough
    except (OSError, ValueError) as exc:  # ValueError: closed
        sys.stdout = None  # what it still holds is discarded
        _say(f"error[not-writable]: standard output cannot be written: {getattr(exc, 'strerror', None) or exc}")
        return 1
    return 0


def _say(text: str) -> None:
    if sys.stderr is not None:
        with suppress(OSError, ValueError):
            sys.stderr.write(f"{text}\n")


def run() -> None:
    """Run the command line and exit with its code."""
    if sys.argv[1:] == ["--version"]:
        from gpustack import __version__  # noqa: PLC0415 (nothing else is worth importing for this)

        sys.exit(_flushed(f"gpustack {__version__}\n"))
    if sys.argv[1:] == ["boot-select", "select"]:
        from gpustack.boot.fast import told  # noqa: PLC0415 (at nearly every boot this is all)

        if words := told():
            sys.exit(_flushed(f"{words}\n"))
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


class _Late(ModuleType):
    """Stands for a module until something of it is asked for, which is the time to import it."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):  # what the import system asks of every module
            raise AttributeError(name)
        found: object = getattr(import_module(self.__name__), name)
        vars(self)[name] = found
        return found

    def function(self, name: str) -> None:
        """Stand for a function that others import by its name."""

        def real(*args: object, **named: object) -> object:
            return getattr(import_module(self.__name__), name)(*args, **named)

        vars(self)[name] = real


def _import_msgspec() -> None:
    """Import msgspec and pathlib without what they import for a few of their functions, which is half of their cost.

    docs/start-up.md has the figures.
    """
    stand_ins = {name: _Late(name) for name in ("platform", "msgspec.inspect", "msgspec._json_schema", "urllib.parse")}
    vars(stand_ins["platform"])["system"] = lambda: os.uname().sysname  # all that uuid asks of it
    stand_ins["urllib.parse"].function("quote_from_bytes")
    stand_ins["msgspec._json_schema"].function("schema")
    stand_ins["msgspec._json_schema"].function("schema_components")
    # None is how Python spells "not available": the first is optional to msgspec, ntpath looks six times for nt.
    absent = dict.fromkeys(("typing_extensions", "nt"))
    stood = {name: one for name, one in {**stand_ins, **absent}.items() if name not in sys.modules}
    sys.modules.update(stood)  # type: ignore[arg-type]
    import_module("msgspec")
    import_module("pathlib")
    for name in stood:
        del sys.modules[name]


if __name__ == "__main__":
    program()
