"""Grave lines about the GPU stack that no fact explains: judged by what they say themselves, else quoted."""

import re
from collections.abc import Iterator
from functools import cached_property

from gpustack.detect.problems import builds, compiling, faults, resolvers, states
from gpustack.detect.problems.loading import MISSING
from gpustack.detect.problems.logs import has_fault
from gpustack.detect.problems.phrases import may_state, stated
from gpustack.detect.problems.programs import Line, Program, writer
from gpustack.detect.problems.registry import Finding, detects
from gpustack.detect.problems.rows import KernelRow, LogRow, is_about, is_like, stands
from gpustack.detect.problems.signs import (
    OF_PROGRAMS,
    Code,
    about_host,
    logs,
    numbers_of,
    quoted,
    sandboxed,
    side,
)
from gpustack.detect.problems.wording import GRAVE, LEVEL
from gpustack.detect.scene import Scene
from gpustack.patterns import later

_KIND = 32
"""Sentences that begin like each other so far differ in names alone."""

MOST = 5
"""The number of lines that are shown, the gravest first."""

STACK = later(
    r"nvidia|nvrm|(?<!barra)cuda|\bnvcc\b|\bptxas\b|cudnn|cublas|nvml|nvenc|nvdec|cuvid|nccl|nouveau|tensorrt|libnvinfer|\[trt\]|vgpu|gridd|"
    r"\bcdi\b|dcgm|"
    r"\bgpus?\b|gpu[-_ ](?:operator|feature|burn|manager)|fabric ?manager|\bimex\b|nvlink|nvswitch|\bmig\b|\bxid\b|"
    r"libcu(?:da|blas|sparse|fft|rand|solver|file|pti|tensor|dss)|lib(?:c10|torch)\w*\.so|gdrdrv|"
    r"\bI[A-Z]\w+::\w+: Error Code|\w\.(?:cpp|h)::\w+::\d+\] Error Code|Error Code \d+: (?:Internal|API Usage) Error|"
    r"peermem|nvsm|\blibnv[a-z]|optix|hostengine|vfio|hostpci|sysfsdev|nvproxy|NET/OFI|\bmps\b|gres[/.: ]|/dev/dxg",
    re.IGNORECASE,
)
GRAPHICS = later(
    r"kwin_\w+|gnome-shell|mutter|Hyprland|sway|labwc|niri|wayfire|weston|cosmic-comp|gamescope|plasmashell|Xorg|"
    r"Xwayland|\[wlr\]|libGL error|libEGL warning: egl: failed|GLXBadContext|VK_ERROR_\w+|accessible devices|dGPU|"
    r"libva error|va_openDriver|_glapi_tls|NvRm|nvbuf_utils|nvrm channel|\bEGL|eglInit|for scanout|akmod|kmod-|ocl-icd|"
    r"bbswitch|bumblebee"
)
ABOUT = (GRAPHICS, compiling.ABOUT, faults.ABOUT, resolvers.ABOUT)
"""What lines are about that name neither NVIDIA nor CUDA."""

_OF_PROGRAMS = later(r"CUDA out of memory|OutOfMemoryError|CUDA error:? (?:2|719)\b|unspecified launch failure")
"""Errors of the programs that run on a host: told where somebody asks about their text, not in the logs of all."""

