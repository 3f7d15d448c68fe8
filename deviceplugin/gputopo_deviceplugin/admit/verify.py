"""Decides which GPUs kubelet should take, and whether a container may use them. Pure functions."""

from collections.abc import Iterable, Mapping, Sequence

from gputopo.api.shares import conflicting
from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.admit.identify import (
    AdmissionRejection,
    AdmissionResult,
    ContainerAllocation,
    PreferenceRequest,
)
from gputopo_deviceplugin.admit.placement import (
    PlacementError,
    candidate_gpus,
    intended_gpus,
)
from gputopo_deviceplugin.admit.usage import GpuUser, PodState
from gputopo_deviceplugin.gpus.health import Health
from gputopo_kube.pods import PodView


def preferred_gpus(
    request: PreferenceRequest, result: AdmissionResult
) -> tuple[GpuUuid, ...] | AdmissionRejection:
    """Return the GPUs that kubelet should allocate, or why the agent rejects the request.

    If the agent rejects a request with required GPUs, the result still has GPUs, and Allocate
    rejects the container later. The reason: kubelet has already recorded the required GPUs. It
    removes this record if Allocate fails, but keeps it if GetPreferredAllocation fails.
    """
    if isinstance(result, ContainerAllocation):
        return result.gpus
    if not request.required:
        return result
    rest = sorted(request.available - request.required)
    return (*sorted(request.required), *rest)[: max(request.size, 0)]


def verify(
    gpus: Sequence[GpuUuid],
    expected: AdmissionResult | None,
    pods: Sequence[PodView],
    *,
    node: str,
    users: Mapping[GpuUuid, GpuUser],
    health: Health,
) -> AdmissionResult:
    """Return the container that may use the GPUs that kubelet took, or a rejection.

    Args:
        gpus: the GPUs that kubelet took, in any order.
        expected: the result of GetPreferredAllocation for the same container; None if kubelet
            called Allocate without GetPreferredAllocation.
        pods: live pods of this node.
        node: this node's name.
        users: the users of GPUs and shares: live pods, and processes of ended and deleted pods.
        health: health of every GPU and share of this node.
    """
    if isinstance(expected, AdmissionRejection):
        return expected
    found = _find_reuse(gpus, pods, node, users) if expected is None else expected
    if isinstance(found, AdmissionRejection):
        return found
    pod = found.pod
    if set(gpus) != set(found.gpus):
        return AdmissionRejection(
            f"pod {pod.key}: kubelet took {_join(gpus)}, but container {found.container} "
            f"should have {_join(found.gpus)}",
            pod,
        )
    others = {gpu: user for gpu, user in users.items() if not _is_own(user, found)}
    others = {**intended_users(gpus, pod.uid, pods, node), **others}
    obstacles = [
        obstacle for gpu in sorted(gpus) if (obstacle := _obstacle(gpu, others, health)) is not None
    ]
    if obstacles:
        return AdmissionRejection(f"pod {pod.key}: {'; '.join(obstacles)}", pod)
    return found


def intended_users(
    gpus: Sequence[GpuUuid], own_uid: str | None, pods: Iterable[PodView], node: str
) -> dict[GpuUuid, GpuUser]:
    """Return the live pods, except pod ``own_uid``, whose annotations exclude one of ``gpus``.

    An annotation that names a GPU also excludes its shares, and a share the GPU as a whole.
    If kubelet has lost its record of a running container, only the annotation of the container's
    pod shows which GPUs the container uses.
    """
    excluded = excluded_by(gpus)
    return {
        gpu: GpuUser(pod.key, container, pod.uid)
        for pod in pods
        if pod.live and pod.uid != own_uid
        for container, intended in _intended_gpus(pod, node).items()
        for gpu in intended
        if gpu in excluded
    }


def excluded_by(gpus: Iterable[GpuUuid]) -> frozenset[GpuUuid]:
    """Return all GPUs and shares that no other container may have beside ``gpus``."""
    return frozenset[GpuUuid]().union(*map(conflicting, gpus))


def _obstacle(gpu: GpuUuid, others: Mapping[GpuUuid, GpuUser], health: Health) -> str | None:
    if gpu not in health:
        return f"this node has no {gpu}"
    if (fault := health[gpu]) is not None:
        return f"{gpu} is unhealthy: {fault}"
    using = sorted(conflicting(gpu) & others.keys())
    return _describe_use(using[0], others[using[0]]) if using else None


def _describe_use(gpu: GpuUuid, user: GpuUser) -> str:
    if user.state is PodState.LIVE:
        return f"{gpu} is used by pod {user.key}"
    return f"{gpu} is in use by a process of {user.state.value} pod {user.key}"


def _is_own(user: GpuUser, found: ContainerAllocation) -> bool:
    """Return whether ``user`` is the container in ``found``, or shares GPUs with that container."""
    pod = found.pod
    if (user.key, user.uid) != (pod.key, pod.uid):
        return False
    keepers = {each.name: pod.keeper_of(each) for each in pod.containers}
    return keepers.get(user.container) == keepers.get(found.container)


def _find_reuse(
    gpus: Sequence[GpuUuid],
    pods: Sequence[PodView],
    node: str,
    users: Mapping[GpuUuid, GpuUser],
) -> AdmissionResult:
    """Find the container that gets the GPUs of init containers of the same pod.

    Only for such a container does kubelet call Allocate without GetPreferredAllocation. The agent
    rejects all other calls, because the GPUs alone do not show which pod kubelet admits.
    """
    owners = {(user.key, user.uid) if (user := users.get(gpu)) else None for gpu in gpus}
    for pod in pods:
        if pod.live and not pod.deleting and owners == {(pod.key, pod.uid)}:
            found = _next_container(gpus, pod, node, users)
            if found is not None:
                return found
    uses = [_describe_use(gpu, users[gpu]) for gpu in sorted(gpus) if gpu in users]
    reasons = f" ({'; '.join(uses)})" if uses else ""
    return AdmissionRejection(
        f"kubelet called Allocate for {_join(gpus)} without GetPreferredAllocation{reasons}; "
        "perhaps kubelet or the agent has just restarted, or another device plugin has registered "
        "the same resource; create the pod again"
    )


def _next_container(
    gpus: Sequence[GpuUuid], pod: PodView, node: str, users: Mapping[GpuUuid, GpuUser]
) -> ContainerAllocation | None:
    """Return the next container of ``pod`` if an earlier one passes exactly ``gpus`` on to it."""
    using = {users[gpu].container for gpu in gpus}
    last = max((at for at, each in enumerate(pod.containers) if each.name in using), default=-1)
    for container in pod.containers[last + 1 :]:
        try:
            candidates = candidate_gpus(pod, container.name, node)
        except PlacementError:
            continue  # no GPUs were chosen for it
        if len(gpus) == container.gpus and set(gpus) <= set(candidates):
            own = tuple(gpu for gpu in candidates if gpu in gpus)
            return ContainerAllocation(pod, container.name, own)
    return None


def _intended_gpus(pod: PodView, node: str) -> Mapping[str, tuple[GpuUuid, ...]]:
    try:
        return intended_gpus(pod, node)
    except PlacementError:
        return {}


def _join(gpus: Sequence[GpuUuid]) -> str:
    return " ".join(sorted(gpus))
