"""Quick checks of the driver: module, libraries, packages, GPUs. They read the host's snapshot and ask nvidia-smi."""

from __future__ import annotations

from gpustack.model.host import Copy, Gpu, Host
from gpustack.system.run import Runner
from gpustack.verify.declare import Context, Outcome, check, errored, failed, needless, passed, skipped
from gpustack.verify.frame import host_facts
from gpustack.verify.frame.rules import Fit, Part, fit, of_gpu, same
from gpustack.versions import is_within

KERNEL_LOG = "look at `sudo dmesg` for NVRM and Xid lines"


@check(
    "driver.module",
    title="kernel module loaded",
    expects="NVIDIA's kernel module is loaded and no other module holds a GPU.",
    mends="Install the driver (`gpustack install driver`) and load it (`sudo modprobe nvidia`).",
    unless=(host_facts.foreign_driver, host_facts.no_gpu),
)
def module(context: Context) -> Outcome:
    host = context.host
    held = tuple(gpu for gpu in host.gpus if gpu.bound in host_facts.FOREIGN_MODULES)
    if held:
        holders = " and ".join(dict.fromkeys(str(gpu.bound) for gpu in held))
        return failed(
            f"{holders} holds {host_facts.names_of(held)}, so NVIDIA's module cannot drive it",
            f"keep {holders} from loading (a blacklist file), run `{host_facts.rebuild_initramfs(host)}` and reboot",
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
            "NVIDIA's kernel module is not loaded on the machine that runs this container",
            "install the driver on that machine, not in the container",
        )
    version = host_facts.package_version(host) or host_facts.driver_version(host)
    if version is None:
        return failed(
            f"no NVIDIA driver is installed for {host_facts.names_of(host_facts.own_gpus(host))}",
            "`gpustack install driver`",
        )
    if host.secure_boot and not (host.module and host.module.signer):
        return failed(
            f"driver {version} is installed but its kernel module is not loaded; Secure Boot is on and the module"
            " carries no known signature",
            "install signed modules, or enrol the key that signs them (`sudo mokutil --import KEY`) and reboot",
        )
    return failed(
        f"driver {version} is installed but its kernel module is not loaded",
        "`sudo modprobe nvidia`; if there is no such module, it was not built for this kernel: `dkms status`",
        detail=_about_kernel(context, version),
    )


def _about_kernel(context: Context, version: str) -> str:
    """What is known of this driver on the running kernel, where that is bad; else ""."""
    kernel = host_facts.upstream(context.host.kernel)
    if kernel is None:
        return ""
    answer = fit(context.matrix, context.host, Part("driver", version), Part("kernel", kernel))
    return f"{answer.sentence(f'driver {version}')}; this is kernel {kernel}." if answer.breach or answer.advice else ""


@check(
    "driver.version",
    title="module, libraries and packages of one version",
    expects="The loaded module, the driver libraries and the driver packages have one version, to the last number.",
    mends="`sudo reboot`; if they still differ, reinstall the driver from one origin: `gpustack install driver`.",
    needs=("driver.module",),
    unless=(host_facts.foreign_driver, host_facts.no_gpu),
)
def versions(context: Context) -> Outcome:
    host = context.host
    loaded = host_facts.module_version(host)
    copy = host_facts.driver_library(host)
    library = host_facts.upstream(copy.version) if copy else None
    # What a container holds as packages is not what its host runs.
    package = host_facts.package_version(host) if host.environment != "container" else None
    if loaded is None or (library is None and package is None):
        return skipped("fewer than two of module, library and package versions are known")
    if (library is None or same(loaded, library)) and (package is None or same(loaded, package)):
        return passed(f"{loaded} throughout", actual=loaded)
    actual = f"module {loaded}, library {library or 'not known'}, packages {package or 'not known'}"
    if host.environment == "container":
        return failed(
            f"the host's kernel module is {loaded}, but the container has driver libraries {library}",
            "remove driver packages from the image and start the container anew; the libraries come from the host",
            actual=actual,
        )
    return _apart(loaded, copy, package, actual)


_OWNER = " (`dpkg -S` or `rpm -qf` names its package; a runfile's goes with `sudo nvidia-uninstall`)"