OTHERS = later(
    r"sshd\b|CRON\b|sudo\b|polkit|packagekitd|fwupd|tracker-(?:miner|extract)|amdgpu|"
    r"radeon|\bi915\b|\brocm(?! MI300\+)|\bhip\b(?! or CUDA)|intel_gpu|\bMali\b|habana|"
    r"(?<![A-Z_])level=debug(?!.*vmconsole=)|"
    r"(?-i:(?<!=)\bDEBUG\b)(?!.*produced output: )",
    re.IGNORECASE,
)
_QUIET = later(
    r"level=(?:info|INFO|[Ww]arn\w*|WARN\w*)|\b[IW]\d{4} \d\d:|\bINFO\b|\[info\]|\"level\":\s*\"(?:info|warn\w*)\"|"
    r"\(WW\)|\(II\)|\bWARNING \d\d-\d\d"
)
HARMLESS = later(
    r"module verification failed|taint|loading NVIDIA UNIX|\bno errors?\b|\b0 errors|without error|"
    r"error[=:] ?(?:null|nil|none|\"\"|<nil>)|"
    r"errors?[=:] ?(?:0\b(?! active drivers)|\[\])|i2c timeout error|ucsi_ccg|i2c_transfer failed|persistence mode|"
    r"is not a symbolic link|_DSM|"
    r"(?<!option will be )ignor(?:ing|ed)(?!: Missing dependencies| nvidia\S*-kmod as|, or old ones)|"
    r"NUMA node|"
    r"to perform barrier as devices used by this process|GPU device discovery failed|Delay kernel timed out|"
    r"Unable to find image '[^']+' locally|has no holdoff time|Custom allreduce is disabled|"
    r"libnccl-(?:net|tuner|profiler)|libibverbs|"
    r"Unable to register cu\w+ factory|TF-TRT Warning|dma-buf feedback|"
    r"Failed to load module \"(?:nv|fbdev|vesa|nouveau)\"|Unable to load: nvidia-installer ncurses|"
    r"(?<!ter-)gpu-manager|filesystem with mountpoint|chvt(?!: command)|exit (?:code|status)[ =:]?0\b|"
    r"status=0/SUCCESS|error reporting|"
    r"Could not locate (?!lib(?:cuda|nvidia-ml|dxcore)\.so)\S+: pattern|"
    r"error[._-]?log|Not found in dkms status|nvidia-modprobe\b[^']*' failed|"
    r"(?<!NVIDIA )error handler|errors enabled|round-off errors|"
    r"backend '(?:tpu\w*|rocm|metal|plugin|interpreter)'|nvidia-container-cli\.debug|"
    r"Can't verify X Server version|skipping|optional|(?<!not )(?<!not terminate )successfully|"
    r"retry succeeded|Direct firmware load for .*regulatory|not configured as a|"
    r"NVIDIA probe routine was not called|selected configuration not currently applied|"
    r"unknown parameter .* ignored|/errors?/|\bon_?error\b|failed_count=0|failed=0|unreachable=0|errors_total|"
    r"error_count|xid_errors|"
    r"(?-i:\bRemoved? |\bSetting up |\bUnpacking )|Selecting previously|Installed: |Upgraded: |Get:\d|\bCommand line:|"
    r"\bCOMMAND=|PWD=/|assuming unprivileged mode|\bIgn:\d",
    re.IGNORECASE,
)
"""Lines that healthy hosts write although they read like a failure."""

_FOLLOWS = later(
    r"Failed with result|Main process exited|systemd\[\d+\]: (?:\S+: )?Failed to start|Back-?off|"
    r"CrashLoop|Error syncing pod|Job for |"
    r"control process exited|"
    r"dependency failed|entered failed state|Start request repeated|Scheduled restart|Unit .* failed|"
    r"failed to prepare transaction|unresolvable package conflicts|Terminating early due to|while performing the step|"
    r"dpkg: error processing|Sub-process|dracut(?:\[E\])?: FAILED|subprocess returned error|\bErr:\d|"
    r"make\S*: \*\*\* \[.*Error \d+\s*$|"
    r"NVIDIA\([\w-]+\): (?: {4}|Failing initialization of X screen|Only one GPU will be used|(?:Errors|GPUs):)|"
    r"\(EE\) \d+: /|"
    r"NVRM: A GPU crash dump has been created|(?:corruption and stability|requires the use of a text-mode VGA)|"
    r"\(Answer: ",
    re.IGNORECASE,
)
"""What follows from a failure, or is the rest of its sentence, and names no cause."""

