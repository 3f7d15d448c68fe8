"""Keeps the containers with GPUs that the runtime has, and decides about their CPUs.

No I/O: the events of the runtime are arguments.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from gputopo.alignment.cpuset import (
    CpusetDecision,
    CpusetReason,
    MachineCpus,
    repair_cpusets,
)
from gputopo_deviceplugin.nri.containers import RuntimeContainer

_NOT_BOUND = {
    CpusetReason.TOO_FEW_CPUS: "its NUMA nodes have too few CPUs for its request",
    CpusetReason.RELEASE: "its NUMA nodes have too few CPUs for its request",
    CpusetReason.OTHER_CPUSET: "another program has set its CPUs",
    CpusetReason.NUMA_UNKNOWN: "the CPUs of its GPUs are unknown",
}


class KnownContainers:
    """The containers with GPUs of a node, by ID.

    Attributes:
        unbound: why containers may run on CPUs that are not near their GPUs, by name.
        bound: CPUs of the containers that the runtime had already limited, by ID.
    """

    def __init__(self, containers: Iterable[RuntimeContainer] = ()) -> None:
        self._containers = {each.instance: each for each in containers}
        self.unbound: Mapping[str, str] = {}
        self.bound: Mapping[str, frozenset[int]] = {}

    def __contains__(self, instance: object) -> bool:
        return instance in self._containers

    def add(self, container: RuntimeContainer) -> None:
        """Add a container, in the place of an earlier one with the same name in the same pod."""
        self._containers = {
            instance: each
            for instance, each in self._containers.items()
            if (each.pod_uid, each.name) != (container.pod_uid, container.name)
        }
        self._containers[container.instance] = container

    def change_request(self, instance: str, milli_cpu: int) -> None:
        """Store another CPU request of a container; the container is then decided last."""
        known = self._containers.pop(instance)
        cpus = replace(known.cpus, milli_cpu=milli_cpu)
        self._containers[instance] = replace(known, cpus=cpus)

    def remove(self, instance: str) -> None:
        """Remove a container that has ended."""
        self._containers.pop(instance, None)

    def repair(self, machine: MachineCpus) -> dict[str, CpusetDecision]:
        """Return the containers to limit now with the decisions, and store these as carried out."""
        everything = machine.cpus(machine.cpus_of)
        containers = {
            instance: replace(each.cpus, cpuset=None)
            if each.cpus.cpuset is not None and each.cpus.cpuset >= everything
            else each.cpus
            for instance, each in self._containers.items()
        }
        decisions = repair_cpusets(containers, machine)
        for instance, decision in decisions.items():
            if decision.cpus is not None:
                known = self._containers[instance]
                limited = replace(known.cpus, cpuset=decision.cpus)
                self._containers[instance] = replace(known, cpus=limited)
        self.unbound = {
            self._containers[instance].name: _NOT_BOUND[decision.reason]
            for instance, decision in decisions.items()
            if decision.reason in _NOT_BOUND
        }
        self.bound = {
            instance: self._containers[instance].cpus.cpuset or frozenset()
            for instance, decision in decisions.items()
            if decision.reason is CpusetReason.BOUND
        }
        return {key: each for key, each in decisions.items() if each.cpus is not None}
