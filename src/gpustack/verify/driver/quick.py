"""Quick checks of the driver: module, libraries, packages, GPUs. They read the host's snapshot and run nvidia-smi."""

from __future__ import annotations

from gpustack.model.host import Copy, Gpu, Host
from gpustack.model.nvml import DAMAGED_FIX, SUBJECT, NvmlError
from gpustack.system.run import Runner
from gpustack.verify.declare import Context, Outcome, check, errored, failed, needless, passed, skipped
from gpustack.verify.frame import host_facts
from gpustack.verify.frame.commands import describe_end
from gpustack.verify.frame.rules import Part, compute_capability_of, fit, judge_fit, same
from gpustack.versions import is_within

KERNEL_LOG = "check `sudo dmesg` for NVRM and Xid messages"


@check(
    "driver.module",
    title="kernel module loaded",
    expects="NVIDIA's kernel module is loaded, and no other module holds a GPU.",
    fix="Install the driver (`gpustack install driver`) and load it (`sudo modprobe nvidia`).",
    unless=(host_facts.foreign_driver, host_facts.no_gpu),
)
def module(context: Context) -> Outcome:
    host = context.host
    held = tuple(gpu for gpu in host.gpus if gpu.bound in host_facts.FOREIGN_MODULES)
    if held:
        holders = " and ".join(dict.fromkeys(str(gpu.bound) for gpu in held))
        return failed(
            f"{holders} holds {host_facts.names_of(held)}, so NVIDIA's module cannot drive it",
            f"blacklist {holders}, run `{host_facts.rebuild_initramfs(host)}` and reboot",
            expected="GPUs bound to nvidia",
            actual=f"GPUs bound to {holders}",
        )
    if host.module and host.module.loaded:
        flavour = f", {host.module.flavour} flavour" if host.module.flavour else ""
        return passed(f"nvidia {host.module.version or 'of unknown version'} is loaded{flavour}")
    return _not_loaded(context)


def _not_loaded(context: Context) -> Outcome:
    host = context.host
    if host.environment == "container":
        return failed(
            "NVIDIA's kernel module is not loaded on the container's host",
            "install the driver on the host, not in the container",
        )
    version = host_facts.package_version(host) or host_facts.driver_version(host)
    if version is None:
        return failed(
            f"no NVIDIA driver is installed for {host_facts.names_of(host_facts.own_gpus(host))}",
            "`gpustack install driver`",
        )
    refused = next((problem for problem in host.problems if problem.id == "secure_boot_unsigned"), None)
    if refused is not None:
        message = f"driver {version} is installed but its kernel module is not loaded: {refused.message}"
        return failed(message, refused.fix)
    return failed(
        f"driver {version} is installed but its kernel module is not loaded",
        "`sudo modprobe nvidia`; if the module does not exist, it was not built for this kernel: see `dkms status`",
        detail=_about_kernel(context, version),
    )


def _about_kernel(context: Context, version: str) -> str:
    """Why this driver is not compatible with the running kernel; "" where nothing is known against it."""
    kernel = host_facts.upstream(context.host.kernel)
    if kernel is None:
        return ""
    answer = fit(context, Part("driver", version), Part("kernel", kernel))
    return f"{answer.sentence}; this is kernel {kernel}." if answer.breach or answer.advice else ""


@check(
    "driver.version",
    title="module, libraries and packages have one version",
    expects="The loaded module, the driver libraries and the driver packages all have exactly the same version.",
    fix="Reboot: `sudo reboot`. If the versions still differ, reinstall the driver from one source: `gpustack"
    " install driver`.",
    needs=("driver.module",),
    unless=(host_facts.foreign_driver, host_facts.no_gpu),
)
def versions(context: Context) -> Outcome:
    host = context.host
    loaded = host_facts.module_version(host)
    copy = host_facts.driver_library(host)
    library = host_facts.upstream(copy.version) if copy else None
    # Packages in a container are not those of its host.
    package = host_facts.package_version(host) if host.environment != "container" else None
    if loaded is None or (library is None and package is None):
        return skipped("fewer than two of the module, library and package versions are known")
    if (library is None or same(loaded, library)) and (package is None or same(loaded, package)):
        return passed(f"{loaded} throughout", actual=loaded)
    actual = f"module {loaded}, library {library or 'unknown'}, packages {package or 'unknown'}"
    if host.environment == "container":
        return failed(
            f"the host's kernel module is {loaded}, but the container has driver libraries {library}",
            "remove driver packages from the image and restart the container; the libraries come from the host",
            actual=actual,
        )
    return _apart(loaded, copy, package, actual)


