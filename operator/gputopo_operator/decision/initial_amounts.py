"""Sets the CPU and memory with which the pod of a GPUJob is created, and who changes them later."""

from typing import Any, Final

from gputopo.api.job_resources import ResourceBound, ResourcesSpec
from gputopo.api.quantity import parse_thousandths
from gputopo.api.tuning import ResourcesMode, TuningRequest
from gputopo_kube.document import Document
from gputopo_operator.decision.spec_error import SpecError

_MOST_MILLI_CPU: Final = 10**9 - 1
_MOST_MEMORY: Final = 10**15 - 1
_NO_BOUND: Final = ResourceBound()


def tuning_request(resources: ResourcesSpec) -> TuningRequest:
    """Return mode and upper bounds with which the operator sizes the running pod.

    Raises:
        SpecError: an amount in ``spec.resources.max`` is too large.
    """
    most = resources.max or _NO_BOUND
    return TuningRequest(
        ResourcesMode(resources.mode),
        _most("cpu", most.cpu, 1, _MOST_MILLI_CPU),
        _most("memory", most.memory, 1000, _MOST_MEMORY),
    )


def set_initial_amounts(container: Document, resources: ResourcesSpec) -> None:
    """Set requests and limits of the container with GPUs to the amounts in ``resources.min``.

    kube-scheduler binds the pod by these amounts, and the operator then raises them. An amount that
    ``resources.min`` does not set stays as in the template.

    Args:
        container: the container of the pod template, with the objects ``resources.requests`` and
            ``resources.limits``; it is changed.
        resources: ``spec.resources`` of the GPUJob.

    Raises:
        SpecError: the container has no CPU request or limit, or more than ``resources.max``.
    """
    if resources.mode == "Fixed":
        return
    least, most = resources.min or _NO_BOUND, resources.max or _NO_BOUND
    amounts = container["resources"]
    requests, limits = amounts["requests"], amounts["limits"]
    for name, quantity in least.to_json().items():
        requests[name] = limits[name] = str(quantity)
    _reject_missing_cpus(container.get("name"), resources.mode, requests, limits)
    for name, quantity in most.to_json().items():
        _reject_more_than_most(name, limits.get(name), str(quantity))


def _reject_missing_cpus(
    container: object, mode: str, requests: dict[str, Any], limits: dict[str, Any]
) -> None:
    # Without a request, the API server sets the request to the limit.
    amounts = {"limit": limits.get("cpu"), "request": requests.get("cpu", limits.get("cpu"))}
    for kind, quantity in amounts.items():
        if not parse_thousandths(quantity):
            raise SpecError(
                f"spec.resources.mode: {mode!r} needs a CPU request and a CPU limit, but container "
                f"{container!r} has the CPU {kind} {quantity!r}; set spec.resources.min.cpu, or "
                "request and limit in the template"
            )


def _reject_more_than_most(name: str, limit: object, most: str) -> None:
    """Reject a pod that already starts with more than its upper bound."""
    initial, bound = parse_thousandths(limit), parse_thousandths(most)
    if initial is not None and bound is not None and initial > bound:
        raise SpecError(
            f"spec.resources.max.{name}: {most!r} is less than {limit!r}, the limit with which the "
            f"pod is created; raise it, or set a lower spec.resources.min.{name}"
        )


def _most(name: str, quantity: int | str | None, unit: int, largest: int) -> int | None:
    """Return an upper bound, rounded up; ``unit`` 1 gives thousandths, 1000 gives whole units."""
    if quantity is None:
        return None
    thousandths = parse_thousandths(quantity)
    amount = 0 if thousandths is None else -(-thousandths // unit)
    if not 0 < amount <= largest:
        raise SpecError(
            f"spec.resources.max.{name}: {quantity!r} is not a quantity that a node can have; "
            "correct it, or remove it to allow all that the node has"
        )
    return amount
