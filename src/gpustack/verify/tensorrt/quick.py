"""Quick checks of TensorRT: which libraries load, and whether they are compatible with CUDA, driver and GPUs."""

from __future__ import annotations

from pathlib import Path

from gpustack.model.host import Host
from gpustack.verify.declare import Context, Outcome, check, failed, needless, passed, skipped
from gpustack.verify.frame import host_facts
from gpustack.verify.frame.rules import Part, compute_capability_of, full_version, judge_fit, same_release
from gpustack.verify.tensorrt.libraries import find_bindings, find_libraries, load_as_cpp

INSTALL = "`gpustack install tensorrt`"


def version_here(context: Context) -> str | None:
    """The TensorRT that programs get: what Python loads, else the loader's, else the installed one."""
    own = next((one.version for one in find_bindings(context) if one.version and not one.is_rtx), None)
    if own:
        return own
    for library in find_libraries(context):
        if library.name == "libnvinfer" and not library.from_wheel:
            loaded = load_as_cpp(context, library.major)
            if loaded:
                return loaded[0]
    return host_facts.installed_version(context.host, "tensorrt")


@check(
    "tensorrt.found",
    title="TensorRT found",
    expects="TensorRT is installed, and the version that C++ and Python programs load is known.",
    fix=INSTALL,
    limit_s=180,
)
def found(context: Context) -> Outcome:
    if context.runner is None:
        copies = host_facts.copies_of(context.host, "tensorrt")
        own = host_facts.installed_version(context.host, "tensorrt")
        if not copies and own is None:
            return skipped("no TensorRT was found", INSTALL)
        listed = "; ".join(host_facts.describe_copy(one) for one in copies)
        return passed(f"TensorRT {own or 'of unknown version'}{f': {listed}' if listed else ''}")
    here, modules = find_libraries(context), find_bindings(context)
    if not here and not modules:
        return skipped("no TensorRT was found", INSTALL)
    parts = [f"{one.path}{' (wheel)' if one.from_wheel else ''}" for one in here]
    majors = {(one.name, one.major) for one in here if not one.from_wheel}
    for name, major in sorted(majors):
        loaded = load_as_cpp(context, major, name) if name == "libnvinfer" else None
        if loaded:
            parts.append(f"C++ loads {name}.so.{major} {loaded[0]} from {loaded[1]}")
        elif name == "libnvinfer":
            parts.append(f"C++ programs do not find {name}.so.{major}, which is not on the loader's path")
    for one in modules:
        source = ", ".join(one.libraries) or "a library inside the module"
        state = f"cannot be imported: {one.error}" if one.error else f"{one.version} loads {source}"
        parts.append(f"Python's {one.module} ({one.python}) {state}")
    broken = [one for one in modules if one.error]
    if broken and not any(not one.error for one in modules):
        worst = broken[0]
        return failed(f"Python's {worst.module} cannot be imported: {worst.error}", INSTALL, detail="; ".join(parts))
    return passed("; ".join(parts), actual=version_here(context) or "")


@check(
    "tensorrt.versions",
    title="C++ and Python load the same version",
    expects="C++ and Python programs load the same TensorRT, so that each runs the other's engines.",
    fix="Keep one TensorRT: remove the copy that you do not need, or install the wheel of the library's release.",
    needs=("tensorrt.found",),
    limit_s=180,
)
def versions(context: Context) -> Outcome:
    modules = [one for one in find_bindings(context) if one.version and not one.is_rtx]
    majors = sorted({one.major for one in find_libraries(context) if not one.from_wheel and one.name == "libnvinfer"})
    loaded = [answer for major in majors if (answer := load_as_cpp(context, major))]
    if not modules or not loaded:
        return needless("only C++ or only Python has TensorRT: nothing to compare")
    python = modules[0]
    if not any(same_release(python.version, number) for number, _ in loaded):
        number, path = loaded[0]
        return failed(
            f"Python loads TensorRT {python.version}, but C++ programs load {number} from {path}: neither loads the"
            " other's engines",
            expected=python.version,
            actual=number,
        )
    return passed(f"both load TensorRT {python.version}")


def _none(host: Host) -> Outcome | None:
    return needless("no NVIDIA GPU was found") if not host.gpus else None


