"""The pods that share a GPU, as the component for MPS reads them."""

import json
from typing import Any
from unittest.mock import Mock

from hypothesis import given
from hypothesis import strategies as st

from gputopo.api.names import GPUS_ANNOTATION, SHARING_TERMINATION_ANNOTATION
from gputopo_kube.changes import ChangeSignal
from gputopo_kube.listwatch import Listing, WatchEvent
from gputopo_mps.pods import (
    BEFORE_KILL_SECONDS,
    SharingPod,
    SharingPods,
    parse_sharing_pod,
)
from support.builders.shares import SHARES, sharing_pod


def ends_itself(mode: str, recorded: str | None) -> bool:
    """Return how a bound pod ends: its annotation now, and the value in the Binding."""
    document = sharing_pod(
        "a", share="GPU-a::0", annotations={SHARING_TERMINATION_ANNOTATION: mode}
    )
    annotations = document["metadata"]["annotations"]
    if recorded is not None:
        written = json.loads(annotations[GPUS_ANNOTATION])
        written["request"] = {"sharing-termination": recorded} if recorded else {}
        annotations[GPUS_ANNOTATION] = json.dumps(written, separators=(",", ":"))
    found = parse_sharing_pod(document, SHARES)
    assert found is not None
    return found.ends_itself


def test_termination_is_the_one_that_was_recorded_at_the_binding() -> None:
    assert ends_itself("Program", None)
    assert not ends_itself("Client", None)
    assert ends_itself("Client", "Program")
    assert not ends_itself("Program", "Client")
    assert not ends_itself("Program", "")


pods_of_the_node = st.lists(
    st.builds(
        SharingPod,
        uid=st.sampled_from(["a", "b", "c"]),
        kill_at=st.sampled_from([None, 1.0, 2.0, 3.0, 4.0, 5.0]),
        ends_itself=st.booleans(),
        ended=st.booleans(),
        gpus=st.sampled_from([frozenset[str](), frozenset({"GPU-a"})]),
        memory_bytes=st.sampled_from([None, 1]),
    ),
    unique_by=lambda pod: pod.uid,
)


def known(*pods: SharingPod, changes: ChangeSignal | None = None) -> SharingPods:
    """Return these pods as listed."""
    client: Any = Mock()
    signal = changes or ChangeSignal()
    found = SharingPods(client, signal, node="n1", resource=SHARES, silence_seconds=7)
    found._replace(Listing([*pods, None], "1"))
    return found


@given(pods_of_the_node, st.integers(-1, 5))
def test_clients_are_terminated_when_their_time_has_come(pods: list[SharingPod], now: int) -> None:
    times = {
        pod.uid: pod.kill_at - BEFORE_KILL_SECONDS if pod.ends_itself else 0.0
        for pod in pods
        if pod.kill_at is not None
    }
    found = known(*pods)
    assert found.due(now) == {uid for uid, time in times.items() if time <= now}
    assert found.next_due(now) == min((it for it in times.values() if it > now), default=None)


@given(pods_of_the_node)
def test_pods_that_have_ended_declare_no_memory(pods: list[SharingPod]) -> None:
    running = [pod for pod in pods if not pod.ended]
    found = known(*pods)
    assert found.running == len(running)
    declared = {pod.uid: pod.memory_bytes for pod in running if pod.gpus}
    assert (found.declared("GPU-a"), found.declared("GPU-b")) == (declared, {})


def test_events_add_replace_and_remove_pods() -> None:
    changes = ChangeSignal()
    found = known(SharingPod("a"), SharingPod("b"), changes=changes)
    events: list[WatchEvent[SharingPod | None]] = [
        WatchEvent(SharingPod("a"), deleted=True),
        WatchEvent(None, deleted=False),
        WatchEvent(SharingPod("b", ended=True), deleted=False),
        WatchEvent(SharingPod("c"), deleted=False),
        WatchEvent(SharingPod("unknown"), deleted=True),
    ]
    assert found.is_listed
    for event in events:
        found._apply(event)
    assert (found.running, changes.count) == (1, 5)