_AFTER = later(
    r"kernel errors might be asynchronously|For debugging consider passing|TORCH_USE_CUDA_DSA|See root cause above|"
    r"no usable GPU found|one possible reason is|ggml_cuda_compute_forward: \w+ failed|ggml-cuda\.cu:\d+: CUDA error$|"
    r"while opening (?:en|de)coder|Could not open encoder before EOF|Failed setup for format|Failed to set value '|"
    r"Device creation failed: -|Device setup failed for|No device available for decoder|sending frames to consumers|"
    r"Task finished with error|Terminating thread with|Error (?:initializing|opening) output|Conversion failed|"
    r"Error submitting|properly shut down NVML|CUDA-enabled jaxlib is not installed|"
    r"Exception when calling jax_plugins|versions_helpers\.cc|Unable to use CUDA because of the following|"
    r"Invalid Engine\. Please|ngine deserialization failed|CudaDriverHelper has not been initialized|"
    r"^\s+Requires: |"
    r"Builder creation failed|"
    r"Engine set up failed|create engine from model|Cannot load symbol cudnn|Could not dynamically load CUDA|^EP Error|"
    r"bare_metal_version|`ptxas` stderr|reinitializing filters|failed to suspend async|GSP unload failed|"
    r"rm_init_adapter failed|Error building extension|Failed to create \w+ExecutionProvider|"
    r"Unable to determine GPU memory usage|CUDA program compilation error: *$|\"CMakeCUDACompilerId\.cu\" failed|"
    r"FAILED: (?:\[code=\d+\] )?\S+\.s?o\b|[Nn]inja(?:: build stopped| build failed)|"
    r"m_pAqBackend (?:couldn|was null)|m_sWLRBackend was NULL|wlr_backend_autocreate|CBackend::create|"
    r"probe with driver nvidia failed|nvidia: probe of|"
    r"NVIDIA probe routine failed|Display server failed to start|Failed to read display number|"
    r"Session never registered|System resumed again|CUDA error: unrecognized error code|"
    r"nvidia-gridd.*(?:Failed to register client|Unable to open directory)|ERROR: Installation has failed|"
    r"pyxis: couldn't start container|spank: required plugin|Failed to invoke spank plugin stack|"
    r"Failed to uninstall nvidia driver components|"
    r"caused by a system or configuration error in the Fabric Manager|DistBackendError: NCCL error in: |"
    r"error running nvidia-toolkit: unable to setup runtime|"
    r"Disable NVLS \(NCCL_NVLS_ENABLE=0\)|nccl(?:UnhandledCuda|System|Internal)Error: |"
    r"Failed to create an execution context|Executor worker returned error|create_\w+_bin(?::\d+)?>?:? .*failed|"
    r"CUDA SETUP: CUDA detection failed|llama runner (?:process has )?terminated|failed to run custom build command|"
    r"Could not initialize the CUDA driver API|Failed to load CUDA symbols|"
    r"Failed to create symlinks under /dev/char|Verify all devices in group \d+ are bound to vfio|"
    r"Failed to reset GPUs?: |"
    r"<create_pipeline|<main:\d+>: Failed to create pipeline|failed to load all models|"
    r"factory function returned nullptr|has no attribute 'create_execution_context'|failed checking for nvcc|"
    r"Impossible to convert between the formats|Plugin not found, are the plugin name|UCX +ERROR no \w+|"
    r"is not able to compile a simple test|CMakeDetermineCUDACompiler\.cmake:\d+ \(message\)|nouveau: probe of|"
    r"Incompatible (?:strategy|platform) detected",
)
"""The last lines of a program that stops for a reason that it gave before: told where its log has nothing else."""

_JUDGED = later(r"NVRM: Xid \(|nvidia-gridd: Failed to acquire licen[cs]e|_kgspLogRpcTimeout")
"""The table of Xids judges the ones, also those of programs, the state of the licence and a row of the kernel's log
the others."""

_UNBUILT = later(
    r"Bad return status for module build on kernel: (\S+)|"
    r"utoinstall on ([\w.+-]+?)(?:/x86_64|/aarch64)? failed for .*nvidia|"
    r"dkms (?:install|build)\b[^'`]*?nvidia(?!-fs|-peermem)[\w-]*/[\w.+~-]+ -k ([\w.+-]+)['`]* exited"
)
"""What dkms and those who run it report of a build whose own log names the error."""

_UNCONFIGURED = later(r"dpkg: error processing package (?P<name>[\w.+-]+)")
_WHILE_FAULTY = later(
    r"busy or unavailable|CUDA(?:_ERROR_| )unknown error|CUDA_ERROR_(?:UNKNOWN|DEVICE_UNAVAILABLE)", re.IGNORECASE
)
"""What programs say while a GPU has a fault that the kernel's log names."""

_OF_KERNEL = {"dmesg", "journalctl", "/var/log/kern.log", "/var/log/dmesg"}
_VARYING = later(r"0x[0-9a-f]+|[0-9a-f]{8,}|\d+")