_OWNER = " (find its package with `dpkg -S` or `rpm -qf`; remove a runfile installation with `sudo nvidia-uninstall`)"


def _apart(loaded: str, copy: Copy | None, package: str | None, actual: str) -> Outcome:
    """Which of the three differs, and whether a reboot fixes it."""
    library = host_facts.upstream(copy.version) if copy else None
    if copy and package and not same(library, package):
        return failed(
            f"programs load {host_facts.describe_copy(copy)}, but the driver packages are {package} and the module"
            f" {loaded}",
            f"a reboot does not fix this: remove the other installation, which {copy.path} belongs to{_OWNER}",
            actual=actual,
        )
    if copy and library and package is None and is_within(library, f"<{loaded}"):
        return failed(
            f"the loaded kernel module is {loaded}, but programs load an older library:"
            f" {host_facts.describe_copy(copy)}",
            f"after a downgrade, reboot; otherwise remove the installation that {copy.path} belongs to{_OWNER}",
            actual=actual,
        )
    return failed(
        f"the loaded kernel module is {loaded}, but the installed driver is {package or library}:"
        " the driver was upgraded without a reboot",
        "reboot: `sudo reboot`",
        detail=f"Module {package or library} must be built for the kernel that boots next (`dkms status`).",
        actual=actual,
    )


@check(
    "driver.nvml",
    title="NVML responds",
    expects="NVML, the management library, loads and lists the GPUs.",
    fix="Reinstall the driver, so that libnvidia-ml.so.1 matches the module: `gpustack install driver`, then reboot.",
    needs=("driver.module", "driver.version"),
    unless=(host_facts.no_gpu,),
)
def nvml(context: Context) -> Outcome:
    host = context.host
    if host.environment == "jetson":
        return needless("Jetson boards before JetPack 6 have no NVML; use tegrastats instead")
    seen = tuple(gpu for gpu in host.gpus if gpu.uuid)
    if seen:
        return passed(f"NVML lists {len(seen)} GPU{'s' if len(seen) > 1 else ''}")
    if context.runner is None:
        return skipped("the saved host has no data from NVML, and NVML cannot run on another machine")
    return _by_smi(context, context.runner)


def _by_smi(context: Context, runner: Runner) -> Outcome:
    """What nvidia-smi, which uses NVML, reports."""
    finished = runner.run(("nvidia-smi", "-L"), timeout=8.0)
    said = [line for line in f"{finished.err}\n{finished.out}".splitlines() if line.strip()]
    evidence = {"nvidia-smi -L": finished.out + finished.err}
    listed = sum(line.startswith("GPU ") for line in said)
    if finished.code == 0 and listed:
        return passed(f"nvidia-smi lists {listed} GPU{'s' if listed > 1 else ''}", evidence=evidence)
    if finished.code is None and "is not installed" in finished.error:
        return _no_nvml(context.host)
    if finished.code is None:
        return errored(f"nvidia-smi: {finished.error}", KERNEL_LOG)
    if finished.code < 0:
        return failed(
            f"nvidia-smi {describe_end(finished)}: the driver's libraries are damaged",
            DAMAGED_FIX,
            evidence=evidence,
        )
    words = said[0] if said else f"exit code {finished.code} and no message"
    meaning = next((row for row in context.matrix.rows(SUBJECT, "nvml", NvmlError) if row.is_said(words)), None)
    cause, fix = (f": {meaning.cause}", meaning.fix) if meaning else ("", KERNEL_LOG)
    return failed(f"nvidia-smi fails: {words}{cause}", fix, evidence=evidence)


def _no_nvml(host: Host) -> Outcome:
    if host.environment == "container":
        return failed(
            "the driver's management library (libnvidia-ml.so.1, nvidia-smi) is not available in this container",
            "start it with `--gpus all` and `utility` in NVIDIA_DRIVER_CAPABILITIES",
        )
    return failed(
        "the kernel module is loaded, but neither NVML nor nvidia-smi is installed",
        "install the driver's libraries and tools: `gpustack install driver`",
    )


