"""CPU time that the node agent needs to read the counters of 8 GPUs once a second."""

import os
import sys
import tempfile
from pathlib import Path
from typing import Final

from benchmarks.measure import timed
from benchmarks.options import Options
from benchmarks.table import show
from gputopo.catalogue import named
from gputopo.throughput.message import StepMessage
from gputopo.throughput.phases import PhaseRules
from gputopo_deviceplugin.counters.faults import CounterError, FaultKind
from gputopo_deviceplugin.counters.poller import readable
from gputopo_deviceplugin.counters.session import CounterSession
from gputopo_deviceplugin.gpus.discover import discover
from gputopo_deviceplugin.gpus.hardware import NodeHardware
from gputopo_deviceplugin.gpus.link_ends import link_peers
from gputopo_deviceplugin.gpus.nvml import Nvml
from gputopo_deviceplugin.measure.container_meter import ContainerMeter
from gputopo_deviceplugin.measure.environment import Environment
from gputopo_kube.podruntime import ContainerRuntime

_SERVERS: Final = ("dgx1-v100", "dgx-a100", "dgx-h100", "hgx-b200")
_READS: Final = 300
_WARM_SECONDS: Final = 20


def run(options: Options) -> None:
    """Measure reads of all counters, with one container on all GPUs; print the CPU time."""
    sys.path.append(str(Path(__file__).parents[1] / "tools"))
    from fakenvml.build import build_library  # noqa: PLC0415 - in the folder just added

    reads = 2 if options.quick else _READS
    cells = []
    with tempfile.TemporaryDirectory(prefix="gt-") as name:
        library = build_library(Path(name)).parent
        for server in _SERVERS:
            reading, adding = _seconds(server, library, reads)
            cells.append(
                [server, f"{reading * 1e3:,.2f}", f"{adding * 1e3:,.2f}", f"{reading + adding:.2%}"]
            )
    head = ["", "read, CPU ms", "container, CPU ms", "of a CPU at 1 Hz"]
    show("Node agent, counters of 8 GPUs, simulated driver included", head, cells)


def _seconds(server: str, library: Path, reads: int) -> tuple[float, float]:
    """Return the CPU time of one read of all GPUs, and of adding it to one container."""
    from fakenvml.render import render  # noqa: PLC0415 - in the folder that `run` has added

    (library / "topology.conf").write_text(render(named(server, node="n1")))
    os.environ["FAKE_NVML_TOPOLOGY"] = str(library / "topology.conf")
    nvml = Nvml(library)
    snapshot = nvml.read_gpus()
    topology = discover(snapshot, (), None)
    hardware = NodeHardware(topology, {}, None, link_peers(topology, snapshot))
    session = CounterSession(library)
    gpus, no_exporter = readable(hardware), CounterError(FaultKind.UNSUPPORTED, "none")
    meter = _warm_meter(frozenset(gpus))
    reading = timed(lambda: session.read(gpus, no_exporter), times=reads).cpu
    found = session.read(gpus, no_exporter)
    adding = timed(lambda: meter.add_counters(found, [*gpus], hardware), times=reads).cpu
    session.close()
    nvml.close()
    return reading, adding


def _warm_meter(gpus: frozenset[str]) -> ContainerMeter:
    """Return the meter of a container whose warm-up is over."""
    environment = Environment(
        profile="bert",
        source="SDK",
        gpus=frozenset(),
        gpu_model=f"{len(gpus)} GPUs",
        bandwidth=None,
        runtime=ContainerRuntime(),
        on_socket=(),
        on_node=(),
    )
    meter = ContainerMeter(PhaseRules(warm_up_seconds=1))
    meter.enter(environment, 0)
    for second in range(_WARM_SECONDS):
        meter.add(StepMessage("run", 10 * second, float(second)), second)
    return meter
