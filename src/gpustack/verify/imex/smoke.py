"""Smoke checks of IMEX: a channel that programs open, and the state of the domain."""

from __future__ import annotations

import re

from gpustack.verify.declare import Context, Outcome, check, errored, failed, passed
from gpustack.verify.frame import host_facts
from gpustack.verify.frame.commands import evidence_of, first_line
from gpustack.verify.imex.quick import no_imex

CHANNELS = "/dev/nvidia-caps-imex-channels"
_STATE = re.compile(r"Domain State:\s*(\w+)")
_NODE = re.compile(r"^Node #\d+\s+-\s+(\S+)\s+-\s+(\w+)", re.MULTILINE)
_START = "`sudo systemctl start nvidia-imex`; its log: /var/log/nvidia-imex.log"


@check(
    "imex.channel",
    level="smoke",
    title="a channel for programs",
    expects=f"{CHANNELS} has a channel, which programs open to share memory between machines.",
    fix="`options nvidia NVreg_CreateImexChannel0=1` in /etc/modprobe.d, then reboot: `gpustack plan imex` writes it.",
    needs=("imex.found", "driver.module"),
    unless=(no_imex, host_facts.no_gpu),
)
def channel(context: Context) -> Outcome:
    end = context.run("ls", CHANNELS, timeout=5.0)
    names = [word for word in end.out.split() if word.startswith("channel")]
    evidence = evidence_of(end, work=context.work)
    if end.code is None:
        return errored(f"ls: {end.error}", evidence=evidence)
    if not names:
        return failed(f"{CHANNELS} has no channel: programs get CUDA_ERROR_NOT_PERMITTED", evidence=evidence)
    return passed(", ".join(names[:8]), evidence=evidence)


@check(
    "imex.domain",
    level="smoke",
    title="the domain is up",
    expects="The service runs on every machine of the domain, and all of them are connected.",
    fix=_START,
    needs=("imex.found", "driver.module"),
    unless=(no_imex, host_facts.no_gpu),
    limit_s=60.0,
)
def domain(context: Context) -> Outcome:
    end = context.run("nvidia-imex-ctl", "-N", timeout=50.0)
    evidence = evidence_of(end, work=context.work)
    if end.code is None:
        return errored(f"nvidia-imex-ctl: {end.error}", evidence=evidence)
    state, nodes = _STATE.search(end.out), _NODE.findall(end.out)
    if state is None:
        return failed(f"nvidia-imex-ctl names no state of the domain: {first_line(end)}", _START, evidence=evidence)
    waiting = [f"{address} {word}" for address, word in nodes if word != "READY"]
    if state[1] != "UP" or waiting:
        others = f": {', '.join(waiting[:8])}" if waiting else ""
        return failed(
            f"the domain is {state[1]}{others}",
            "start nvidia-imex on these machines; each lists all of them in /etc/nvidia-imex/nodes_config.cfg",
            evidence=evidence,
        )
    return passed(f"{len(nodes)} machine{'' if len(nodes) == 1 else 's'} ready, the domain is UP", evidence=evidence)
