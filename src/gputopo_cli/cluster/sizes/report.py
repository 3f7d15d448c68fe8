"""Write the sizes of running pods as text or JSON (``gputopo sizes``)."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.console import RenderableType
from rich.text import Text

from gputopo.api.quantity import format_bytes
from gputopo.api.tuning import Amounts
from gputopo.runtime.messages import quoted
from gputopo_cli.cluster.sizes.bars import LEGEND, draw_bar
from gputopo_cli.cluster.sizes.read import read_sized_cluster
from gputopo_cli.shared import output
from gputopo_cli.shared.errors import InputError
from gputopo_explain.sizes.node_sizes import NodeSizes, PodSizes, SizedCluster, list_sizes
from gputopo_explain.text import counted

_COLUMNS = ("POD", "MODE", "GPUS>", "CPUS>", "FLOOR>", "SHARE>", "MAX>", "MEMORY>", "GAIN>")
_NONE = "no sized pods; docs/use/live-sizing.md shows how gputopo sizes a pod"


def write_sizes(namespace: str | None, node: str, context: str | None, form: str) -> None:
    """Write the sized pods of a node or of all nodes, of one namespace or of all."""
    found = select_sizes(read_sized_cluster(context), namespace, node)
    if form == "json":
        output.write_json([_document(each) for each in found])
    else:
        output.show(_lines(found))


def select_sizes(cluster: SizedCluster, namespace: str | None, node: str) -> list[NodeSizes]:
    """Return the sized pods of a namespace (None: of all) on a node (empty: on all nodes).

    Raises:
        InputError: the cluster has no such node.
    """
    if node and node not in {each["metadata"]["name"] for each in cluster.nodes}:
        raise InputError(f"node: {quoted(node)} is not the name of a node of the cluster")
    found = []
    for sizes in list_sizes(cluster):
        pods = tuple(pod for pod in sizes.pods if namespace in {None, pod.view.namespace})
        if pods and node in {"", sizes.name}:
            found.append(replace(sizes, pods=pods))
    return found


def _document(sizes: NodeSizes) -> dict[str, object]:
    return {
        "node": sizes.name,
        "gpus": sizes.gpus,
        "allocatable": _amounts(sizes.allocatable),
        "forSizedPods": _amounts(sizes.capacity),
        "sharePerGPU": _amounts(sizes.share_per_gpu),
        "pods": [pod_document(pod) for pod in sizes.pods],
    }


def pod_document(pod: PodSizes) -> dict[str, object]:
    """Return the amounts of a pod as JSON."""
    return {
        "namespace": pod.view.namespace,
        "name": pod.view.name,
        "uid": pod.view.uid,
        "mode": pod.tuned.mode.value,
        "gpus": pod.tuned.gpus,
        "now": _amounts(pod.now),
        "target": _amounts(pod.target),
        "floor": _amounts(pod.floor),
        "share": _amounts(pod.share),
        "max": _amounts(pod.most),
        "gainPercent": pod.gain_percent,
        "since": pod.since,
        "state": pod.state.name,
        "reason": pod.state.reason,
        "problem": pod.state.problem or None,
    }


def _amounts(amounts: Amounts | None) -> dict[str, int] | None:
    return amounts and {"milliCPU": amounts.milli_cpu, "memory": amounts.memory}


def _lines(found: Sequence[NodeSizes]) -> Iterator[RenderableType]:
    for sizes in found:
        yield Text(_describe(sizes))
        yield Text()
        yield output.table(*_COLUMNS, "STATE", rows=map(_row, sizes.pods))
        yield Text()
        yield _pictures(sizes)
        yield Text()
    yield Text(LEGEND if found else _NONE)


def _describe(sizes: NodeSizes) -> str:
    gpus = counted(sizes.gpus, "GPU")
    capacity, allocatable = _cpus(sizes.capacity.milli_cpu), _cpus(sizes.allocatable.milli_cpu)
    share = _cpus(sizes.share_per_gpu.milli_cpu)
    return (
        f"node {sizes.name}: {gpus} and {capacity} of {allocatable} CPUs for sized pods;"
        f" the share of a GPU is {share} CPUs"
    )


def _row(pod: PodSizes) -> tuple[str, ...]:
    target = pod.target
    return (
        str(pod.view.key),
        pod.tuned.mode.value,
        str(pod.tuned.gpus),
        _change(_cpus(pod.now.milli_cpu), target and _cpus(target.milli_cpu)),
        _cpus(pod.floor.milli_cpu),
        _cpus(pod.share.milli_cpu) if pod.share else "-",
        _cpus(pod.most.milli_cpu) if pod.most else "-",
        _change(_memory(pod.now.memory), target and _memory(target.memory)),
        _gain(pod.gain_percent),
        pod.state.name,
    )


def _pictures(sizes: NodeSizes) -> RenderableType:
    """Return a table with a bar and a reason for each pod; the full width is all divided CPUs."""
    capacity = sizes.capacity.milli_cpu
    return output.table(
        *("POD", f"OF {_cpus(capacity)} CPUS", "REASON"),
        rows=(
            (str(pod.view.key), _bar(pod, capacity), output.one_line(_reason(pod)))
            for pod in sizes.pods
        ),
    )


def _bar(pod: PodSizes, capacity: int) -> str:
    share = pod.share and pod.share.milli_cpu
    return draw_bar(pod.now.milli_cpu, pod.floor.milli_cpu, share, capacity)


def _reason(pod: PodSizes) -> str:
    reason, problem = pod.state.reason, pod.state.problem
    # The reason of a resize that was withdrawn has kubelet's message, which stays for a moment.
    return "; ".join(text for text in (reason, "" if problem in reason else problem) if text) or "-"


def _gain(percent: int | None) -> str:
    if percent is None:
        return "-"
    return f"{percent:+} %" if percent else "0 %"


def _change(now: str, target: str | None) -> str:
    return now if target in {None, now} else f"{now} -> {target}"


def _cpus(milli_cpu: int) -> str:
    return output.format_number(milli_cpu / 1000)


def _memory(size: int) -> str:
    return format_bytes(size) if size else "-"
