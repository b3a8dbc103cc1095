"""Every GPU with every released driver for Linux: compatible, unknown or incompatible, and by which evidence.

    .venv/bin/python ci/device_pairs.py

prints the table; tests/test_device_pairs.py holds it to what it has to be.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator

from gpustack.detect.products import gpu_of
from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.host import Host, OperatingSystem
from gpustack.model.places import GpuProduct
from gpustack.model.request import Request, Requirement
from gpustack.solve.flavour import flavours
from gpustack.solve.listed import evidence
from gpustack.solve.question import Candidate, Question
from gpustack.solve.refusals import Refusals
from gpustack.solve.rows import HostRows
from gpustack.solve.unjudged import unknown_rules

MEANING = {
    "window": "incompatible: no branch of it drives the architecture, or no flavour of its modules the GPU",
    "no-capability": "unknown: which branches drive the GPU depends on a compute capability that nobody names",
    "open-list": "compatible: the table of the open kernel modules names the GPU",
    "own-list": "compatible: the driver's own list names the GPU",
    "changelog": "compatible: a changelog, a guide or a list under another id of the product names the GPU",
    "unlisted": "unknown: NVIDIA lists the GPU from a later release on",
    "open-list-only": "compatible, with a remark: only the open modules' table of a later release names the GPU",
    "no-list": "compatible: by the window of its architecture alone; no list that was read names the GPU",
}
"""What each kind of evidence means for the answer."""


def question_of(matrix: Matrix, product: GpuProduct, rows: HostRows | None = None) -> Question:
    """A host with this GPU in it, asked for a driver. ``rows`` are those of its system, found for another GPU."""
    host = Host(
        os=OperatingSystem(id="ubuntu", version_id="24.04", family="debian", system="ubuntu24.04"),
        arch="x86_64",
        environment="bare-metal",
        gpus=(gpu_of(product),),
        described=True,
    )
    request = Request(requirements=(Requirement(component="driver"),))
    return Question(matrix, host, request, mode="check", rows=rows)


def judged(matrix: Matrix) -> Iterator[tuple[GpuProduct, str, str]]:
    """Every product with every released driver for Linux, and the kind of evidence that it is judged by."""
    releases = [row for row in matrix.releases("driver") if "linux" in row.os and row.status == "released"]
    candidates = [Candidate(component="driver", version=row.version, release=row) for row in releases]
    rows = None
    for product in matrix.products:
        question = question_of(matrix, product, rows)
        rows = question.offers.rows
        refusals = Refusals(question)
        for candidate in candidates:
            if refusals.first_by_host(candidate) is not None or not flavours(question, candidate.version):
                yield product, candidate.version, "window"
            elif next(unknown_rules(question, candidate, {}), None) is not None:
                yield product, candidate.version, "no-capability"
            else:
                yield product, candidate.version, evidence(question, question.host.gpus[0], candidate).kind


def main() -> int:
    """Print how many pairs each architecture has of each kind of evidence."""
    counted = Counter((product.architecture, kind) for product, _, kind in judged(load_matrix()))
    names = sorted({architecture for architecture, _ in counted})
    print(f"{'':16}" + "".join(f"{name:>11}" for name in [*names, "all"]))
    for kind in MEANING:
        row = [counted[name, kind] for name in names]
        print(f"{kind:16}" + "".join(f"{number:>11,}" for number in [*row, sum(row)]))
    print("\n" + "\n".join(f"{kind}: {meaning}" for kind, meaning in MEANING.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
