"""Says what gpustack finds of cuDNN on this machine and what its network says, as one JSON line. Run by test_cudnn_layouts.

A GPU is claimed, so that the network is built; without a driver it runs up to the first call that needs one.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import msgspec

from gpustack.detect.api import detect
from gpustack.matrix.index import load_matrix
from gpustack.model.host import Gpu
from gpustack.system.run import LocalRunner
from gpustack.verify.api import verify
from gpustack.verify.cuda.toolchain import find_homes
from gpustack.verify.cudnn.digits import run_digits
from gpustack.verify.declare import Context

H100 = Gpu(name="H100", pci_id="10de:2330", bus_id="0000:01:00.0", compute_capability="9.0")


def main() -> None:
    matrix = load_matrix()
    host = msgspec.structs.replace(detect(None, matrix), gpus=(H100,))
    quick = {one.id: one for one in verify(("cudnn",), "quick", host, matrix, LocalRunner()).checks}
    context = Context(host=host, matrix=matrix, runner=LocalRunner(), work=Path(sys.argv[1]))
    found = find_homes(context, "cudnn.h", "libcudnn", "cudnn")
    outcome = run_digits(context, found[0], 0) if found else None
    installed = host.installed.get("cudnn")
    told = {
        "installed": [installed.version, installed.method] if installed else None,
        "checks": {name: [one.status, one.reason or one.detail] for name, one in quick.items()},
        "homes": [[str(home.include), str(home.library)] for home in found],
        "network": [outcome.status, outcome.reason or outcome.detail, *outcome.evidence.values()] if outcome else None,
    }
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
