"""What the program answers to a question of ``fact_probes``, by the kind of the question: a text to compare."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from gpustack.detect.api import detect
from gpustack.detect.build import host_of
from gpustack.detect.describe import describe
from gpustack.detect.evidence import Evidence
from gpustack.detect.machines import demand_possible
from gpustack.detect.parse import pci
from gpustack.detect.products import Products, gpu_of
from gpustack.matrix.index import Matrix
from gpustack.model.facts import subject_of
from gpustack.model.host import Host, Installed
from gpustack.model.own_file import OwnFile
from gpustack.model.request import Beside, Request
from gpustack.plan.build import build
from gpustack.plan.targets import demand_host
from gpustack.solve.check import check
from gpustack.solve.forward_compat import bridged_branches, package_for
from gpustack.solve.requirements import merge, parse_methods, parse_requirement, split_frameworks
from gpustack.solve.resolve import resolve
from gpustack.triton import releases, rules, served
from gpustack.triton.engine import Engine
from gpustack.verify.cuda.errors import explain
from gpustack.verify.declare import Check, Context, Shared, failed
from gpustack.verify.driver.figures import figures_of
from gpustack.verify.driver.flavours import flavour_facts
from gpustack.verify.driver.kernel_log import judge_log
from gpustack.verify.driver.nvml import GpuHealth, Health, health_failure
from gpustack.verify.driver.smoke_modes import modes
from gpustack.verify.ffmpeg.causes import Setup
from gpustack.verify.ffmpeg.diagnosis import diagnose
from gpustack.verify.ffmpeg.engines import chip_of, session_limit
from gpustack.verify.ffmpeg.guide import guide_commands
from gpustack.verify.ffmpeg.lists import About
from gpustack.verify.ffmpeg.programs import Location, Program
from gpustack.verify.frame.surroundings import set_here, with_surroundings
from gpustack.verify.nv_codec_headers.api import api_of_driver, driver_for_api

HOSTS = Path(__file__).resolve().parents[1] / "tests" / "fixtures" / "hosts"
SYSTEM = "ubuntu24.04"


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a question names: a host, components with methods, and texts for the readers of verify and detect."""

    kind: str
    os: str = SYSTEM
    arch: str | None = "x86_64"
    gpus: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    target: str = ""
    flavour: str = "auto"
    driver: str | None = None
    held: tuple[str, ...] = ()
    stage: str = ""
    own: OwnFile | None = None
    kernel: str = ""
    python: str = ""


def answer(matrix: Matrix, one: Asked) -> str:
    """The answer with these facts as JSON, without their digest."""
    return msgspec.json.encode(_ANSWERS[one.kind](matrix, one)).decode()


def _host(matrix: Matrix, one: Asked) -> Host:
    host = describe(matrix, os=one.os, arch=one.arch, gpus=one.gpus, driver=one.driver)
    if one.kernel:
        host = replace(host, kernel=one.kernel)
    if one.python:
        host = replace(host, python=one.python)
    if not one.held:
        return host
    there = Installed(version="0.1", method="network", packages=one.held)
    return replace(host, holds=one.held, installed={**host.installed, subject_of(one.asked[0]): there})


def _request(one: Asked) -> Request:
    stack, frameworks = split_frameworks(merge(tuple(parse_requirement(text) for text in one.asked)))
    return Request(
        requirements=stack,
        frameworks=frameworks or msgspec.UNSET,
        methods=parse_methods(one.methods),
        kernel_module=one.flavour,  # type: ignore[arg-type]
        target=one.target,  # type: ignore[arg-type]
        stage=one.stage or msgspec.UNSET,  # type: ignore[arg-type]
        files=(one.own,) if one.own else msgspec.UNSET,
    )


def _plan(matrix: Matrix, one: Asked) -> object:
    host, request = _host(matrix, one), _request(one)
    demand_host(matrix, host, request)
    plan = build(host, request, resolve(matrix, host, request), matrix)
    return replace(plan, facts="", digest="")


def _check(matrix: Matrix, one: Asked) -> object:
    return check(matrix, _host(matrix, one), _request(one))


def _image(matrix: Matrix, one: Asked) -> object:
    return check(matrix, _host(matrix, one), Request(requirements=()), beside=Beside(image=one.asked[0]))


def _codec(matrix: Matrix, one: Asked) -> object:
    return check(matrix, _host(matrix, one), Request(requirements=()), beside=Beside(codecs=one.asked))


def _board(matrix: Matrix, one: Asked) -> object:
    """A GPU as the bus shows it, with its video engines, and what it has of the datasheets."""
    device, _, subsystem = one.asked[0].partition("/")
    product = Products(matrix).find(device, subsystem or None)
    if product is None:
        return None
    gpu = replace(gpu_of(product), subsystem_id=subsystem or None)
    chip = chip_of(matrix, gpu)
    host = replace(describe(matrix, os=SYSTEM, arch="x86_64"), gpus=(gpu,))
    facts = [
        flavour_facts(matrix, driver, word, gpu) for driver in ("470.82", "580.82") for word in ("open", "proprietary")
    ]
    figures = figures_of(Context(host=host, matrix=matrix), 0, {})
    return gpu, chip, session_limit(matrix, chip, "470.82"), session_limit(matrix, chip, "580.82"), figures, facts


