"""Order, needs, limits, broken checks, requirements and unknown names."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from gpustack.errors import UnsupportedError, UsageError
from gpustack.matrix.index import Matrix
from gpustack.model.facts import CHECKED_FRAMEWORKS
from gpustack.model.host import Host, Installed
from gpustack.model.results import CheckResult
from gpustack.system.run import Finished
from gpustack.verify import declare
from gpustack.verify.declare import COMPONENTS, OF_FEW_HOSTS, Check, Context, Outcome, passed, skipped
from gpustack.verify.frame import runner
from gpustack.verify.frame.commands import LimitedRunner
from gpustack.verify.frame.runner import parse_level, run_checks


def results(context: Context, *components: str, require: tuple[str, ...] = ()) -> dict[str, CheckResult]:
    return {one.id: one for one in run_checks(components, "quick", context, require)}


@pytest.fixture
def context(matrix: Matrix, healthy: Host) -> Context:
    return Context(host=healthy, matrix=matrix)


def on(context: Context, **changes: Any) -> Context:
    return msgspec.structs.replace(context, host=msgspec.structs.replace(context.host, **changes))


def made(identity: str, function: Any, **fields: Any) -> Check:
    component = identity.partition(".")[0]
    return Check(
        id=identity,
        component=component,
        level="quick",
        title=identity,
        expects="it holds",
        fix="mend it",
        function=function,
        **fields,
    )


def run_made(context: Context, *checks: Check) -> list[CheckResult]:
    done: dict[str, CheckResult] = {}
    answer = runner._Answer(context, runner._Required(frozenset(), frozenset()))
    for one in runner._in_order(list(checks)):
        done[one.id] = answer(one, done)
    return list(done.values())


def test_all_components_are_checked_in_order_when_none_is_named(context: Context) -> None:
    found = results(context)
    usual = [name for name in COMPONENTS if name not in OF_FEW_HOSTS]
    assert list(dict.fromkeys(one.component for one in found.values())) == usual
    assert {one.status for one in found.values()} == {"pass", "skip"}


def test_what_few_hosts_have_is_checked_where_it_is_installed(context: Context) -> None:
    own = {**context.host.installed, "gds": Installed(version="12.4.1")}
    found = results(msgspec.structs.replace(context, host=msgspec.structs.replace(context.host, installed=own)))
    assert {one.component for one in found.values()} & OF_FEW_HOSTS == {"gds"}


def test_every_check_says_what_it_expects_and_how_to_mend_it() -> None:
    for component in declare.COMPONENTS:
        for one in declare.checks_of(component):
            assert one.id.startswith(f"{component}.")
            assert one.title
            assert one.expects.endswith(".")
            assert one.fix
            assert all("." in need for need in one.needs)


@pytest.mark.parametrize("component", declare.COMPONENTS)
def test_a_check_is_declared_in_the_folder_of_its_component_and_the_module_of_its_level(component: str) -> None:
    folder = f"gpustack.verify.{component.replace('-', '_')}."
    for one in declare.checks_of(component):
        function = getattr(one.function, "func", one.function)  # one check for each sample is a partial function
        assert function.__module__.startswith(folder)
        assert function.__module__.removeprefix(folder).partition("_")[0] == one.level


def test_two_checks_of_one_name_are_refused() -> None:
    declare.checks_of("driver")
    decorate = declare.check("driver.module", title="again", expects="it", fix="it")
    with pytest.raises(ValueError, match=r"the id driver\.module of a check is used twice"):
        decorate(lambda _: passed())


def test_a_check_whose_need_failed_is_a_skip_with_that_reason(context: Context) -> None:
    found = results(on(context, module=None, gpus=context.host.gpus), "driver")
    assert found["driver.module"].status == "fail"
    assert found["driver.gpus"].status in {"pass", "skip"}
    assert found["driver.version"].status == "skip"
    assert found["driver.version"].reason == "requires driver.module, which failed"
    assert found["driver.version"].detail == found["driver.module"].reason


def test_a_component_that_is_named_has_to_be_found(context: Context) -> None:
    bare = on(context, gpus=(), installed={}, copies=(), module=None)
    assert {one.status for one in results(bare).values()} == {"skip"}
    for named, others in (("nccl", ["skip"]), ("tensorrt", ["skip"] * 3)):
        first, *rest = results(bare, named).values()
        assert first.status == "fail"
        assert first.reason.startswith("required, but no ")
        assert [one.status for one in rest] == others
    assert {one.status for one in results(context, "cuda").values()} <= {"pass", "skip"}


def test_a_gpu_can_be_required(context: Context) -> None:
    for host, status in ((context, "pass"), (on(context, gpus=()), "fail")):
        found = runner.run_checks(("cuda",), "quick", host, ("gpu",))[0]
        assert (found.id, found.status) == ("gpu.found", status)
    assert (found.title, found.reason) == ("the host has an NVIDIA GPU", "required, but no NVIDIA GPU was found")
    assert found.fix == "`lspci -d 10de:` lists what the bus has; in a container start it with `--gpus all`"


def test_needs_come_first_whatever_the_order_of_declaration(context: Context) -> None:
    checks = (made("a.second", lambda _: passed(), needs=("a.first",)), made("a.first", lambda _: passed()))
    assert [one.id for one in run_made(context, *checks)] == ["a.first", "a.second"]


def test_a_need_that_is_not_run_or_was_skipped_is_no_obstacle(context: Context) -> None:
    checks = (
        made("a.first", lambda _: skipped("not here")),
        made("a.second", lambda _: passed(), needs=("a.first", "b.elsewhere")),
    )
    assert [one.status for one in run_made(context, *checks)] == ["skip", "pass"]


def test_checks_that_need_each_other_are_refused(context: Context) -> None:
    checks = (made("a.one", passed, needs=("a.two",)), made("a.two", passed, needs=("a.one",)))
    with pytest.raises(ValueError, match=r"a\.one -> a\.two -> a\.one"):
        run_made(context, *checks)


def test_a_check_that_raises_is_an_error_with_its_words_and_no_traceback(context: Context) -> None:
    def breaks(_: Context) -> Outcome:
        msg = "no such thing"
        raise KeyError(msg)

    checks = (made("a.one", breaks), made("a.two", lambda _: passed(), needs=("a.one",)))
    broken, after = run_made(context, *checks)
    assert (broken.status, broken.reason) == ("error", "the check itself failed with KeyError: 'no such thing'")
    assert (after.status, after.reason) == ("skip", "requires a.one, which could not run")


def test_texts_that_are_no_text_come_out_as_some(context: Context) -> None:
    odd = Outcome(status="fail", reason="/usr/lib/\udcff.so", evidence={"\udcff": "\udcff"})
    (result,) = run_made(context, made("a.one", lambda _: odd))
    assert (result.reason, result.evidence) == ("/usr/lib/?.so", {"?": "?"})


def ticking(*times: float) -> Iterator[float]:
    return itertools.chain(times, itertools.repeat(times[-1]))


def test_durations_are_measured_and_too_long_is_an_error(context: Context) -> None:
    clock = ticking(0.0, 0.25, 1.0, 4.0)
    timed = msgspec.structs.replace(context, clock=lambda: next(clock))
    quick, slow = run_made(timed, made("a.one", lambda _: passed()), made("a.two", lambda _: passed(), limit_s=2.0))
    assert (quick.status, quick.duration_s) == ("pass", 0.25)
    assert (slow.status, slow.reason, slow.duration_s) == ("error", "the check took 3.0 s; its limit is 2 s", 3.0)
    assert slow.fix == "check `top` and `nvidia-smi` for other load, then retry"


def test_commands_get_what_is_left_of_the_time(context: Context, recorded: Any) -> None:
    clock = ticking(0.0, 3.0, 12.0)
    timed = msgspec.structs.replace(context, clock=lambda: next(clock))
    inner = recorded({"true": Finished(argv=("true",), code=0)})
    limited = LimitedRunner(inner, timed, 10.0)
    assert limited.run(("true",)).code == 0
    assert inner.asked == [(("true",), 7.0)]
    late = limited.run(("true",))
    assert (late.code, late.error) == (None, "the check's time limit was reached before this command")
    assert len(inner.asked) == 1


def test_a_required_check_must_not_be_skipped(context: Context) -> None:
    found = results(on(context, gpus=()), "cuda", require=("cuda.gpu",))
    assert found["cuda.gpu"].status == "fail"
    assert found["cuda.gpu"].reason == "required, but no NVIDIA GPU was found"
    assert found["cuda.gpu"].fix == "Install a toolkit that supports the GPU: `gpustack install cuda`."
    assert found["cuda.toolkit"].status == "pass"


def test_a_required_component_may_skip_only_what_the_host_has_no_use_for(context: Context) -> None:
    found = results(context, "cudnn", require=("driver",))
    assert found["driver.fabric-manager"].status == "skip"
    assert {one.status for one in found.values()} == {"pass", "skip"}
    missing = results(on(context, installed={}, copies=()), require=("cudnn",))
    assert missing["cudnn.found"].status == "fail"
    assert missing["cudnn.found"].reason == "required, but no cuDNN was found"
    assert missing["cudnn.found"].fix == "`gpustack install cudnn`"
    assert missing["cuda.toolkit"].status == "skip"


def test_a_required_check_of_a_component_not_asked_for_is_run(context: Context) -> None:
    assert "cuda.toolkit" in results(context, "driver", require=("cuda.toolkit",))


@pytest.mark.parametrize(
    ("components", "require", "message", "hint"),
    [
        (("cudn",), (), "unknown component 'cudn'", "did you mean cudnn?"),
        (("zzz",), (), "unknown component 'zzz'", "known: driver, cuda, cudnn, "),
        ((), ("drivers",), "unknown component 'drivers'", "did you mean driver?"),
        ((), ("driver.modules",), "unknown check 'driver.modules'", "did you mean driver.module?"),
        ((), ("cudda.gpu",), "unknown check 'cudda.gpu'", "did you mean cuda.gpu?"),
        (("; rm -rf /",), (), "unknown component '; rm -rf /'", "known: driver,"),
    ],
)
def test_unknown_names(
    context: Context, components: tuple[str, ...], require: tuple[str, ...], message: str, hint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        results(context, *components, require=require)
    assert caught.value.exit_code == 2
    assert caught.value.message == message
    assert caught.value.hint.startswith(hint)


def test_an_unknown_level_is_refused() -> None:
    assert parse_level("smoke") == "smoke"
    with pytest.raises(UsageError) as caught:
        parse_level("slow")
    assert (caught.value.message, caught.value.hint) == ("unknown level 'slow'", "known: quick, smoke, full")


def test_components_without_checks_are_refused(context: Context) -> None:
    with pytest.raises(UnsupportedError) as caught:
        results(context, "container-toolkit")
    assert (caught.value.exit_code, caught.value.message) == (4, "container-toolkit has no checks")
    assert caught.value.hint == f"components with checks: {', '.join((*COMPONENTS, *CHECKED_FRAMEWORKS))}"


def test_a_component_that_another_ones_checks_look_at_is_told_so(context: Context) -> None:
    with pytest.raises(UnsupportedError) as caught:
        results(context, "fabric-manager")
    assert (
        caught.value.hint
        == f"use `gpustack verify driver`, which checks it; components with checks: {', '.join((*COMPONENTS, *CHECKED_FRAMEWORKS))}"
    )
