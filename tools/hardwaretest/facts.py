"""What the node agent sees of the GPUs: topology, events, counters."""

import asyncio
from pathlib import Path

from gputopo.api.topology import to_spec
from gputopo.topology.model import GpuIndex, GpuUuid
from gputopo_deviceplugin.counters.faults import CounterError, FaultKind
from gputopo_deviceplugin.counters.session import CounterSession, ReadGpu
from gputopo_deviceplugin.gpus.numa import read_numa_nodes
from gputopo_deviceplugin.gpus.session import NvmlSession
from hardwaretest.client import Container, GpuProgram
from hardwaretest.report import Report

_NO_EXPORTER = CounterError(FaultKind.FAILED, "not used here")


def read_gpus(library_dir: Path, report: Report) -> GpuUuid:
    """Report the topology as the agent publishes it; return the UUID of the first GPU."""
    session = NvmlSession(library_dir, read_numa_nodes(Path("/sys")))
    topology, snapshot = session.read_topology(None)
    report.check(
        "NVML: GPUs of the node",
        holds=not snapshot.failures,
        driver=snapshot.driver_version,
        failures=snapshot.failures,
        listens_for_xids=session.listens,
        spec=to_spec(topology).model_dump(mode="json", by_alias=True, exclude_none=True),
    )
    session.close()
    return topology.gpus[0].uuid


async def read_counters(library_dir: Path, uuid: GpuUuid, report: Report) -> None:
    """Report the counters of an idle and of a busy GPU."""
    session = CounterSession(library_dir)
    gpus = {uuid: ReadGpu(GpuIndex(0), ())}
    program = await GpuProgram.start(Container({}, {"CUDA_VISIBLE_DEVICES": uuid}))
    await program.request("open")
    readings = []
    await program.send("spin", seconds=3.5)
    for _ in range(4):
        await asyncio.sleep(0.8)
        readings.append(session.read(gpus, _NO_EXPORTER)[uuid])
    await program.reply()
    last = readings[-1]
    report.check(
        "counters of a GPU with one busy block",
        holds=last.counters.load is not None and last.counters.pcie is not None,
        sources=last.sources,
        faults=last.faults,
        loads=[each.counters.load for each in readings],
        pcie=[each.counters.pcie for each in readings],
    )
    await program.end()
    session.close()
