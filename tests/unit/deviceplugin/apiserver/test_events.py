"""The agent records what users must know as events."""

import asyncio

from gputopo_deviceplugin.apiserver.events import EventRecorder
from gputopo_deviceplugin.metrics import AgentMetrics
from gputopo_kube.changes import ChangeSignal
from gputopo_kube.document import Document, ObjectKey
from gputopo_kube.pods import PodView


class Events:
    def __init__(self) -> None:
        self.created: list[Document] = []

    async def create_event(self, event: Document) -> None:
        self.created.append(event)


async def test_invalid_annotation_about_measuring_is_an_event_of_the_pod() -> None:
    events = Events()
    recorder = EventRecorder(events, "n1", AgentMetrics(), ChangeSignal())
    pod = PodView("uid-a", ObjectKey("ml", "a"))
    recorder.record_invalid_measuring(pod, "gputopo.io/profiling: 'Memory' is not one of CPUs")
    await asyncio.sleep(0)
    [event] = events.created
    assert (event["reason"], event["type"]) == ("NotMeasured", "Warning")
    assert event["involvedObject"]["uid"] == "uid-a"
    assert event["message"] == "gputopo.io/profiling: 'Memory' is not one of CPUs"


async def test_fault_of_a_shared_gpu_names_its_cause() -> None:
    events = Events()
    recorder = EventRecorder(events, "n1", AgentMetrics(), ChangeSignal())
    pod = PodView("uid-a", ObjectKey("ml", "a"))
    for cause in (pod, PodView("uid-b", ObjectKey("ml", "b")), None):
        recorder.record_sharing_fault(pod, cause, "Xid 13")
    await asyncio.sleep(0)
    assert [each["message"] for each in events.created] == [
        "the pod caused a fatal fault on its shared GPU: Xid 13",
        "pod ml/b caused a fatal fault on the shared GPU: Xid 13",
        "a fatal fault on the shared GPU, of unknown cause: Xid 13",
    ]
    assert {each["reason"] for each in events.created} == {"SharedGPUFault"}
    assert {each["involvedObject"]["uid"] for each in events.created} == {"uid-a"}


async def test_pod_above_its_memory_gets_an_event() -> None:
    events = Events()
    recorder = EventRecorder(events, "n1", AgentMetrics(), ChangeSignal())
    recorder.record_memory_excess(PodView("uid-a", ObjectKey("ml", "a")), "too much")
    await asyncio.sleep(0)
    [event] = events.created
    assert (event["reason"], event["message"]) == ("SharedMemoryExceeded", "too much")
