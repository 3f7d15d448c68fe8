"""The work queue of ensembles gets the keys of changed objects, and all keys periodically."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import kopf
import pytest

from gputopo.api.names import ENSEMBLE_LABEL
from gputopo_kube.sync import SyncApi
from gputopo_operator.controller import ensemble_queue
from gputopo_operator.controller.ensemble_queue import EnsembleQueue
from gputopo_operator.controller.job_api import JobApi
from gputopo_operator.controller.parts import PartInputs
from gputopo_operator.settings import OperatorSettings
from support.api.faults import Fault
from support.operator.nodes import listed_nodes
from support.operator.process import eventually
from support.operator.served_ensemble import KEY, Served


@pytest.fixture
def queue(served: Served, connection: SyncApi) -> EnsembleQueue:
    objects = JobApi(connection)
    settings = OperatorSettings(resync_seconds=0.05)
    return EnsembleQueue(
        PartInputs(
            *(settings, connection, objects, listed_nodes(objects), served.metrics),
            ThreadPoolExecutor(1),
        )
    )


async def until_planned(served: Served, queue: EnsembleQueue) -> None:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(loop) for loop in queue.loops()]
        await asyncio.to_thread(eventually, "jobs", lambda: served.api.all("gpujobs"))
        for task in tasks:
            task.cancel()


async def test_resync_adds_all_ensembles_and_survives_errors(
    served: Served, queue: EnsembleQueue
) -> None:
    served.api.faults.append(Fault("GET", "/gpuensembles", 500))
    await until_planned(served, queue)
    assert served.of("a")["phase"] in {"Waiting", "Starting"}


async def test_changed_ensembles_and_jobs_of_members_are_added(
    queue: EnsembleQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ensemble_queue, "GATHER_SECONDS", 0.0)
    registry = kopf.OperatorRegistry()
    queue.watch(registry)
    handlers: list[Any] = [handler.fn for handler in registry._watching.get_all_handlers()]
    ensemble_changed, member_changed = handlers
    for name, type_ in (("search", "ADDED"), ("search", "MODIFIED"), ("new", "MODIFIED")):
        await ensemble_changed(event=event(type_), namespace="default", name=name)
    assert len(queue._queue) == 2
    await member_changed(namespace=KEY.namespace, labels={ENSEMBLE_LABEL: "other"})
    await asyncio.sleep(0.01)
    assert len(queue._queue) == 3


@pytest.mark.parametrize(
    ("type_", "generation", "new"),
    [
        ("MODIFIED", 1, False),  # a status, which only the operator writes
        ("MODIFIED", 2, True),
        ("ADDED", 1, True),
        (None, 1, True),
        ("DELETED", 1, True),
    ],
)
def test_event_of_the_operators_own_status_is_not_new(
    queue: EnsembleQueue, type_: str | None, generation: int, *, new: bool
) -> None:
    assert queue._is_new(KEY, event("MODIFIED"))
    assert queue._is_new(KEY, event(type_, generation)) is new


def event(type_: str | None, generation: int = 1) -> kopf.RawEvent:
    changed: Any = {"type": type_, "object": {"metadata": {"generation": generation}}}
    return cast("kopf.RawEvent", changed)
