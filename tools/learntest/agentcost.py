"""CPU and memory of a node's agent, from the process table; writes, from the API server."""

import os
import re
import time
from collections import Counter
from dataclasses import dataclass

from learntest.bench import Bench
from localcluster import access
from localcluster.access import PodProcess

_PROGRAM = "gputopo-deviceplugin"
_TICKS = os.sysconf("SC_CLK_TCK")
_WRITES = re.compile(
    r'^apiserver_request_total\{(?=[^}]*group="gputopo.io")(?=[^}]*verb="(?:PATCH|PUT|POST|APPLY)")'
    r'(?=[^}]*,resource="(\w+)")[^}]*\} (\S+)$',
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Usage:
    """Resources that the agent of a node has used up to a time.

    Attributes:
        at: by the monotonic clock.
        cpu_seconds: of all its processes.
        memory_mib: resident memory.
    """

    at: float
    cpu_seconds: float
    memory_mib: float

    def milli_cpu_since(self, before: "Usage") -> float:
        """Return the mean CPU since then in thousandths of a CPU."""
        return 1000 * (self.cpu_seconds - before.cpu_seconds) / (self.at - before.at)


def usage(bench: Bench, node: str) -> Usage:
    """Return what the agent of a node has used."""
    found = access.of_program(bench.machines, _PROGRAM, node)
    return Usage(
        time.monotonic(), sum(map(_cpu_seconds, found)), sum(map(_resident_kib, found)) / 1024
    )


def writes(bench: Bench) -> Counter[str]:
    """Return the number of writes to gputopo's objects since the API server started, by kind."""
    return writes_in(bench.client.text("/metrics"))


def writes_in(metrics: str) -> Counter[str]:
    """Return the number of writes to gputopo's objects by kind, from the API server's metrics."""
    found: Counter[str] = Counter()
    for kind, number in _WRITES.findall(metrics):
        found[kind] += int(float(number))
    return found


def _cpu_seconds(process: PodProcess) -> float:
    # The name of the program may contain spaces; utime and stime are fields 14 and 15.
    rest = process.read("stat").rpartition(")")[2].split()
    return (int(rest[11]) + int(rest[12])) / _TICKS


def _resident_kib(process: PodProcess) -> int:
    found = re.search(r"^VmRSS:\s+(\d+) kB$", process.read("status"), re.MULTILINE)
    return int(found[1]) if found else 0