def _apart(loaded: str, copy: Copy | None, package: str | None, actual: str) -> Outcome:
    """Which of the three is the odd one, and whether a reboot cures it."""
    library = host_facts.upstream(copy.version) if copy else None
    if copy and package and not same(library, package):
        return failed(
            f"programs load {host_facts.told_by(copy)}, but the driver packages are {package} and the module {loaded}",
            f"a reboot does not cure this: remove the other installation that {copy.path} belongs to{_OWNER}",
            actual=actual,
        )
    if copy and library and package is None and is_within(library, f"<{loaded}"):
        return failed(
            f"the loaded kernel module is {loaded}, but programs load an older library: {host_facts.told_by(copy)}",
            f"after a downgrade a reboot cures this; if there was none, remove the installation that {copy.path}"
            f" belongs to{_OWNER}",
            actual=actual,
        )
    return failed(
        f"the loaded kernel module is {loaded}, but the installed driver is {package or library}:"
        " it was replaced under the module",
        "a reboot cures this: `sudo reboot`",
        detail=f"A module of {package or library} has to be built for the kernel that boots next (`dkms status`).",
        actual=actual,
    )


@check(
    "driver.nvml",
    title="NVML answers",
    expects="The management library opens and lists the GPUs.",
    mends="Reinstall the driver, so that libnvidia-ml.so.1 fits the module: `gpustack install driver`, then reboot.",
    needs=("driver.module", "driver.version"),
    unless=(host_facts.no_gpu,),
)
def nvml(context: Context) -> Outcome:
    host = context.host
    if host.environment == "jetson":
        return needless("Jetson boards of before JetPack 6 have no NVML; tegrastats takes its place")
    seen = tuple(gpu for gpu in host.gpus if gpu.uuid)
    if seen:
        return passed(f"it lists {len(seen)} GPU{'s' if len(seen) > 1 else ''}")
    if context.runner is None:
        return skipped("the saved host holds no answer of NVML, and this is not that machine")
    return _by_smi(context.runner, host)


def _by_smi(runner: Runner, host: Host) -> Outcome:
    """What nvidia-smi, which stands on NVML, answers."""
    finished = runner.run(("nvidia-smi", "-L"), timeout=8.0)
    said = (finished.out.strip() or finished.err.strip()).splitlines()
    evidence = {"nvidia-smi -L": finished.out + finished.err}
    listed = sum(line.startswith("GPU ") for line in said)
    if finished.code == 0 and listed:
        return passed(f"nvidia-smi lists {listed} GPU{'s' if listed > 1 else ''}", evidence=evidence)
    if finished.code is None and "is not installed" in finished.error:
        return _no_nvml(host)
    if finished.code is None:
        return errored(f"nvidia-smi: {finished.error}", KERNEL_LOG)
    return failed(f"nvidia-smi says: {said[0] if said else 'nothing'}", KERNEL_LOG, evidence=evidence)


def _no_nvml(host: Host) -> Outcome:
    if host.environment == "container":
        return failed(
            "the container was not given the driver's management library (libnvidia-ml.so.1, nvidia-smi)",
            "start it with `--gpus all` and NVIDIA_DRIVER_CAPABILITIES holding `utility`",
        )
    return failed(
        "neither NVML nor nvidia-smi is installed, though the kernel module is loaded",
        "install the driver's libraries and tools: `gpustack install driver`",
    )


@check(
    "driver.gpus",
    title="every GPU on the bus is usable",
    expects="Every NVIDIA GPU on the PCI bus is listed by the driver.",
    mends="Look at the kernel log (`sudo dmesg`) for the GPU's bus address.",
    needs=("driver.nvml",),
    unless=(host_facts.no_gpu,),
)
def gpus(context: Context) -> Outcome:
    host = context.host
    if host.environment == "wsl":
        return needless("inside WSL the GPUs are not on the PCI bus")
    own = host_facts.own_gpus(host)
    seen = tuple(gpu for gpu in own if gpu.uuid)
    missing = tuple(gpu for gpu in own if not gpu.uuid)
    if not seen:
        return skipped("the host's snapshot holds no list of the driver's own to compare the PCI bus with")
    if missing and host.environment == "container":
        return needless(f"the container was given {len(seen)} of the {len(own)} GPUs of its host")
    if missing:
        return failed(
            f"{len(seen)} of {len(own)} GPUs are usable; the driver does not list {host_facts.names_of(missing)}",
            "look for RmInitAdapter and Xid lines at that address in `sudo dmesg`; a GPU that fell off the bus needs a"
            " cold start, one that never came up a look at Above 4G Decoding in the firmware",
            expected=f"{len(own)} GPUs",
            actual=f"{len(seen)} GPUs",
        )
    return passed(", ".join(host_facts.name_of(gpu) for gpu in seen))


