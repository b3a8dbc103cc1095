"""Which kernel module flavours can drive all GPUs of a host with a given driver version."""

from msgspec import Struct

from gpustack.solve.question import Question
from gpustack.solve.rulebook import BoundRule
from gpustack.versions import is_within

DEFAULT_OPEN_SINCE = "560"
"""From this branch on the vendor installs open modules if the GPU supports both (matrix: driver, branches)."""


class FlavourRule(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One row of the matrix: a flavour that driver versions do not have, or that does not support some GPUs.

    A row with ``asked`` holds where that component is requested, one with ``arch`` on these architectures.
    """

    id: str
    driver: str
    flavour: str
    compute_capability: str = ""
    gpus: tuple[str, ...] = ()
    asked: str = ""
    arch: tuple[str, ...] = ()
    text: str = ""
    src: tuple[str, ...] = ()


def flavours(question: Question, driver: str) -> tuple[str, ...]:
    """The flavours that every GPU supports, the packages offer and the user allows, the preferred first."""
    allowed = ["open", "proprietary"] if is_within(driver, f">={DEFAULT_OPEN_SINCE}") else ["proprietary", "open"]
    gpus = question.host.gpus
    refused = {rule.flavour for rule in flavour_rules(question, driver)}
    refused |= {bound.rule.when.flavour for bound in unbuilt_flavours(question, driver)}
    refused |= {"open" for gpu in gpus if gpu.open_module == "impossible"}
    refused |= {"proprietary" for gpu in gpus if gpu.open_module == "required"}
    if question.request.kernel_module != "auto":
        refused |= {"open", "proprietary"} - {question.request.kernel_module}
    offer = question.offers.offer("driver", driver) if question.mode == "plan" else None
    if offer is not None and offer.flavours:
        refused |= {"open", "proprietary"} - set(offer.flavours)
    return tuple(flavour for flavour in allowed if flavour not in refused)


def flavour_rules(question: Question, driver: str) -> tuple[FlavourRule, ...]:
    """The rows that exclude a flavour of this driver version on this host."""
    rows = question.matrix.rows("driver", "flavour_rules", FlavourRule)
    return tuple(row for row in rows if is_within(driver, row.driver) and _concerns(row, question))


def unbuilt_flavours(question: Question, driver: str) -> tuple[BoundRule, ...]:
    """The rules by which one flavour does not build on the kernel of the host, where that kernel is known."""
    view = question.view
    if view.is_assumed("kernel") or view.runs_modules_of("driver", driver):
        return ()
    return tuple(
        bound
        for bound in question.book.applying("driver", driver).get("kernel", ())
        if bound.rule.when.flavour and view.holds(bound.rule, "driver")
        if not all(bound.accepts(driver, kernel) for kernel in view.values("kernel"))
    )


def _concerns(rule: FlavourRule, question: Question) -> bool:
    """Whether a rule applies to this request and host: it names no GPU at all, or one of the host's."""
    if (rule.asked and rule.asked not in question.asked) or (rule.arch and question.host.arch not in rule.arch):
        return False
    if not rule.compute_capability and not rule.gpus:
        return True
    return any(
        (not rule.compute_capability or is_within(gpu.compute_capability or "0", rule.compute_capability))
        and (not rule.gpus or any(name in (gpu.name or "") for name in rule.gpus))
        for gpu in question.host.gpus
        if gpu.compute_capability or not rule.compute_capability
    )
