"""Quick checks of TensorRT: which libraries are here, which load, whether they fit CUDA, driver and GPUs."""

from __future__ import annotations

from pathlib import Path

from gpustack.model.host import Host
from gpustack.verify.declare import Context, Outcome, check, failed, needless, passed, skipped
from gpustack.verify.frame import host_facts
from gpustack.verify.frame.rules import Part, fit, of_gpu
from gpustack.verify.tensorrt.libraries import all_libraries, bindings, loaded_by_c

INSTALL = "`gpustack install tensorrt`"


def version_here(context: Context) -> str | None:
    """The TensorRT that programs get: what Python loads, else the loader's, else the installed one."""
    own = next((one.version for one in bindings(context) if one.version and not one.is_rtx), None)
    if own:
        return own
    for library in all_libraries(context):
        if library.name == "libnvinfer" and not library.from_wheel:
            loaded = loaded_by_c(context, library.major)
            if loaded:
                return loaded[0]
    return host_facts.installed_version(context.host, "tensorrt")


@check(
    "tensorrt.found",
    title="every libnvinfer named",
    expects="A TensorRT is here, and it is known which one C++ and Python programs load.",
    mends=INSTALL,
    limit_s=180,
)
def found(context: Context) -> Outcome:
    if context.runner is None:
        copies = host_facts.copies_of(context.host, "tensorrt")
        own = host_facts.installed_version(context.host, "tensorrt")
        if not copies and own is None:
            return skipped("no TensorRT was found", INSTALL)
        return passed(f"TensorRT {own or 'of unknown version'}: {'; '.join(host_facts.told_by(one) for one in copies)}")
    here, modules = all_libraries(context), bindings(context)
    if not here and not modules:
        return skipped("no TensorRT was found", INSTALL)
    parts = [f"{one.path}{' (wheel)' if one.from_wheel else ''}" for one in here]
    majors = {(one.name, one.major) for one in here if not one.from_wheel}
    for name, major in sorted(majors):
        loaded = loaded_by_c(context, major, name) if name == "libnvinfer" else None
        if loaded:
            parts.append(f"C++ loads {name}.so.{major} {loaded[0]} from {loaded[1]}")
        elif name == "libnvinfer":
            parts.append(f"C++ programs do not find {name}.so.{major}: its folder is not on the loader's path")
    for one in modules:
        source = ", ".join(one.libraries) or "a library inside the module"
        told = f"does not import: {one.error}" if one.error else f"{one.version}, loads {source}"
        parts.append(f"Python's {one.module} ({one.python}) {told}")
    broken = [one for one in modules if one.error]
    if broken and not any(not one.error for one in modules):
        worst = broken[0]
        return failed(f"Python's {worst.module} does not import: {worst.error}", INSTALL, detail="; ".join(parts))
    return passed("; ".join(parts), actual=version_here(context) or "")


@check(
    "tensorrt.versions",
    title="C++ and Python load one version",
    expects="The TensorRT that C++ programs load is that of Python, so that engines of one run with the other.",
    mends="Keep one TensorRT: remove the copy that you do not want, or install the wheel of the library's release.",
    needs=("tensorrt.found",),
    limit_s=180,
)
def versions(context: Context) -> Outcome:
    modules = [one for one in bindings(context) if one.version and not one.is_rtx]
    majors = sorted({one.major for one in all_libraries(context) if not one.from_wheel and one.name == "libnvinfer"})
    loaded = [answer for major in majors if (answer := loaded_by_c(context, major))]
    if not modules or not loaded:
        return needless("there are no two of them to compare: only one of C++ and Python has TensorRT")
    python = modules[0]
    if not any(_same_release(python.version, number) for number, _ in loaded):
        number, path = loaded[0]
        return failed(
            f"Python loads TensorRT {python.version}, C++ programs load {number} from {path}:"
            " an engine of one does not load in the other",
            expected=python.version,
            actual=number,
        )
    return passed(f"both load TensorRT {python.version}")


def _same_release(one: str, other: str) -> bool:
    return one.split(".")[:3] == other.split(".")[:3]


def _none(host: Host) -> Outcome | None:
    return needless("no NVIDIA GPU was found here") if not host.gpus else None


