"""gpustack, ended by SIGKILL at the point that the environment variable DIE_AT names.

before|torn|after EVENT STEP   around the writing of a record of the journal; torn writes half of it; STEP * is any
call NAME PLACE                ahead of a call of the operating system on a file: os.rename, open, ...
"""

from __future__ import annotations

import json
import os
import signal
import sys

from gpustack.__main__ import run


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def at_record(moment: str, event: str, step: str) -> None:
    write = os.write

    def watched(handle: int, data: bytes) -> int:
        if not bytes(data).startswith(b'{"number":'):
            return write(handle, data)
        record = json.loads(data)
        if record["event"] != event or (step != "*" and not record.get("step", "").startswith(f"{step}-")):
            return write(handle, data)
        if moment != "before":
            write(handle, data[: len(data) // 2] if moment == "torn" else data)
        die()
        return 0

    os.write = watched


def at_call(name: str, place: str) -> None:
    def hook(called: str, arguments: tuple[object, ...]) -> None:
        if called == name and any(str(one) == place for one in arguments):
            die()

    sys.addaudithook(hook)


def main() -> None:
    moment, *words = os.environ["DIE_AT"].split(" ")
    if moment == "call":
        at_call(*words)
    else:
        at_record(moment, *words)
    run()


if __name__ == "__main__":
    main()