@check(
    "driver.flavour",
    title="open or proprietary module fits the GPUs",
    expects="The module's flavour can drive every GPU.",
    mends="`gpustack install driver --kernel-module open`, or `proprietary`, whichever the GPU takes; then reboot.",
    needs=("driver.module",),
    unless=(host_facts.foreign_driver, host_facts.no_gpu),
)
def flavour(context: Context) -> Outcome:
    host = context.host
    own = host.module.flavour if host.module else None
    version = host_facts.module_version(host)
    if own is None or version is None:
        return skipped("it is not known whether the loaded module is open or proprietary")
    wrong = {"open": "impossible", "proprietary": "required"}[own]
    misfits = tuple(gpu for gpu in host_facts.own_gpus(host) if gpu.open_module == wrong)
    if misfits:
        why = "has no GSP, which the open module needs" if own == "open" else "is driven by the open module only"
        return failed(
            f"the {own} module is loaded, but {_each(misfits)} {why}",
            f"`gpustack install driver --kernel-module {'proprietary' if own == 'open' else 'open'}`",
            expected="proprietary module" if own == "open" else "open module",
            actual=f"{own} module",
        )
    from gpustack.verify.driver.flavours import flavour_facts  # noqa: PLC0415 (the solver's; a host without GPU has no need)

    facts = [(gpu, flavour_facts(context.matrix, version, own, gpu)) for gpu in host_facts.own_gpus(host)]
    impossible = [(gpu, fact) for gpu, found in facts for fact in found if fact.verdict == "impossible"]
    if impossible:
        gpu, fact = impossible[0]
        return failed(
            f"the {own} module does not drive {host_facts.name_of(gpu)}: {fact.text}", "`gpustack install driver`"
        )
    if any(gpu.open_module is None for gpu in host_facts.own_gpus(host)):
        return skipped("for a GPU here it is not known which flavour it needs")
    return passed(
        "; ".join((f"{own} module", *(f"{host_facts.name_of(gpu)}: {f.text}" for gpu, found in facts for f in found)))
    )


def _each(gpus: tuple[Gpu, ...]) -> str:
    return host_facts.names_of(gpus) if len(gpus) == 1 else f"each of {host_facts.names_of(gpus)}"


def _by_rule(context: Context, gpu: Gpu, version: str) -> Fit | None:
    """How this GPU goes with this driver by the rules; None where its compute capability is not known."""
    if not gpu.compute_capability:
        return None
    capability = Part("compute-capability", gpu.compute_capability)
    return fit(context.matrix, of_gpu(context.host, gpu), Part("driver", version), capability)


@check(
    "driver.supports-gpu",
    title="the driver knows the GPUs",
    expects="The driver's branch supports every GPU: not too old for it, and not past its last branch.",
    mends="Install a driver of a branch that supports the GPU: `gpustack install driver`.",
    unless=(host_facts.no_gpu, host_facts.not_counted),
)
def supports_gpu(context: Context) -> Outcome:
    host = context.host
    version = host_facts.driver_version(host)
    if version is None:
        return skipped("no driver was found", "`gpustack install driver`")
    unknown = []
    for gpu in host_facts.own_gpus(host):
        outside = _outside_branches(gpu, version)
        if outside:
            return outside
        answer = _by_rule(context, gpu, version)
        if answer and answer.breach:
            said = answer.sentence(f"driver {version}")
            return failed(
                f"driver {version} does not drive {host_facts.name_of(gpu)}: {said}", "`gpustack install driver`"
            )
        if not gpu.driver_first and not (answer and answer.covered):
            unknown.append(host_facts.name_of(gpu))
    if unknown:
        return skipped(f"no fact tells whether driver {version} drives {', '.join(unknown)}")
    return passed(f"driver {version} drives {host_facts.names_of(host_facts.own_gpus(host))}")


