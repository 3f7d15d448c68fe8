"""The status of the counters, for ``gputopo profile show`` and the page."""

from gputopo.api.v1alpha1 import CounterStatus
from gputopo.counters.model import GpuCounters
from gputopo_deviceplugin.counters.gpu_reader import CounterKind, GpuReading, unreadable
from gputopo_deviceplugin.counters.status import counter_status, unavailable


def reading(
    kind: CounterKind, source: str | None, *faults: tuple[str, str], epoch: int = 0
) -> GpuReading:
    return GpuReading(GpuCounters(), (0, epoch), {kind: source}, {kind: faults})


def load(*readings: GpuReading) -> CounterStatus:
    [status] = [each for each in counter_status(readings) if each.kind == "Load"]
    return status


def test_before_the_first_read_there_is_no_status() -> None:
    assert counter_status([]) == []


def test_all_gpus_with_the_best_source() -> None:
    found = load(*[reading("Load", "GPM")] * 8)
    assert found == CounterStatus(kind="Load", source="GPM", gpus=8)


def test_the_message_names_better_sources_and_the_number_of_gpus() -> None:
    worse = reading("Load", "Utilization", ("GPM", "no permission"), ("DCGM", "no exporter"))
    found = load(*[worse] * 2, reading("Load", "GPM"))
    assert (found.source, found.gpus) == ("Utilization", 3)
    assert found.message == "DCGM: no exporter (2 GPUs); GPM: no permission (2 GPUs)"
    assert load(reading("Load", "GPM"), worse).message.startswith("DCGM: no exporter (1 GPU); ")


def test_gpus_that_cannot_be_read_are_counted_out() -> None:
    found = load(unreadable("NVML: GPU is lost", 0, ("Load",)), reading("Load", "GPM"))
    assert (found.source, found.gpus) == ("GPM", 1)
    assert found.message == "NVML: NVML: GPU is lost (1 GPU)"


def test_a_counter_that_no_gpu_has() -> None:
    [nvlink, *_] = counter_status([reading("Load", "GPM")])
    assert nvlink == CounterStatus(
        kind="NVLink", source="None", gpus=0, message="no GPU has this counter: NVLink"
    )


def test_a_long_message_fits_into_the_status() -> None:
    many = [reading("Load", None, ("DCGM", "x" * 300 + str(each))) for each in range(3)]
    assert len(load(*many).message) == 512


def test_nothing_can_be_read() -> None:
    found = unavailable("NVML hangs " * 100)
    assert [each.kind for each in found] == ["NVLink", "PCIe", "Load"]
    assert {(each.source, each.gpus, len(each.message)) for each in found} == {("None", 0, 512)}
