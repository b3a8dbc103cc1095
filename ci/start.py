"""The main job on a fresh machine: a plan for it, and the quick checks.

python3 ci/start.py [REQUIREMENT...] [options of `gpustack plan`]
"""

from __future__ import annotations

import subprocess
import sys

from bootstrap import environment, say

ELSEWHERE = ("--os", "--host", "--root")
"""Options of plans for another host than this: the checks of this one would say nothing about it."""


def main() -> int:
    gpustack = [str(environment()), "-m", "gpustack"]
    done = subprocess.run([*gpustack, "plan", *sys.argv[1:]], check=False).returncode
    if done == 0 and not any(word.partition("=")[0] in ELSEWHERE for word in sys.argv[1:]):
        print(flush=True)
        done = subprocess.run([*gpustack, "verify", "--level", "quick"], check=False).returncode
    say("what next: docs/tutorial.md, or `.venv/bin/gpustack --help`")
    return done


if __name__ == "__main__":
    sys.exit(main())
