"""A matrix small enough to reason about by hand, for tests whose answers must not move with the vendor's releases."""

from __future__ import annotations

import tempfile
from pathlib import Path

from gpustack.matrix.compile import compile_folder
from gpustack.matrix.index import Matrix
from gpustack.matrix.store import Store
from gpustack.model.host import Gpu, Host, Installed, OperatingSystem

HEAD = """\
schema: gpustack/matrix/v1
subject: {subject}
about: small
sources:
  page: {{address: "https://example.com/{subject}", known: stated, read: 2026-11-21}}
tables:
"""

RULE_FIELDS = (
    "{id: word, of: text, needs: word, any: list of range, none: list of range, equal: list of word,"
    " when: map, strength: word, says: text}"
)


def releases(*versions: str, extra: str = "") -> str:
    rows = "".join(f"      - {{version: {text}{extra}, src: [page]}}\n" for text in versions)
    fields = "{version: version, branch: word, kind: word, status: word, os: list of word}"
    return f"  releases:\n    about: r\n    key: [version]\n    fields: {fields}\n    rows:\n{rows}"


def rules(*rows: str) -> str:
    lines = "".join(f"      - {{{row}, src: [page]}}\n" for row in rows)
    return f"  rules:\n    about: r\n    key: [id]\n    fields: {RULE_FIELDS}\n    rows:\n{lines}"


def availability(*rows: str) -> str:
    fields = "{component: word, method: word, repo: word, arch: list of word, versions: range}"
    lines = "".join(
        f"      - {{{row}, method: network, repo: ubuntu2404, arch: [x86_64], src: [page]}}\n" for row in rows
    )
    return f"  availability:\n    about: a\n    key: [component]\n    fields: {fields}\n    rows:\n{lines}"


def packages(*rows: str) -> str:
    fields = "{component: word, method: word, family: word, versions: range, packages: list of text, flavour: word, with_cuda: range}"
    lines = "".join(f"      - {{{row}, method: network, family: apt, src: [page]}}\n" for row in rows)
    return (
        f"  packages:\n    about: p\n    key: [component, versions, flavour]\n    fields: {fields}\n    rows:\n{lines}"
    )


SUBJECTS = {
    "driver": releases("450.1", "535.1", "535.2", extra=", kind: LTS, branch: 535")
    + releases("580.1", extra=", kind: LTS, branch: 580").split("rows:\n")[1]
    + releases("590.1", extra=", kind: NFB, branch: 590").split("rows:\n")[1]
    + releases("595.1", extra=", kind: PB, branch: 595").split("rows:\n")[1]
    + releases("615.1").split("rows:\n")[1]
    + rules(
        'id: driver-old-gpus, of: "driver>=590", needs: compute-capability, any: [">=7.5"]',
        'id: driver-fm, of: "driver", equal: [fabric-manager], strength: only-if, when: {fabric: true}',
        'id: fm-driver, of: "fabric-manager", equal: [driver], strength: required',
    ),
    "cuda": releases("11.8.0", "12.2.0", "12.8.0", "13.0.0", "13.2.0")
    + rules(
        'id: cuda-11-driver, of: "cuda>=11,<12", needs: driver, any: [">=450"], strength: required',
        'id: cuda-12-driver, of: "cuda>=12,<13", needs: driver, any: [">=525"], strength: required',
        'id: cuda-13-driver, of: "cuda>=13", needs: driver, any: [">=580"], strength: required',
        'id: cuda-13-gpu, of: "cuda>=13", needs: compute-capability, any: [">=7.5"]',
        'id: cuda-132-driver, of: "cuda==13.2.*", needs: driver, any: [">=600"], strength: advised',
    ),
    "cudnn": releases("8.9.7", "9.1.0", "9.14.0")
    + rules(
        'id: cudnn-8-cuda, of: "cudnn==8.*", needs: cuda, any: ["==11.*", "==12.*"], strength: required',
        'id: cudnn-9-cuda, of: "cudnn>=9,<9.10", needs: cuda, any: ["==12.*"], strength: required',
        'id: cudnn-914-cuda, of: "cudnn>=9.10", needs: cuda, any: ["==12.*", "==13.*"], strength: required',
        'id: cudnn-914-bad, of: "cudnn==9.14.*", needs: cuda, none: ["==12.8.*"]',
    ),
    "places": availability(
        'component: driver, versions: ">=535"',
        'component: cuda, versions: ">=12.2"',
        'component: cudnn, versions: ">=8"',
    )
    + packages(
        'component: driver, versions: "", packages: [nvidia-open], flavour: open',
        'component: driver, versions: "<610", packages: [cuda-drivers], flavour: proprietary',
        'component: fabric-manager, versions: "", packages: [nvidia-fabricmanager]',
        'component: cuda, versions: "", packages: [cuda-toolkit]',
        'component: cudnn, versions: "", packages: [libcudnn]',
    ),
}


def small_matrix(**others: str) -> Matrix:
    """The matrix of SUBJECTS, compiled in memory; ``others`` replaces the text of subjects."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for subject, text in {**SUBJECTS, **others}.items():
            (folder / f"{subject}.yaml").write_text(HEAD.format(subject=subject) + text)
        index, blobs = compile_folder(folder, dict.fromkeys(SUBJECTS, (0, 0)))
    return Matrix(Store(index, None, blobs))


PASCAL = Gpu(name="GTX Old", compute_capability="6.1", kind="consumer", open_module="impossible", driver_last="580")
HOPPER = Gpu(name="H200", compute_capability="9.0", kind="datacenter", open_module="possible")
SXM = Gpu(name="H200 SXM", compute_capability="9.0", kind="datacenter", open_module="possible", fabric="nvswitch")
BLACKWELL = Gpu(name="RTX New", compute_capability="12.0", kind="consumer", open_module="required")


def host(*gpus: Gpu, driver: str = "", environment: str = "bare-metal") -> Host:
    """An Ubuntu 24.04 host with these GPUs, and a driver already installed where one is given."""
    return Host(
        os=OperatingSystem(id="ubuntu", version_id="24.04", family="apt", name="Ubuntu 24.04", repo="ubuntu2404"),
        arch="x86_64",
        environment=environment,  # type: ignore[arg-type]  # one of the environments, as the caller writes it
        gpus=gpus,
        installed={"driver": Installed(version=driver)} if driver else {},
        described=True,
    )
