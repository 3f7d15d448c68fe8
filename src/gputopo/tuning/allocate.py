"""Divides the spare CPUs and memory of a node among the pods that gain most from them.

Each pod first gets its least amounts (:attr:`SizedPod.least`). A mechanism of :mod:`gputopo.sizing`
then divides the spare amounts: its server has only these amounts, and each job has a matrix of the
throughput by the *additional* amounts of the pod. A mechanism also guarantees each job its
proportional share of the server. The least amounts replace this guarantee. So the server has so
many GPUs that the proportional share of a job is practically 0.

Example: 8 CPUs, and pods A and B have a share of 4 CPUs each. A reaches its full throughput with 1
CPU, B makes 10 steps per second with each CPU. The least amounts are 1 and 4 CPUs. 3 CPUs are
spare, and B gets all of them: 7 CPUs and 70 steps per second in place of 40.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from gputopo.api.tuning import Amounts
from gputopo.sensitivity.matrix import SensitivityMatrix
from gputopo.sizing.model import ServerCapacity, SizingMechanism, SizingRequest
from gputopo.tuning.shares import MEBIBYTE
from gputopo.tuning.sized import SizedPod, throughput, total
from gputopo.tuning.ties import closest_to_now

_GPUS: Final = 10**15
"""GPUs of the server: so many that the share of one job is far below 1m CPU and one byte."""

_NONE_SPARE: Final = 1e-6
"""A server must have more than 0 of each resource; no job can use this little."""


def allocate(
    spare: Amounts, pods: Sequence[SizedPod], mechanism: SizingMechanism
) -> dict[str, Amounts]:
    """Return the amounts of each pod, by UID: at least :attr:`SizedPod.least`.

    ``spare`` is what the node has beyond the least amounts of all pods. The function divides at
    most ``spare``. If ``spare`` is negative, each pod gets exactly its least amounts. Of equally
    good divisions, the result is one close to the current amounts (:mod:`gputopo.tuning.ties`).
    """
    # One MiB is not divided: mechanisms allow sums to exceed the server by 1,000 bytes.
    spare = Amounts(max(0, spare.milli_cpu), max(0, spare.memory - MEBIBYTE))
    server = ServerCapacity(
        "node", _GPUS, spare.milli_cpu / 1000 or _NONE_SPARE, spare.memory / 1e9 or _NONE_SPARE
    )
    chosen = {pod.uid: pod.least for pod in pods}
    requests = [
        SizingRequest(pod.uid, matrix)
        for pod in pods
        if (matrix := _additional(pod, spare, server)) is not None
    ]
    for job in mechanism([server], requests).assignments:
        [part] = job.parts  # there is one server
        more = Amounts(round(part.cpus * 1000), round(part.memory_gb * 1e9))
        chosen[job.job] = total((chosen[job.job], more))
    return closest_to_now(spare, pods, chosen)


def _additional(pod: SizedPod, spare: Amounts, server: ServerCapacity) -> SensitivityMatrix | None:
    """Return the throughput by additional amounts; None if no more amounts make the pod faster."""
    if pod.matrix is None:
        return None
    cpus = _cells((round(each * 1000) for each in pod.matrix.cpus), pod, spare, 0)
    memory = _cells((round(each * 1e9) for each in pod.matrix.memory_gb), pod, spare, 1)
    rows = [[throughput(pod.matrix, Amounts(each, size)) for size in memory] for each in cpus]
    if rows[-1][-1] <= rows[0][0]:
        return None
    return SensitivityMatrix.rising(
        pod.gpus,
        [server.cpus / _GPUS, *((each - cpus[0]) / 1000 for each in cpus[1:])],
        [server.memory_gb / _GPUS, *((size - memory[0]) / 1e9 for size in memory[1:])],
        rows,
    )


def _cells(axis: Iterable[int], pod: SizedPod, spare: Amounts, resource: int) -> list[int]:
    """Return the pod's least amount, and all larger amounts of the axis that the pod can get."""
    least = pod.least[resource]
    most = min(pod.most[resource], least + spare[resource])
    return [least, *(amount for amount in axis if least < amount <= most)]
