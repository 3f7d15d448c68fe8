"""What kube-scheduler counts for a pod on its node: CPUs, memory and all other resources.

All amounts are thousandths of the unit of the resource, as of ``parse_thousandths``.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from gputopo.api.quantity import parse_thousandths
from gputopo_kube.podmodel import Container, PodObject
from gputopo_kube.podstatus import ContainerResources, ContainerStatus

CPU: Final = "cpu"
MEMORY: Final = "memory"

_RESIZABLE: Final = (CPU, MEMORY)


def counted_requests(pod: PodObject, only: str = "", *, started: bool = False) -> Counter[str]:
    """Return the amounts that kube-scheduler counts for a pod, by name of the resource.

    With ``only``, return the amounts of the application container of this name. With ``started``,
    leave out init containers that end: with a container of 4 CPUs and an init container of 8, a
    resize of the container to 8 CPUs needs no more of the node.

    While a container is resized, the larger of the requests in its spec and of those for which
    kubelet has reserved capacity counts, as in ``PodRequests`` of Kubernetes' component-helpers.
    """
    statuses = {status.name: status for status in pod.status.containers}
    infeasible = _is_infeasible(pod)

    def amounts(container: Container) -> Counter[str]:
        return _counted(container, statuses.get(container.name), infeasible=infeasible)

    if only:
        return _sum(amounts(each) for each in pod.spec.containers if each.name == only)
    inits = pod.spec.init_containers or ()
    sidecars = _sum(amounts(each) for each in inits if each.is_sidecar)
    total = _sum(map(amounts, pod.spec.containers)) + sidecars
    for each in () if started else inits:
        if not each.is_sidecar:
            total |= amounts(each) + sidecars  # the larger value of each resource
    of_pod = (pod.spec.pod_resources and pod.spec.pod_resources.requests) or {}
    # Requests of the pod replace the sums of its containers.
    replaced = Counter({**total, **thousandths(of_pod)})
    return replaced + thousandths(pod.spec.overhead or {})


def _counted(
    container: Container, status: ContainerStatus | None, *, infeasible: bool
) -> Counter[str]:
    resources = container.resources or ContainerResources()
    names = {*(resources.requests or ()), *(resources.limits or ())}
    spec = thousandths({name: resources.quantity(name) for name in names})
    if status is None:
        return spec
    applied = _resizable((status.resources and status.resources.requests) or {})
    held = applied | _resizable(status.allocated_resources or {})
    if infeasible and held:
        spec = Counter({name: value for name, value in spec.items() if name not in held})
    return spec | held


def _resizable(quantities: Mapping[str, Any]) -> Counter[str]:
    return thousandths({name: quantities[name] for name in _RESIZABLE if name in quantities})


def thousandths(quantities: Mapping[str, Any]) -> Counter[str]:
    """Parse quantities; one that is not valid counts as 0."""
    return Counter({name: parse_thousandths(text) or 0 for name, text in quantities.items()})


def _sum(parts: Iterable[Counter[str]]) -> Counter[str]:
    return sum(parts, Counter[str]())


def _is_infeasible(pod: PodObject) -> bool:
    """Return whether kubelet can never carry out the resize in the spec of the pod."""
    pending = pod.status.condition("PodResizePending")
    return pending is not None and (pending.status, pending.reason) == ("True", "Infeasible")