@detects("detect-unexplained-log")
def unexplained(scene: Scene) -> Iterator[Finding]:
    """Lines that report a failure of the GPU stack and that no row explains, by what they say themselves."""
    found = list(_lines(scene))
    if not found and scene.evidence.pasted:
        found = [line for line in _lines(scene, alone=True) if line.cause and line.cause.sure]
    found.sort(key=lambda line: line.rank)
    if scene.evidence.pasted:  # a text is about one failure: the lines that name its cause stand for the rest
        judged = [line for line in found if line.cause]
        found = [line for line in judged if line.cause and line.cause.sure] or judged or found
    told: set[str] = set()
    number = 0
    for line in found:
        if number == MOST:
            return
        says = line.cause.says if line.cause else _unexplained(line)
        fix = "; ".join(_fixes(line)) + sandboxed(line.path)
        # One thing to do is one finding, whichever function or file each of its lines names.
        if not told.isdisjoint(keys := {says, says[:_KIND] + fix} if line.cause else {quoted(line.text)}):
            continue
        told |= keys
        number += 1
        often = f", {line.count} times" if line.count > 1 else ""
        yield Finding(
            message=f"{says}: {quoted(line.text)} ({line.path}{often}{about_host(scene)})",
            fix=fix,
            severity="info",
            reboot=False,
            sources=scene.matrix.addresses(tuple(one for by in (line.cause, line.program) if by for one in by.src)),
            row=line.cause.row if line.cause else "",
            follows=line.cause is None or line.cause.general,
        )


def _unexplained(line: Line) -> str:
    """Which program reports a failure that the facts do not explain."""
    return f"a failure of {line.program.what}" if line.program else "a failure that the facts do not explain"


def _fixes(line: Line) -> Iterator[str]:
    """What to do about the cause, and where it is not sure what the program that wrote the line needs."""
    if line.cause:
        yield line.cause.fix
    foreign = line.cause is not None and line.cause.says.startswith("not the GPU's stack")
    if line.program and not foreign and (line.program.also or not (line.cause and line.cause.sure)):
        yield line.program.fix
    if line.cause is None and line.program is None:
        yield f"read the lines before it in {line.path}; `gpustack verify driver` says whether the GPUs work"


def _lines(scene: Scene, *, alone: bool = False) -> Iterator[Line]:
    """The grave lines of all logs. ``alone``: those of a text that names no GPU, where no row explains one."""
    known = _Known(scene, every=alone)
    whole = scene.evidence.pasted
    if alone and _is_explained(known, whole):
        return
    for path, text in logs(scene):
        found = list(_in_log(scene, known, path, text, whole or text))
        known.told.update((path, line.program) for line in found if line.cause and line.cause.sure)
        found = [line for line in found if not line.follows or (path, line.program) not in known.told]
        telling = [line for line in found if not _AFTER.search(line.text)]
        if any(line.is_vague for line in telling) and _is_told(known, telling, whole or text):
            telling = [line for line in telling if not line.is_vague]
            found = telling
        if scene.evidence.pasted and (any(_is_named(line) for line in telling) or _is_explained(known, whole or text)):
            found, telling = ([line for line in lines if _is_named(line)] for lines in (found, telling))
        # Most logs have no such line, and asking the rows about every line costs as much as the rest of detect.
        if telling or (found and not _is_explained(known, whole or text)):
            yield from telling or found[:1]


def _is_named(line: Line) -> bool:
    """Whether the cause of a line is known by more than the name of an error: next to it the other lines follow."""
    return line.cause is not None and not line.cause.general


def _is_explained(known: "_Known", text: str) -> bool:
    """Whether another finding tells a line of this log."""
    return any(MISSING.search(line) or known.explains(line) for line in text.splitlines())


def _is_told(known: "_Known", telling: list[Line], text: str) -> bool:
    """Whether a line of the driver names its cause: the vague ones near it follow from that."""
    return any("NVRM" in line.text and not line.is_vague for line in telling) or any(
        _JUDGED.search(line) or known.explains(line)
        for line in text.splitlines()
        if "NVRM" in line or "nvidia 0000:" in line or "nvidia-modeset" in line
    )


