"""Smoke checks of frameworks: each computes on every GPU, in its own interpreter."""

from __future__ import annotations

from functools import partial

from gpustack.model.facts import CHECKED_FRAMEWORKS
from gpustack.verify.declare import Context, Outcome, check
from gpustack.verify.frame import host_facts
from gpustack.verify.frameworks.places import TITLES
from gpustack.verify.frameworks.probe import prove


def _computes(context: Context, component: str) -> Outcome:
    return prove(context, component, "smoke")


for _name in CHECKED_FRAMEWORKS:
    check(
        f"{_name}.compute",
        level="smoke",
        title=f"{TITLES[_name]} computes on every GPU",
        expects=f"{TITLES[_name]} sees every GPU, and products and convolutions have known results.",
        fix="`gpustack detect` lists what is wrong in each environment.",
        needs=(f"{_name}.found",),
        unless=(host_facts.no_gpu,),
        limit_s=300.0,
    )(partial(_computes, component=_name))
