"""The law of a simulated workload: seconds per training step under given conditions.

No module of gputopo knows these laws, and this module uses no code of ``gputopo.profiles``. The
laws are of other forms than a regression assumes: communication is hidden behind computation up to
a limit (so the slowdown on slow links starts at some bandwidth), and CPUs saturate smoothly.

Example: 2 GPUs compute for 0.1 s and send 1,000 MB in each step, of which 0.04 s are hidden. With
50,000 MB/s the communication takes 0.02 s and is hidden: 0.1 s. With 10,000 MB/s it takes 0.1 s, of
which 0.06 s are not hidden: 0.16 s. The slowdown is 60 %.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

SHARPNESS: Final = 6.0
"""Exponent of the transition between a step limited by GPUs and a step limited by CPUs."""

DEMAND_GAIN: Final = 1.1
"""CPUs are enough when more of them raise throughput by less than 10 % (Synergy, section 3.1)."""


@dataclass(frozen=True, slots=True)
class RunConditions:
    """What the speed of a run depends on.

    Attributes:
        mb_per_s: effective bandwidth of the GPU set; ignored for one GPU.
        cpus: CPU limit of the container.
        socket_neighbours: workload of each other job with GPUs on the same sockets.
        node_neighbours: workload of each job with GPUs on other sockets of the node only.
    """

    gpus: int
    mb_per_s: float
    cpus: float
    socket_neighbours: tuple[str, ...] = ()
    node_neighbours: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkloadLaw:
    """The noise-free law of one workload.

    Attributes:
        compute_seconds: computation of one step on one GPU.
        megabytes: traffic of a step for very many GPUs; a ring of m GPUs has (m - 1) / m of it.
        overlap: part of the computation behind which communication is hidden, 0 to 1.
        cpus_per_gpu: CPUs of each GPU with which CPUs are as fast as the computation.
        fixed_batch: whether all GPUs share one batch, so that a step is shorter with more GPUs.
            Otherwise each GPU has a batch of its own.
        serial: with a shared batch, part of the computation that does not become shorter.
            Otherwise, growth of the computation with each doubling of the GPUs.
        on_socket: slowdown by one neighbour on the same sockets, by workload; 0.2 for 20 %.
        on_node: slowdown by one neighbour on other sockets, by workload.
    """

    compute_seconds: float
    megabytes: float
    overlap: float
    cpus_per_gpu: float
    fixed_batch: bool
    serial: float
    on_socket: Mapping[str, float]
    on_node: Mapping[str, float]

    def seconds(self, conditions: RunConditions) -> float:
        """Return the seconds of one step."""
        gpu, cpu = self._gpu_seconds(conditions), self._cpu_seconds(conditions)
        alone = gpu * math.pow(1 + math.pow(cpu / gpu, SHARPNESS), 1 / SHARPNESS)
        beside = [self.on_socket[name] for name in conditions.socket_neighbours]
        beside += [self.on_node[name] for name in conditions.node_neighbours]
        return alone * math.prod(1 + slowdown for slowdown in beside)

    def demand_cpus(self, gpus: int, mb_per_s: float) -> float:
        """Return the fewest CPUs after which more CPUs raise throughput by less than 10 %."""
        gpu = self._gpu_seconds(RunConditions(gpus, mb_per_s, cpus=1))
        work = self._cpu_seconds(RunConditions(gpus, mb_per_s, cpus=1))
        return work / (gpu * math.pow(math.pow(DEMAND_GAIN, SHARPNESS) - 1, 1 / SHARPNESS))

    def _gpu_seconds(self, conditions: RunConditions) -> float:
        compute = self._compute_seconds(conditions.gpus)
        if conditions.gpus == 1:
            return compute
        traffic = self.megabytes * (conditions.gpus - 1) / conditions.gpus
        return compute + max(0.0, traffic / conditions.mb_per_s - self.overlap * compute)

    def _compute_seconds(self, gpus: int) -> float:
        if self.fixed_batch:
            return self.compute_seconds * (self.serial + (1 - self.serial) / gpus)
        return self.compute_seconds * (1 + self.serial * math.log2(gpus))

    def _cpu_seconds(self, conditions: RunConditions) -> float:
        batches = 1 if self.fixed_batch else conditions.gpus
        return batches * self.cpus_per_gpu * self.compute_seconds / conditions.cpus
