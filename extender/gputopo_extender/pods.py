"""The containers of a pod in rank order, and why no node can take them."""

from gputopo_kube.pods import UNKNOWN_COUNT, ContainerKind, GpuContainer, PodView


def newer(pod: PodView, other: PodView | None) -> PodView:
    """Return the later of two views of a pod."""
    return pod if other is None or other.version < pod.version else other


def gpu_keepers(pod: PodView) -> tuple[GpuContainer, ...]:
    """Return the containers that get GPUs of their own, in rank order.

    These are the application containers, then the sidecars. Init containers borrow from them.
    """
    keepers = [each for each in pod.containers if each.keeps_gpus]
    return tuple(sorted(keepers, key=lambda each: each.kind is ContainerKind.SIDECAR))


def rejection(pod: PodView, resource: str) -> str | None:
    """Return why no node can take the containers of a pod, None where a node may."""
    for each in pod.containers:
        if each.gpus >= UNKNOWN_COUNT:
            return (
                f"{resource} in container {each.name!r}: not a whole number below {UNKNOWN_COUNT}"
            )
    for position, each in enumerate(pod.containers):
        # kubelet passes the GPUs on to the next container that keeps its own, and chooses at
        # random which to leave out where there are more of them.
        keeper = next((later for later in pod.containers[position:] if later.keeps_gpus), None)
        most = keeper.gpus if keeper else 0
        if each.gpus > most:
            after = f"{keeper.name!r} keeps {most}" if keeper else "none keeps any"
            return (
                f"{resource} in init container {each.name!r}: {each.gpus}, and of the containers "
                f"after it {after}: request no more than that"
            )
    return None