@check(
    "driver.gpus",
    title="driver lists every GPU",
    expects="The driver lists every NVIDIA GPU on the PCI bus.",
    fix="Check the kernel log (`sudo dmesg`) for the GPU's bus address.",
    needs=("driver.nvml",),
    unless=(host_facts.no_gpu,),
)
def gpus(context: Context) -> Outcome:
    host = context.host
    if host.environment == "wsl":
        return needless("in WSL the GPUs are not on the PCI bus")
    own = host_facts.own_gpus(host)
    seen = tuple(gpu for gpu in own if gpu.uuid)
    missing = tuple(gpu for gpu in own if not gpu.uuid)
    if not seen:
        return skipped("the host's snapshot has no list of GPUs from the driver to compare with the PCI bus")
    if missing and host.environment == "container":
        return needless(f"the container has {len(seen)} of its host's {len(own)} GPUs")
    if missing:
        return failed(
            f"{len(seen)} of {len(own)} GPUs are usable; the driver does not list {host_facts.names_of(missing)}",
            "check `sudo dmesg` for RmInitAdapter and Xid messages at that address; a GPU that fell off the bus"
            " requires"
            " a power cycle; if it never started, check Above 4G Decoding in the firmware settings",
            expected=f"{len(own)} GPUs",
            actual=f"{len(seen)} GPUs",
        )
    return passed(", ".join(host_facts.name_of(gpu) for gpu in seen))


@check(
    "driver.flavour",
    title="kernel module flavour supports the GPUs",
    expects="The flavour of the kernel module (open or proprietary) supports every GPU.",
    fix="`gpustack install driver --kernel-module open` (or `proprietary`), whichever the GPU supports; then reboot.",
    needs=("driver.module",),
    unless=(host_facts.foreign_driver, host_facts.no_gpu),
)
def flavour(context: Context) -> Outcome:
    host = context.host
    own = host.module.flavour if host.module else None
    version = host_facts.module_version(host)
    if own is None or version is None:
        return skipped("whether the loaded module is open or proprietary is unknown")
    wrong = {"open": "impossible", "proprietary": "required"}[own]
    misfits = tuple(gpu for gpu in host_facts.own_gpus(host) if gpu.open_module == wrong)
    if misfits:
        why = "has no GSP, which the open module requires" if own == "open" else "requires the open module"
        return failed(
            f"the {own} module is loaded, but {_each(misfits)} {why}",
            f"`gpustack install driver --kernel-module {'proprietary' if own == 'open' else 'open'}`",
            expected="proprietary module" if own == "open" else "open module",
            actual=f"{own} module",
        )
    from gpustack.verify.driver.flavours import flavour_facts  # noqa: PLC0415 (imports the solver; a host without GPU does not need it)

    facts = [(gpu, flavour_facts(context.matrix, version, own, gpu)) for gpu in host_facts.own_gpus(host)]
    impossible = [(gpu, fact) for gpu, found in facts for fact in found if fact.verdict == "impossible"]
    if impossible:
        gpu, fact = impossible[0]
        return failed(
            f"the {own} module does not support {host_facts.name_of(gpu)}: {fact.text}", "`gpustack install driver`"
        )
    if any(gpu.open_module is None for gpu in host_facts.own_gpus(host)):
        return skipped("which flavour of the kernel module a GPU requires is unknown")
    return passed(
        "; ".join((f"{own} module", *(f"{host_facts.name_of(gpu)}: {f.text}" for gpu, found in facts for f in found)))
    )


def _each(gpus: tuple[Gpu, ...]) -> str:
    return host_facts.names_of(gpus) if len(gpus) == 1 else f"each of {host_facts.names_of(gpus)}"


@check(
    "driver.supports-gpu",
    title="driver supports the GPUs",
    expects="The driver's branch supports every GPU: it is not older than the first branch for the GPU, nor newer than"
    " the last.",
    fix="Install a driver of a branch that supports the GPU: `gpustack install driver`.",
    unless=(host_facts.no_gpu, host_facts.not_counted),
)
def supports_gpu(context: Context) -> Outcome:
    host = context.host
    version = host_facts.driver_version(host)
    if version is None:
        return skipped("no driver was found", "`gpustack install driver`")
    own, unknown = Part("driver", version), []
    for gpu in host_facts.own_gpus(host):
        outside = _outside_branches(gpu, version)
        if outside:
            return outside
        part = compute_capability_of(gpu)
        answer = judge_fit(context, own, part, fix="`gpustack install driver`") if part else None
        if answer and answer.status == "fail":
            return answer
        if not gpu.driver_first and not (answer and answer.status == "pass"):
            unknown.append(host_facts.name_of(gpu))
    if unknown:
        return skipped(f"compatibility of {own} with {', '.join(unknown)} is unknown")
    return passed(f"{own} supports {host_facts.names_of(host_facts.own_gpus(host))}")