@check(
    "tensorrt.fit",
    title="fits CUDA, driver and GPUs",
    expects="This TensorRT is made for the installed CUDA, the driver and every GPU.",
    mends="Install the TensorRT that fits: `gpustack plan tensorrt` names it.",
    needs=("tensorrt.found",),
    unless=(_none, host_facts.is_jetson),
    limit_s=120,
)
def fits(context: Context) -> Outcome:
    host = context.host
    own = version_here(context)
    if own is None:
        return skipped("no TensorRT was found, or none that tells its version", INSTALL)
    full = _in_full(context, own)
    others = {"cuda": host_facts.installed_version(host, "cuda"), "driver": host_facts.driver_version(host)}
    covered, kept = False, []
    for name, number in others.items():
        if number is None:
            continue
        answer = fit(context.matrix, host, Part("tensorrt", full), Part(name, number))
        covered = covered or answer.covered
        if answer.breach:
            return failed(
                f"TensorRT {own} does not go with {name} {number}: {answer.sentence(f'TensorRT {own}')}",
                expected=f"{name} {answer.wanted}" if answer.wanted else "",
                actual=f"{name} {number}",
            )
        kept.append(f"{name} {number}")
    for gpu in host_facts.own_gpus(host):
        capability = gpu.compute_capability
        if capability is None:
            continue
        answer = fit(context.matrix, of_gpu(host, gpu), Part("tensorrt", full), Part("compute-capability", capability))
        covered = covered or answer.covered
        if answer.breach:
            return failed(
                f"TensorRT {own} does not run on {host_facts.name_of(gpu)} (compute capability {capability}):"
                f" {answer.sentence(f'TensorRT {own}')}",
                expected=f"compute capability {answer.wanted}" if answer.wanted else "",
                actual=capability,
            )
        kept.append(f"{gpu.called} ({capability})")
    if not covered:
        return skipped(f"no fact covers TensorRT {own} with {', '.join(kept) or 'this host'}")
    return passed(f"TensorRT {own} goes with {', '.join(kept)}")


def _in_full(context: Context, number: str) -> str:
    """``number`` as the matrix writes the release, which may carry a build number that the library does not tell."""
    known = (one.version for one in context.matrix.releases("tensorrt"))
    return next((full for full in known if _same_release(full, number)), number)


def _library_for(context: Context, kind: str) -> str | None:
    """The version that would load an engine of ``kind`` here."""
    if kind == "tensorrt-rtx":
        return next((one.version for one in bindings(context) if one.is_rtx and one.version), None)
    return version_here(context)


@check(
    "tensorrt.engine",
    title="the given engine file fits",
    expects="The engine was built by this TensorRT for this GPU, and the file is whole.",
    mends="Build the engine again where it is to run.",
    needs=(),
    limit_s=120,
)
def engine(context: Context) -> Outcome:
    given = context.given.get("engine")
    if not given:
        return needless("no engine file was given", "`--engine FILE` has one looked at")
    from gpustack.triton.engine import judge_engine, read_engine  # noqa: PLC0415 (an engine is seldom given)
    from gpustack.triton.served import named, tensorrt_of_triton  # noqa: PLC0415

    path = Path(given)
    try:
        read = read_engine(path)
    except OSError as exc:
        return failed(f"{path} cannot be read: {exc.strerror or exc}", "name a file that is there")
    if read.fault:
        return failed(f"{path.name}: {read.fault}", "build the engine again, or copy the file anew")
    release = context.given.get("release")
    if release:
        library = tensorrt_of_triton(context.matrix, release)
        if library is None:
            return skipped(
                f"no fact tells which TensorRT Triton {release} holds",
                f"inside its container `dpkg --list 'libnvinfer*'` tells; this is an {read.called}",
            )
        place = f"Triton {release}"
    else:
        library, place = _library_for(context, read.kind) or "", "this host"
        if not library:
            return skipped(f"{path} is an {read.called}; there is no TensorRT here to load it", INSTALL)
    capabilities = [gpu.compute_capability for gpu in host_facts.own_gpus(context.host)]
    verdict = judge_engine(named(context.matrix, read), library, next(iter(capabilities), None), place)
    if verdict.fits is None:
        return skipped(f"{path.name}: {verdict.reason}", "where it is to run, `--level smoke --engine FILE` loads it")
    if not verdict.fits:
        return failed(
            f"{path.name}: {verdict.reason}",
            verdict.cure,
            expected=f"TensorRT {library}" if library else "",
            actual=read.called,
        )
    size = f"{read.size} bytes"
    also = f"; {verdict.reason}" if verdict.reason else ""
    targets = f", for compute capability {', '.join(read.targets)}" if read.targets else ""
    return passed(f"{path.name}: {read.called}, {size}{targets}; fits {place}{also}", actual=read.version)
