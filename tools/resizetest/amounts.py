"""What the API server and kubelet report about the amounts of a pod, without gputopo. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

from gputopo.api.quantity import parse_bytes
from soaktest.client import Object

_STATUSES = ("containerStatuses", "initContainerStatuses")
_ENDED = frozenset({"Succeeded", "Failed"})


class Amount(NamedTuple):
    """Thousandths of a CPU, and bytes of memory."""

    milli_cpu: int = 0
    memory: int = 0

    def plus(self, other: "Amount") -> "Amount":
        """Return the sum of both."""
        return Amount(*map(sum, zip(self, other, strict=True)))

    def most(self, other: "Amount") -> "Amount":
        """Return the larger value of each resource."""
        return Amount(*map(max, self, other))


@dataclass(frozen=True, slots=True)
class PodAmounts:
    """Amounts of all containers of a pod, and its restarts.

    Attributes:
        name: namespace/name.
        requests: of the spec.
        allocated: requests that kubelet counts for the pod; equal to ``requests`` before kubelet
            has reported them.
        limits: limits that are in effect.
        restarts: of all containers.
        started: start times of the containers.
        problem: reason why kubelet has not carried out a resize, empty if it has.
    """

    name: str
    requests: Amount
    allocated: Amount
    limits: Amount
    restarts: int
    started: tuple[str, ...]
    problem: str = ""

    def __str__(self) -> str:
        """Return the CPUs in one line."""
        cpus = (self.requests.milli_cpu, self.allocated.milli_cpu, self.limits.milli_cpu)
        return "spec {}m, allocated {}m, limit in effect {}m ".format(*cpus) + self.problem

    @property
    def counted(self) -> Amount:
        """What kube-scheduler counts: the larger of spec and allocated."""
        return self.requests.most(self.allocated)


def read(pod: Object) -> PodAmounts:
    """Return the amounts of a pod."""
    containers, metadata = [*_running_together(pod["spec"])], pod["metadata"]
    reported = (pod["status"].get(name, []) for name in _STATUSES)
    by_name = {each["name"]: each for each in chain.from_iterable(reported)}
    statuses = [by_name.get(each["name"], {}) for each in containers]
    requests = [_amount(each.get("resources", {}).get("requests")) for each in containers]
    return PodAmounts(
        name=f"{metadata['namespace']}/{metadata['name']}",
        requests=_sum(requests),
        allocated=_sum(
            _amount(status["allocatedResources"]) if "allocatedResources" in status else request
            for status, request in zip(statuses, requests, strict=True)
        ),
        limits=_sum(_amount(each.get("resources", {}).get("limits")) for each in statuses),
        restarts=sum(each.get("restartCount", 0) for each in statuses),
        started=tuple(
            each.get("state", {}).get("running", {}).get("startedAt", "") for each in statuses
        ),
        problem=_problem(pod["status"]),
    )


def holds(pod: Object) -> bool:
    """Return whether a pod holds amounts of a node."""
    return "nodeName" in pod["spec"] and pod["status"].get("phase") not in _ENDED


def is_accepted(pod: Object) -> bool:
    """Return whether kubelet has accepted a pod, and so counts its amounts.

    Kubelet rejects a bound pod that does not fit, as when two schedulers gave out the same CPUs.
    """
    return holds(pod) and "startTime" in pod["status"]


def allocatable(node: Object) -> Amount:
    """Return what kubelet of a node offers to pods."""
    return _amount(node["status"]["allocatable"])


def milli_cpu(quantity: str) -> int:
    """Return the thousandths of a quantity of CPUs.

    >>> milli_cpu("150m"), milli_cpu("2"), milli_cpu("0.5")
    (150, 2000, 500)
    """
    if quantity.endswith("m"):
        return int(quantity.removesuffix("m"))
    return round(1000 * float(quantity))


def _amount(quantities: Mapping[str, Any] | None) -> Amount:
    given = quantities or {}
    return Amount(milli_cpu(given.get("cpu", "0")), parse_bytes(given.get("memory", "0"), "memory"))


def _running_together(spec: Mapping[str, Any]) -> Iterator[Object]:
    """Yield the containers and the sidecars, which run as long as the containers."""
    yield from spec["containers"]
    for each in spec.get("initContainers", []):
        if each.get("restartPolicy") == "Always":
            yield each


def _sum(parts: Iterable[Amount]) -> Amount:
    total = Amount()
    for part in parts:
        total = total.plus(part)
    return total


def _problem(status: Mapping[str, Any]) -> str:
    """Return the type, reason and message of the condition about a resize."""
    for condition in status.get("conditions", []):
        if condition["type"].startswith("PodResize") and condition["status"] == "True":
            parts = (condition["type"], condition.get("reason"), condition.get("message"))
            return " ".join(part for part in parts if part)
    return ""