@check(
    "tensorrt.fit",
    title="compatible with CUDA, driver and GPUs",
    expects="This TensorRT is compatible with the installed CUDA, the driver and every GPU.",
    fix="Install a compatible TensorRT: `gpustack plan tensorrt` finds one.",
    needs=("tensorrt.found",),
    unless=(_none, host_facts.is_jetson),
    limit_s=120,
)
def fits(context: Context) -> Outcome:
    host = context.host
    own = version_here(context)
    if own is None:
        return skipped("no TensorRT of known version was found", INSTALL)
    part = Part("tensorrt", full_version(context, "tensorrt", own), f"TensorRT {own}")
    installed = {"cuda": host_facts.installed_version(host, "cuda"), "driver": host_facts.driver_version(host)}
    others = [Part(name, number) for name, number in installed.items() if number]
    others += filter(None, map(compute_capability_of, host_facts.own_gpus(host)))
    if not others:
        return skipped("no CUDA, no driver and no GPU of known compute capability was found to compare with")
    return judge_fit(context, part, *others, needs_all=False)


def _library_for(context: Context, kind: str) -> str | None:
    """The version that would load an engine of ``kind`` here."""
    if kind == "tensorrt-rtx":
        return next((one.version for one in find_bindings(context) if one.is_rtx and one.version), None)
    return version_here(context)


@check(
    "tensorrt.engine",
    title="engine file is compatible",
    expects="The engine was built by this TensorRT for a GPU of this host, and the file is intact.",
    fix="Rebuild the engine on the host that will run it.",
    needs=(),
    limit_s=120,
)
def engine(context: Context) -> Outcome:
    given = context.given.get("engine")
    if not given:
        return needless("no engine file was specified", "specify the file: `--engine FILE`")
    from gpustack.triton.engine import judge_engine, read_engine  # noqa: PLC0415 (an engine is seldom given)
    from gpustack.triton.served import tensorrt_of_triton, with_version  # noqa: PLC0415

    path = Path(given)
    try:
        read = read_engine(path)
    except OSError as exc:
        return failed(f"{path} cannot be read: {exc.strerror or exc}", "specify an existing, readable file")
    if read.fault:
        return failed(f"{path.name}: {read.fault}", "rebuild the engine, or copy the file again")
    release = context.given.get("release")
    if release:
        library = tensorrt_of_triton(context.matrix, release)
        if library is None:
            return skipped(
                f"the TensorRT version of Triton {release} is unknown",
                f"run `dpkg --list 'libnvinfer*'` in its container; the file is an {read.called}",
            )
        place = f"Triton {release}"
    else:
        library, place = _library_for(context, read.kind) or "", "this host"
        if not library:
            return skipped(f"{path} is an {read.called}, and no TensorRT was found to load it", INSTALL)
    judged = [
        (gpu, judge_engine(with_version(context.matrix, read), library, gpu.compute_capability if gpu else None, place))
        for gpu in (() if release else host_facts.own_gpus(context.host)) or (None,)
    ]
    wrong = [(gpu, one) for gpu, one in judged if one.fits is False]
    if wrong and len(wrong) == len(judged):
        return failed(
            f"{path.name}: {wrong[0][1].reason}",
            wrong[0][1].fix,
            expected=f"TensorRT {library}" if library else "",
            actual=read.called,
        )
    unknown = next((one.reason for _, one in judged if one.fits is None), "")
    if not unknown and not read.targets and not release:
        unknown = f"it was built by TensorRT {read.version}, as {place} has, but its header does not tell for which GPU"
    if unknown:
        return skipped(
            f"{path.name}: {unknown}",
            "try to load it on the host that will run it: `--level smoke --engine FILE`",
        )
    size = f"{read.size} bytes"
    also = "".join(dict.fromkeys(f"; {one.reason}" for _, one in judged if one.fits and one.reason))
    also += "".join(f"; not with {gpu.called if gpu else place}: {one.reason}" for gpu, one in wrong)
    targets = f", for compute capability {', '.join(read.targets)}" if read.targets else ""
    return passed(f"{path.name}: {read.called}, {size}{targets}; compatible with {place}{also}", actual=read.version)