def _machine(matrix: Matrix, one: Asked) -> object:
    host = describe(matrix, os=one.os, arch=one.arch, gpus=one.gpus)
    demand_possible("x86_64", host.gpus, matrix)
    return host


def _switch(matrix: Matrix, one: Asked) -> object:
    """How many NVSwitches are counted where the bus has one of this device id."""
    path = f"{pci.BASE}/0000:01:00.0"
    ids = {"vendor": "0x10de", "device": one.asked[0], "class": "0x068000"}
    files = {f"{path}/{name}": text for name, text in ids.items()}
    return host_of(Evidence(files=files, listings={pci.BASE: ("0000:01:00.0",)}), matrix).nvswitches


def _error(matrix: Matrix, one: Asked) -> object:
    """What a code of CUDA or of NVML means, or a state of the fabric, outside and inside a container."""
    code, found = int(one.asked[0]), []
    for environment in ("bare-metal", "container"):
        host = replace(describe(matrix, os=SYSTEM, arch="x86_64"), environment=environment)
        context = Context(host=host, matrix=matrix)
        found += [explain(code, context), health_failure(context, Health(error="failed", code=code))]
        fabric = Shared()
        fabric.once("nvml-health", lambda: Health(gpus=(GpuHealth(index=0, fabric={"state": code, "status": 0}),)))
        found.append(modes(Context(host=host, matrix=matrix, shared=fabric)))
    return found


def _ffmpeg(matrix: Matrix, one: Asked) -> object:
    """Why FFmpeg failed with a text, or with an exit status and none."""
    text, code = one.asked[0], int(one.asked[1])
    return [diagnose(matrix, text, code, Setup(about=About(major=major))) for major in (5, 7)]


def _guide(matrix: Matrix, _: Asked) -> object:
    abouts = (About(version="4.2", major=4), About(version="7.1", major=7))
    place = Location(path="/usr/bin/ffmpeg", origin="own build")
    return [guide_commands(matrix, Program(place=place, about=about)) for about in abouts]


def _api(matrix: Matrix, one: Asked) -> object:
    """The driver that an API of NVENC requires, and the API that a driver has, on both systems."""
    api, driver = one.asked
    return [(driver_for_api(matrix, api, word), api_of_driver(matrix, driver, word)) for word in ("linux", "windows")]


def _model(matrix: Matrix, one: Asked) -> object:
    """What is said of a model with this configuration to a server of this release."""
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder, "model")
        (model / "1").mkdir(parents=True)
        (model / "config.pbtxt").write_text(one.asked[0])
        return rules.judge(matrix, Path(folder), one.asked[1])


def _server(matrix: Matrix, one: Asked) -> object:
    month = one.asked[0]
    return releases.release_row(matrix, month), releases.newest(matrix), served.tensorrt_of_triton(matrix, month)


def _engine(matrix: Matrix, one: Asked) -> object:
    return served.with_version(matrix, Engine(serialization=int(one.asked[0])))  # type: ignore[call-arg]


def _bridge(matrix: Matrix, one: Asked) -> object:
    cuda, branch = one.asked
    return package_for(matrix, cuda, branch), bridged_branches(matrix, cuda)


def _environment(matrix: Matrix, one: Asked) -> object:
    """What is said of a variable with a value, in general and by checks that fail, in a container."""
    name, value = one.asked
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        host = replace(describe(matrix, os=SYSTEM, arch="x86_64", gpus=("L4",)), environment="container")
        context = Context(host=host, matrix=matrix)
        checks = [
            Check(
                id=identity, component=identity.partition(".")[0], level="smoke", title="", expects="", fix="",
                function=lambda _: failed("broken"),
            )
            for identity in _DISTURBED
        ]  # fmt: skip
        return [set_here(context), *(with_surroundings(failed("broken"), one, context) for one in checks)]
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _service_log(matrix: Matrix, one: Asked) -> object:
    """What is said of a host whose service wrote one line."""
    files = {
        "/etc/os-release": 'ID=ubuntu\nVERSION_ID="24.04"\n',
        "/var/log/syslog": f"Nov  1 10:00:00 h {one.asked[0]}\n",
    }
    return host_of(Evidence(files=files), matrix).problems


_DISTURBED = (
    *("driver.nvml", "driver.context", "driver.lists", "driver.sums", "driver.throughput", "driver.libraries"),
    *("cuda.run", "cuda.copies", "cudnn.mnist", "nccl.all-reduce", "tensorrt.build", "ffmpeg.transcode", "triton.own"),
)
"""A check of each kind that variables disturb."""

_ANSWERS: dict[str, Callable[[Matrix, Asked], Any]] = {
    "plan": _plan,
    "check": _check,
    "image": _image,
    "codec": _codec,
    "board": _board,
    "machine": _machine,
    "switch": _switch,
    "tree": lambda matrix, one: detect(HOSTS / one.asked[0] / "root", matrix),
    "service-log": _service_log,
    "kernel-log": lambda matrix, one: judge_log(matrix, one.asked[0]),
    "error": _error,
    "ffmpeg": _ffmpeg,
    "guide": _guide,
    "api": _api,
    "model": _model,
    "server": _server,
    "engine": _engine,
    "bridge": _bridge,
    "environment": _environment,
}
