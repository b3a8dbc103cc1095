"""Random hosts and random requests over the real facts, small enough to be asked by the hundred."""

from __future__ import annotations

from functools import cache, lru_cache

from hypothesis import settings
from hypothesis import strategies as st
from tests.tiers import examples

from gpustack.detect.describe import describe
from gpustack.errors import NoSolutionError, UnsupportedError
from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.host import Host
from gpustack.model.request import Policy, Request
from gpustack.model.resolution import Resolution
from gpustack.solve.requirements import merge, parse_requirement
from gpustack.solve.resolve import resolve

STEADY = settings(derandomize=True, database=None, deadline=None, max_examples=examples(60))
"""The same examples on every run: a failure here is a failure everywhere."""

SYSTEMS = ("ubuntu22.04", "ubuntu24.04", "debian12", "rhel8.10", "rhel9.4", "sles15.6", "ubuntu20.04", "fedora42")
GPUS = (
    "Tesla K80", "Tesla P100-PCIE-16GB", "Tesla V100-SXM2-16GB", "Tesla T4", "A10", "L4", "H100 PCIe", "H200", "B200",
    "GeForce GTX 1080", "GeForce RTX 3090", "GeForce RTX 4090", "GeForce RTX 5090",
)  # fmt: skip
ASKED = {
    "driver": ("", "==580.*", ">=570", "==535.*", "<590", ">=590"),
    "cuda": ("", "==12.*", "==13.*", ">=12.4,<13", "==11.8.*", "==12.9.1", "<12", ">=13.2"),
    "cudnn": ("", "==9.*", "==8.9.*", ">=9.11", "<9.11", "==9.10.2.21"),
    "nccl": ("", ">=2.27", "==2.21.*", "<2.20"),
    "tensorrt": ("", "==10.*", "==8.6.*", ">=10.9", "==11.*"),
    "nv-codec-headers": ("", "==12.*", "==13.0.*", "<12"),
    "ffmpeg": ("", "==7.*", "==6.*", ">=8"),
    "container-toolkit": ("", ">=1.17", "==1.18.*"),
    "triton": ("", "==25.*", "==24.*", "==23.*"),
}  # fmt: skip
INSTALLED = (None, None, None, "470.256.02", "535.183.01", "550.163.01", "580.105.08", "590.48.01")
POLICIES: tuple[Policy, ...] = ("production", "newest", "minimal")


@lru_cache(maxsize=1)
def facts() -> Matrix:
    return load_matrix()


@cache
def described(system: str, gpus: tuple[str, ...], driver: str | None) -> Host:
    return describe(facts(), os=system, arch="x86_64", gpus=gpus, driver=driver)


hosts = st.builds(
    described,
    st.sampled_from(SYSTEMS),
    st.lists(st.sampled_from(GPUS), min_size=1, max_size=2, unique=True).map(tuple),
    st.sampled_from(INSTALLED),
)
wishes = st.lists(st.sampled_from(sorted(ASKED)), min_size=1, max_size=4, unique=True).flatmap(
    lambda names: st.tuples(
        *[st.sampled_from(ASKED[name]).map(lambda text, name=name: f"{name}{text}") for name in names]
    )
)


def asking(texts: tuple[str, ...], policy: Policy = "production") -> Request:
    return Request(requirements=merge(tuple(parse_requirement(text) for text in texts)), policy=policy)


requests = st.builds(asking, wishes, st.sampled_from(POLICIES))
clashes = st.builds(
    lambda one, other: asking((one, other)),
    st.sampled_from(
        ("driver==470.*", "driver==535.*", "driver>=590", "cuda<12", "cuda>=13", "cudnn==8.9.*", "cudnn>=9.11")
    ),
    st.sampled_from(
        ("cuda>=13", "cuda==11.8.*", "tensorrt==10.*", "tensorrt==8.6.*", "triton==25.*", "nccl<2.20", "ffmpeg>=8")
    ),
)
"""Two wishes that seldom go together."""


def answer(host: Host, request: Request, matrix: Matrix | None = None) -> Resolution | None:
    """The resolution, or None where there is none (exit 3) or the host offers nothing of it (exit 4)."""
    try:
        return resolve(matrix or facts(), host, request)
    except (NoSolutionError, UnsupportedError):
        return None