def _outside_branches(gpu: Gpu, version: str) -> Outcome | None:
    """A failure where the driver is past the GPU's last branch or before its first."""
    if gpu.driver_last and not is_within(version, _until(gpu.driver_last)):
        return failed(
            f"driver {version} does not drive {host_facts.name_of(gpu)}:"
            f" {gpu.driver_last} is the last branch that does",
            f"`gpustack install 'driver{_until(gpu.driver_last)}'`",
            expected=f"branch {gpu.driver_last} or older",
            actual=version,
        )
    if gpu.driver_first and not is_within(version, f">={gpu.driver_first}"):
        return failed(
            f"driver {version} is too old for {host_facts.name_of(gpu)}:"
            f" {gpu.driver_first} is the first that drives it",
            f"`gpustack install 'driver>={gpu.driver_first}'`",
            expected=f"{gpu.driver_first} or newer",
            actual=version,
        )
    return None


def _until(last: str) -> str:
    """The range up to a last branch ("470" takes in all of 470.x) or a last version."""
    return f"<{int(last) + 1}" if last.isdigit() else f"<={last}"


def _no_fabric(host: Host) -> Outcome | None:
    on_switch = tuple(gpu for gpu in host_facts.own_gpus(host) if gpu.fabric == "nvswitch")
    if not on_switch and not host.nvswitches:
        return needless("no GPU here needs a fabric manager")
    if host.environment == "container":
        return needless("the fabric manager runs on the machine below the container, not in it")
    if len(on_switch) == 1 and host.nvswitches == 0:
        return needless(
            f"{host_facts.name_of(on_switch[0])} stands alone here: no NVSwitch is visible, nothing to manage"
        )
    return None


@check(
    "driver.fabric-manager",
    title="fabric manager where the GPUs need it",
    expects="Where GPUs hang on NVSwitches, the fabric manager is installed in the driver's own version.",
    mends="Install the fabric manager of the driver's exact version: `gpustack install fabric-manager`.",
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
            f"whether {_each(on_switch)} sits on NVSwitches is not to be seen here (they are no PCI devices on some"
            " boards), and no fabric manager is installed",
            f"`gpustack install 'fabric-manager=={version}'` on an NVSwitch baseboard",
        )
    if installed is None:
        return failed(
            f"{host.nvswitches} NVSwitch{'es' if host.nvswitches != 1 else ''} and no fabric manager: CUDA will answer"
            " with error 802 (system not yet initialized)",
            f"`gpustack install 'fabric-manager=={version}'`, then `sudo systemctl enable --now nvidia-fabricmanager`",
            expected=f"fabric manager {version}",
            actual="not installed",
        )
    if not same(installed, version):
        return failed(
            f"the fabric manager is {installed}, the driver {version}: it refuses to start unless they are equal, and"
            " CUDA answers with error 802 (system not yet initialized)",
            f"`gpustack install 'fabric-manager=={version}'`, from the origin of the driver",
            expected=f"fabric manager {version}",
            actual=f"fabric manager {installed}",
        )
    return passed(f"fabric manager {installed}, the driver's own version")


@check(
    "driver.persistence",
    title="persistence (advice)",
    expects="The driver stays initialised while no program uses a GPU.",
    mends="`sudo systemctl enable --now nvidia-persistenced`",
    needs=("driver.nvml",),
    unless=(host_facts.foreign_driver, host_facts.no_gpu, host_facts.in_container),
)
def persistence(context: Context) -> Outcome:
    if context.runner is None:
        return needless("persistence can only be asked on the running machine")
    command = ("nvidia-smi", "--query-gpu=index,persistence_mode", "--format=csv,noheader")
    finished = context.runner.run(command, timeout=8.0)
    if finished.code != 0:
        said = (finished.error or finished.out or finished.err).strip().partition("\n")[0]
        return needless(f"nvidia-smi did not tell: {said}")
    modes = dict(line.split(", ", 1) for line in finished.out.splitlines() if ", " in line)
    off = [index for index, mode in modes.items() if mode.strip() == "Disabled"]
    if off:
        return needless(
            f"persistence is off on GPU {', '.join(off)}: the first program after a pause waits for the GPU to start",
            "`sudo systemctl enable --now nvidia-persistenced`",
        )
    if not modes:
        return needless("nvidia-smi named no GPU")
    return passed(f"on for {len(modes)} GPU{'s' if len(modes) > 1 else ''}")