def _in_log(scene: Scene, known: "_Known", path: str, text: str, whole: str) -> Iterator[Line]:
    """The grave lines of one log, the last first; lines that differ in numbers only are one.

    ``whole`` is all that was said with them, where another line may tell more.
    """
    here = bool(scene.gpus) or scene.environment in {"container", "jetson", "wsl"} or scene.evidence.excerpt
    kinds: dict[str, tuple[str, int]] = {}
    for line in text.splitlines():
        kind = _VARYING.sub("#", quoted(line))
        kinds[kind] = (line, kinds.get(kind, ("", 0))[1] + 1)
    is_stated = may_state(scene, text)
    for line, count in reversed(kinds.values()):
        if not _is_grave(scene, line, is_stated=is_stated):
            continue
        program = writer(scene, path, line)
        own = program is not None and program.own
        if not (own or known.every or STACK.search(line) or (here and _is_ours(scene, line))):
            continue
        if MISSING.search(line) or _JUDGED.search(line) or known.explains(line):
            known.told.add((path, program))
            continue
        if known.precedes(line) or (_WHILE_FAULTY.search(line) and has_fault(scene)):
            continue
        from gpustack.detect.problems.grammar import cause  # noqa: PLC0415 (few hosts have such a line)

        judged = cause(scene, line, inside=side(scene, path) == "inside")
        if judged is not None and any(words in whole for words in judged.unless):
            known.told.add((path, program))
            continue
        if judged is None and program is None and not STACK.search(line):
            continue
        quiet = bool(_QUIET.search(line))
        vague = quiet or bool(_FOLLOWS.search(line)) or _is_kernels(path, line)
        if (judged is not None and (judged.sure or not quiet)) or not vague:
            yield Line(path=path, text=line, count=count, cause=judged, program=program)


def _is_ours(scene: Scene, line: str) -> bool:
    """Whether a line that names no GPU is about one: a display, a build, or an engine that starts no containers."""
    return any(one.search(line) for one in ABOUT) or stated(scene, line) is not None


class _Known:
    """The rows of the facts that describe lines on this host: read with the first grave line, which few hosts have."""

    def __init__(self, scene: Scene, *, every: bool = False) -> None:
        self._scene = scene
        self.every = every
        """Whether lines count that name no GPU."""
        self.told: set[tuple[str, Program | None]] = set()
        """The logs and programs of which a line is explained."""

    @cached_property
    def _rows(self) -> list[LogRow]:
        rows = self._scene.matrix.rows("driver-errors", "service_log", LogRow)
        pasted = self._scene.evidence.pasted
        texts = [pasted] if pasted else [text for _, text in logs(self._scene)]
        return [
            row
            for row in rows
            if (row.mended or is_like(self._scene, row)) and (not row.near or any(stands(row, text) for text in texts))
        ]

    @cached_property
    def _codes(self) -> list[Code]:
        return [code for code in self._scene.matrix.rows("driver-errors", "cuda", Code) if code.code not in OF_PROGRAMS]

    def _has_code(self, line: str) -> bool:
        numbers = numbers_of(line)
        return any(code.is_in(line, numbers) for code in self._codes)

    @cached_property
    def _builds(self) -> list[str]:
        return [path for path in self._scene.evidence.files if path.endswith(("/make.log", ".failed.log"))]

    @cached_property
    def _unbuilt(self) -> set[str]:
        return {log.kernel for log in builds.told(self._scene)}

    @cached_property
    def _halfway(self) -> set[str]:
        return {package.name for package in states.left_halfway(self._scene)}

    def precedes(self, line: str) -> bool:
        """Whether the line reports what follows from a failed build, or a package's state, that is a finding itself."""
        built, package = _UNBUILT.search(line), _UNCONFIGURED.search(line)
        return (
            any(path in line for path in self._builds)
            or (built is not None and next(filter(None, built.groups()), "") in self._unbuilt)
            or (package is not None and package["name"] in self._halfway)
        )

    def explains(self, line: str) -> bool:
        """Whether a row describes the line, so that another finding tells it."""
        folded = line.casefold()
        messages = self._scene.matrix.rows("driver-errors", "kernel_log", KernelRow)
        return (
            any(is_about(row, line, folded) for row in self._rows)
            or (self._has_code(line) and not stated(self._scene, line))
            or any(all(words in line for words in row.wants) for row in messages)
        )


def _is_kernels(path: str, line: str) -> bool:
    """Whether the kernel wrote a line, of whose messages few without a row are failures: those of the driver."""
    return ("kernel:" in line or path in _OF_KERNEL) and "NVRM" not in line


def _is_grave(scene: Scene, line: str, *, is_stated: bool) -> bool:
    """Whether a line reports a failure, by its words or by a row, and not one that healthy hosts report.

    A row that is sure of its message knows more than words that mostly stand in harmless lines.
    """
    if OTHERS.search(line) or (_OF_PROGRAMS.search(line) and not scene.evidence.excerpt):
        return False
    message = stated(scene, line) if is_stated else None
    if message is not None and message.sure:
        return True
    marked = message or resolvers.ABOUT.search(line) or LEVEL.search(line) or GRAVE.search(line)
    return bool(marked) and not HARMLESS.search(line)
