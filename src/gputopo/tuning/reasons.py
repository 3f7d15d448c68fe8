"""Describes in words why a pod has its CPUs and memory."""

from collections.abc import Iterator

from gputopo.api.tuning import Amounts, ResourcesMode
from gputopo.sensitivity.matrix import SensitivityMatrix
from gputopo.tuning.matrix import ANY_MEMORY
from gputopo.tuning.model import TunedPod
from gputopo.tuning.pods import tunes_memory
from gputopo.tuning.sized import SizedNode, SizedPod, throughput, total


def reason_for(pod: TunedPod, sized: SizedPod, node: SizedNode, amounts: Amounts) -> str:
    """Return the reason, such as ``4,200m CPU: 31 % faster than with its share of 2,000m``."""
    own = _text(amounts, with_memory=tunes_memory(pod), unit=" CPU")
    share = _text(sized.share, with_memory=tunes_memory(pod))
    if sized.matrix is None:
        why = _without_matrix(pod, sized, amounts, share)
    else:
        why = _speed(sized, sized.matrix, amounts, share)
    return "; ".join([f"{own}: {why}", *_unused_data(pod, sized), *_lacks(node), *_kept_free(node)])


def _speed(sized: SizedPod, matrix: SensitivityMatrix, amounts: Amounts, share: str) -> str:
    name = f"its {_name(sized)} of {share}"
    if throughput(matrix, sized.share) == 0:
        return f"it makes no steps with {name}"
    percent = round((sized.value(amounts) - 1) * 100)
    if percent == 0:
        return f"as fast as with {name}"
    return f"{abs(percent)} % {'faster' if percent > 0 else 'slower'} than with {name}"


def _without_matrix(pod: TunedPod, sized: SizedPod, amounts: Amounts, share: str) -> str:
    name = _name(sized)
    why = f"its {name}" if amounts == sized.share else f"unchanged; its {name} is {share}"
    if pod.mode is not ResourcesMode.AUTO:
        return why
    gpus = "1 GPU" if pod.gpus == 1 else f"{pod.gpus} GPUs"
    return f"{why}, because its throughput with other CPUs is not known for {gpus}"


def _name(sized: SizedPod) -> str:
    if sized.share == sized.floor:
        return "floor"
    return "maximum" if sized.share == sized.most else "share"


def _unused_data(pod: TunedPod, sized: SizedPod) -> Iterator[str]:
    """Yield why the data set is not used, if the matrix of the pod does not depend on it."""
    by_cpus = sized.matrix is not None and sized.matrix.memory_gb == ANY_MEMORY
    if by_cpus and tunes_memory(pod):
        yield "its data set is not used: memoryFloor of its GPUProfile exceeds the node's memory"


def _lacks(node: SizedNode) -> Iterator[str]:
    """Yield the resources of which the node has less than the floors of its pods."""
    floors = total(pod.floor for pod in node.pods)
    if floors.milli_cpu > node.capacity.milli_cpu:
        yield (
            f"the floors of all pods, {floors.milli_cpu:,}m, exceed the"
            f" {node.capacity.milli_cpu:,}m CPU that the node has for them"
        )
    if floors.memory > node.capacity.memory:
        yield (
            f"the floors of all pods, {_gib(floors.memory)}, exceed the"
            f" {_gib(node.capacity.memory)} of memory that the node has for them"
        )


def _kept_free(node: SizedNode) -> Iterator[str]:
    if any(node.kept_free):
        text = _text(node.kept_free, with_memory=True, unit=" CPU")
        yield f"{text} are kept free for pending pods"


def _text(amounts: Amounts, *, with_memory: bool, unit: str = "") -> str:
    """Write amounts.

    >>> _text(Amounts(4200, 3 * 2**29), with_memory=True, unit=" CPU")
    '4,200m CPU and 1.5 GiB'
    """
    cpus = f"{amounts.milli_cpu:,}m{unit}"
    return f"{cpus} and {_gib(amounts.memory)}" if with_memory else cpus


def _gib(memory: int) -> str:
    return f"{memory / 2**30:,.1f} GiB"