def _outside_branches(gpu: Gpu, version: str) -> Outcome | None:
    """A failure where the driver is newer than the GPU's last branch or older than its first."""
    if gpu.driver_last and not is_within(version, _until(gpu.driver_last)):
        return failed(
            f"driver {version} does not support {host_facts.name_of(gpu)}: {gpu.driver_last} is its last branch",
            f"`gpustack install 'driver{_until(gpu.driver_last)}'`",
            expected=f"branch {gpu.driver_last} or older",
            actual=version,
        )
    if gpu.driver_first and not is_within(version, f">={gpu.driver_first}"):
        return failed(
            f"driver {version} is too old for {host_facts.name_of(gpu)}, which requires {gpu.driver_first} or newer",
            f"`gpustack install 'driver>={gpu.driver_first}'`",
            expected=f"{gpu.driver_first} or newer",
            actual=version,
        )
    return None


def _until(last: str) -> str:
    """The range up to a last branch ("470" includes all of 470.x) or a last version."""
    return f"<{int(last) + 1}" if last.isdigit() else f"<={last}"


def _no_fabric(host: Host) -> Outcome | None:
    on_switch = tuple(gpu for gpu in host_facts.own_gpus(host) if gpu.fabric == "nvswitch")
    if not on_switch and not host.nvswitches:
        return needless("no GPU requires Fabric Manager")
    if host.environment == "container":
        return needless("Fabric Manager runs on the container's host")
    if len(on_switch) == 1 and host.nvswitches == 0:
        return needless(f"no NVSwitch is visible, and {host_facts.name_of(on_switch[0])} is the only GPU")
    return None


@check(
    "driver.fabric-manager",
    title="Fabric Manager matches the driver",
    expects="On NVSwitch systems, Fabric Manager is installed and matches the driver version exactly.",
    fix="Install Fabric Manager in the driver's exact version: `gpustack install fabric-manager`.",
    unless=(host_facts.foreign_driver, host_facts.no_gpu, _no_fabric),
)
def fabric_manager(context: Context) -> Outcome:
    host = context.host
    on_switch = tuple(gpu for gpu in host_facts.own_gpus(host) if gpu.fabric == "nvswitch")
    installed = host_facts.installed_version(host, "fabric-manager")
    version = host_facts.driver_version(host)
    if version is None:
        return skipped("no driver was found", "`gpustack install driver`")
    if installed is None and not host.nvswitches:
        return skipped(
            f"cannot tell whether {host_facts.names_of(on_switch)} is attached to NVSwitches (some baseboards do not"
            " expose them as PCI devices), and Fabric Manager is not installed",
            f"on an NVSwitch baseboard: `gpustack install 'fabric-manager=={version}'`",
        )
    if installed is None:
        return failed(
            f"{host.nvswitches} NVSwitch{'es' if host.nvswitches != 1 else ''} found, but Fabric Manager is not"
            " installed:"
            " CUDA fails with error 802 (system not yet initialized)",
            f"`gpustack install 'fabric-manager=={version}'`, then `sudo systemctl enable --now nvidia-fabricmanager`",
            expected=f"Fabric Manager {version}",
            actual="not installed",
        )
    if not same(installed, version):
        return failed(
            f"Fabric Manager {installed} does not match driver {version}: it does not start, and CUDA fails with error"
            " 802 (system not yet initialized)",
            f"`gpustack install 'fabric-manager=={version}'`, from the driver's repository",
            expected=f"Fabric Manager {version}",
            actual=f"Fabric Manager {installed}",
        )
    return passed(f"Fabric Manager {installed} matches the driver")


@check(
    "driver.persistence",
    title="persistence (advice)",
    expects="The driver stays initialized while no program uses a GPU.",
    fix="`sudo systemctl enable --now nvidia-persistenced`",
    needs=("driver.nvml",),
    unless=(host_facts.foreign_driver, host_facts.no_gpu, host_facts.in_container),
)
def persistence(context: Context) -> Outcome:
    if context.runner is None:
        return needless("persistence mode can only be read on the running machine")
    command = ("nvidia-smi", "--query-gpu=index,persistence_mode", "--format=csv,noheader")
    finished = context.runner.run(command, timeout=8.0)
    if finished.code != 0:
        said = (finished.error or finished.out or finished.err).strip().partition("\n")[0]
        return needless(f"nvidia-smi did not report persistence mode: {said}")
    modes = dict(line.split(", ", 1) for line in finished.out.splitlines() if ", " in line)
    off = [index for index, mode in modes.items() if mode.strip() == "Disabled"]
    if off:
        return needless(
            f"persistence mode is off on GPU {', '.join(off)}: the first program after idle time waits for the GPU to"
            " start",
            "`sudo systemctl enable --now nvidia-persistenced`",
        )
    if not modes:
        return needless("nvidia-smi listed no GPU")
    return passed(f"on for {len(modes)} GPU{'s' if len(modes) > 1 else ''}")
