"""The main job on a fresh machine: a plan for it, and the quick checks.

python3 ci/start.py [REQUIREMENT...] [options of `gpustack plan`]
"""

from __future__ import annotations

import subprocess
import sys

from bootstrap import environment


def main() -> int:
    gpustack = [str(environment()), "-m", "gpustack"]
    planned = subprocess.run([*gpustack, "plan", *sys.argv[1:]], check=False).returncode
    if planned != 0:
        return planned
    print()
    return subprocess.run([*gpustack, "verify", "--level", "quick"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
