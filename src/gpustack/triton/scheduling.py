"""The rules of a model's schedulers: dynamic and sequence batching, ensembles, instance groups."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from gpustack.triton.pbtxt import Message, first
from gpustack.triton.violation import Violation, fault, is_folder

_CONFIG = "config.pbtxt"
_SCHEDULERS = ("dynamic_batching", "sequence_batching", "ensemble_scheduling")
_NOT_OF_ENSEMBLES = ("instance_group", "optimization", "model_warmup")
_WITHOUT_GPUS = {"KIND_CPU", "KIND_MODEL"}


def check_scheduling(config: Message, repository: Path, kinds: Collection[str], release: str) -> Iterator[Violation]:
    """What is wrong with the schedulers of a model in ``repository``; ``kinds`` are the kinds of instances."""
    given = [name for name in _SCHEDULERS if name in config]
    if len(given) > 1:
        yield fault(_CONFIG, f"{' and '.join(given)} exclude each other", "keep one")
    if "dynamic_batching" in given:
        yield from _batching(config)
    if "ensemble_scheduling" in given or first(config, "platform") == "ensemble":
        yield from _ensemble(config, repository)
    for group in config.get("instance_group", []):
        if isinstance(group, dict):
            yield from _instances(group, kinds, release)


def _batching(config: Message) -> Iterator[Violation]:
    largest = first(config, "max_batch_size") or 0
    if largest == 0:
        yield fault(_CONFIG, "dynamic_batching requires a max_batch_size above 0")
        return
    batching = first(config, "dynamic_batching")
    for size in batching.get("preferred_batch_size", []) if isinstance(batching, dict) else []:
        if not isinstance(size, int) or size < 1:
            yield fault(_CONFIG, f"dynamic_batching: preferred_batch_size {size} is not a number above 0")
        elif isinstance(largest, int) and size > largest:
            yield fault(_CONFIG, f"dynamic_batching: preferred_batch_size {size} exceeds max_batch_size {largest}")


def _ensemble(config: Message, repository: Path) -> Iterator[Violation]:
    platform = first(config, "platform")
    if "ensemble_scheduling" not in config:
        yield fault(_CONFIG, "has platform ensemble, but no ensemble_scheduling", "add its steps")
        return
    if platform != "ensemble":
        yield fault(_CONFIG, f"has ensemble_scheduling, but platform {platform}", 'set platform: "ensemble"')
    for name in _NOT_OF_ENSEMBLES:
        if name in config:
            yield fault(_CONFIG, f"ensembles do not allow {name}", "set it in the models of its steps")
    scheduling = first(config, "ensemble_scheduling")
    steps = [one for one in scheduling.get("step", []) if isinstance(one, dict)] if isinstance(scheduling, dict) else []
    if not steps:
        yield fault(_CONFIG, "ensemble_scheduling has no step")
    written = {str(first(one, "name")) for one in config.get("input", []) if isinstance(one, dict)}
    read: set[str] = set()
    for number, step in enumerate(steps, 1):
        yield from _step(step, number, repository)
        read |= _tensors(step, "input_map")
        written |= _tensors(step, "output_map")
    wanted = {str(first(one, "name")) for one in config.get("output", []) if isinstance(one, dict)}
    for name in sorted((read | wanted) - written) if steps else ():
        yield fault(_CONFIG, f"no input and no step writes the tensor {name} of the ensemble")


def _step(step: Message, number: int, repository: Path) -> Iterator[Violation]:
    name = first(step, "model_name")
    if not name:
        yield fault(_CONFIG, f"step {number} of the ensemble has no model_name")
    elif not is_folder(repository / str(name)):
        yield fault(_CONFIG, f"step {number} of the ensemble requires the model {name}, which is not in the repository")
    for field in ("input_map", "output_map"):
        if field not in step:
            yield fault(_CONFIG, f"step {number} of the ensemble has no {field}")


def _tensors(step: Message, field: str) -> set[str]:
    """The tensors of the ensemble that a step reads or writes."""
    return {str(first(one, "value")) for one in step.get(field, []) if isinstance(one, dict)}


def _instances(group: Message, kinds: Collection[str], release: str) -> Iterator[Violation]:
    kind, count = first(group, "kind"), first(group, "count")
    if kind is not None and kind not in kinds:
        yield fault(_CONFIG, f"instance_group: {kind} is not a kind of Triton {release}")
    if count is not None and (not isinstance(count, int) or count < 1):
        yield fault(_CONFIG, f"instance_group: count is {count}; at least 1 is required")
    if kind in _WITHOUT_GPUS and group.get("gpus"):
        yield fault(_CONFIG, f"instance_group: {kind} does not allow gpus", "remove gpus")
