"""A host as lines for people."""

from __future__ import annotations

from collections.abc import Iterator

from gpustack.model.host import Gpu, Host, Problem


def lines(host: Host) -> list[str]:
    """The host as plain lines: system, GPUs, installed components, problems."""
    return [
        *_system(host),
        *_gpus(host),
        *_installed(host),
        *_environments(host),
        *_repositories(host),
        *_problems(host),
    ]


def _system(host: Host) -> Iterator[str]:
    os = host.os.name or (host.os.spelled if host.os.id else "unknown")
    ends = f" (end of life {host.os.eol})" if host.os.eol else ""
    if host.name:
        yield f"host         {host.name}"
    yield f"system       {os}{ends}"
    yield f"machine      {host.arch or 'unknown'}, {host.environment or 'unknown environment'}"
    if host.kernel or host.next_kernel:
        after = f"; boots next: {host.next_kernel}" if host.next_kernel and host.next_kernel != host.kernel else ""
        yield f"kernel       {host.kernel or 'none running'}{after}"
    if host.secure_boot is not None:
        yield f"secure boot  {'on' if host.secure_boot else 'off'}"


def _gpus(host: Host) -> Iterator[str]:
    if not host.gpus:
        blind = host.looked is not None and "PCI bus" not in host.looked.at
        yield f"gpus         {'unknown: the bus was not seen' if blind else 'none found'}"
    for number, gpu in enumerate(host.gpus):
        yield f"{'gpus' if number == 0 else '':12} {_gpu(gpu)}"
    if host.nvswitches:
        yield f"nvswitches   {host.nvswitches}"


def _gpu(gpu: Gpu) -> str:
    parts = [gpu.called]
    if gpu.compute_capability:
        parts.append(f"compute capability {gpu.compute_capability}")
    if gpu.memory_mib:
        parts.append(f"{gpu.memory_mib} MiB")
    if gpu.nvenc is not None:
        parts.append("no NVENC" if gpu.nvenc == 0 else f"{gpu.nvenc} NVENC")
    if gpu.bus_id:
        parts.append(f"at {gpu.bus_id}")
    if gpu.bound:
        parts.append(f"held by {gpu.bound}")
    return ", ".join(parts)


def _installed(host: Host) -> Iterator[str]:
    if not host.installed:
        yield "installed    nothing of NVIDIA's stack"
    for number, (component, entry) in enumerate(host.installed.items()):
        origin = f" ({entry.origin})" if entry.origin else ""
        how = f", {entry.method}{origin}" if entry.method and entry.method != "unknown" else origin
        path = f", {entry.path}" if entry.path else ""
        yield f"{'installed' if number == 0 else '':12} {component} {entry.version or 'of unknown version'}{how}{path}"
    if host.module is not None and host.module.flavour:
        state = "loaded" if host.module.loaded else "installed"
        yield f"module       {host.module.version or 'unknown version'}, {host.module.flavour}, {state}"


def _environments(host: Host) -> Iterator[str]:
    for one in host.environments or ():
        what = ", ".join(f"{name} {version}" for name, version in one.packages.items() if not name.startswith("nvidia"))
        python = f" (Python {one.python})" if one.python else ""
        yield f"{'environment':12} {one.path}{python}: {what or 'libraries of NVIDIA'}"


def _repositories(host: Host) -> Iterator[str]:
    for number, entry in enumerate(entry for entry in host.repositories if entry.enabled):
        yield f"{'repositories' if number == 0 else '':12} {entry.url} ({entry.path})"
    for title, values in (("holds", host.holds), ("pins", host.pins), ("streams", host.streams)):
        if values:
            yield f"{title:12} {', '.join(values)}"
    if host.reboot_pending:
        yield "reboot       pending"


def _problems(host: Host) -> Iterator[str]:
    yield ""
    if not host.problems:
        blind = host.looked is not None and not host.looked.at
        yield "nothing could be read here, so no problem could be found" if blind else "no problems found"
        yield from _looked(host)
        return
    yield f"problems     {len(host.problems)}"
    for problem in host.problems:
        yield from _problem(problem)
    yield from _looked(host)


def _looked(host: Host) -> Iterator[str]:
    """Where problems were looked for, in one line: what was not looked at can hide one."""
    if host.looked is not None:
        unseen = ", ".join(f"{one.what} ({one.why})" for one in host.looked.not_at)
        seen = f"looked at: {', '.join(host.looked.at)}" if host.looked.at else ""
        yield "; ".join(filter(None, (seen, f"not looked at: {unseen}" if unseen else "")))


def _problem(problem: Problem) -> Iterator[str]:
    mark = {"block": "!", "warn": "~", "info": "."}[problem.severity]
    yield f"{mark} {problem.message}  [{problem.id}]"
    if problem.fix:
        reboot = " (needs a reboot)" if problem.reboot and "reboot" not in problem.fix else ""
        yield f"  fix: {problem.fix}{reboot}"
