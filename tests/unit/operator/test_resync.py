"""The resync finds what a watch has lost of GPUJobs and GPUProfiles."""

import asyncio

import pytest

from gputopo_kube.document import ObjectKey
from gputopo_operator.controller.job_api import JobApi
from gputopo_operator.controller.node_store import NodeStore
from gputopo_operator.controller.queues import Queues
from gputopo_operator.controller.resync import Resync
from gputopo_operator.controller.work_queue import WorkQueue
from gputopo_operator.metrics import OperatorMetrics
from support.api.faults import Fault
from support.api.server import ApiServer
from support.builders.gpujobs import gpu_job
from support.builders.node_reports import gpu_profile, measurement, reporting


class Process:
    """The queues of an operator, whose workers only note the keys."""

    def __init__(self, api: JobApi, *namespaces: str) -> None:
        self.jobs: set[ObjectKey] = set()
        self.profiles: set[ObjectKey] = set()
        self.metrics = OperatorMetrics()

        async def note_job(key: ObjectKey) -> None:
            self.jobs.add(key)

        async def note_profile(key: ObjectKey) -> None:
            self.profiles.add(key)

        self.queues = Queues(
            WorkQueue(note_job),
            WorkQueue(note_profile),
            namespaces=namespaces,
            profile_delay_seconds=0.0,
        )
        self.resync = Resync(api, self.queues, self.metrics, namespaces)

    def named(self, keys: set[ObjectKey]) -> set[str]:
        return {*map(str, keys)}

    async def run_until(self, *, jobs: set[str], profiles: set[str]) -> None:
        """Run the resync until these keys, as ``NAMESPACE/NAME``, were handled, and no others."""
        tasks = [
            asyncio.create_task(self.queues.jobs.run(1)),
            asyncio.create_task(self.queues.profiles.run(1)),
            asyncio.create_task(self.resync.run(0.01)),
        ]
        try:
            async with asyncio.timeout(20):
                while (self.named(self.jobs), self.named(self.profiles)) != (jobs, profiles):  # noqa: ASYNC110 - other tasks change it
                    await asyncio.sleep(0.01)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def test_resync_finds_jobs_and_profiles(api: ApiServer, job_api: JobApi) -> None:
    api.create("gpujobs", gpu_job("train"))
    result = {"type": "Complete", "status": "True"}
    for name, generation in (("ended", 1), ("ended-and-edited", 0)):
        status = {"observedGeneration": generation, "conditions": [result]}
        api.create("gpujobs", {**gpu_job(name), "status": status})
    api.create("gpuprofiles", gpu_profile("edited"))
    api.create("gpuprofiles", {**gpu_profile("current"), "status": {"observedGeneration": 1}})
    process = Process(job_api)
    for name in ("deleted", "ended"):
        process.metrics.set_job(ObjectKey("default", name), "Running")
    await process.run_until(
        jobs={"default/train", "default/deleted", "default/ended-and-edited"},
        profiles={"default/edited"},
    )


async def test_failed_list_does_not_stop_the_resync(
    api: ApiServer, job_api: JobApi, caplog: pytest.LogCaptureFixture
) -> None:
    api.create("gpujobs", gpu_job("train"))
    api.create("gpuprofiles", gpu_profile("bert"))
    for kind in ("gpujobs", "gpuprofiles"):
        api.faults.append(Fault("GET", f"/{kind}", 500, f"{kind} injected"))
    await Process(job_api).run_until(jobs={"default/train"}, profiles={"default/bert"})
    assert "resync failed reason=" in caplog.text


async def test_operator_of_a_namespace_updates_its_profiles_only(
    api: ApiServer, job_api: JobApi
) -> None:
    other = [measurement(namespace="other"), measurement("b", profile="own")]
    process, nodes = Process(job_api, "default"), NodeStore()
    nodes.reports.subscribe(process.queues.report_changed)
    nodes.reports.follow({"type": "ADDED", "object": reporting("n1", measurements=other)})
    api.create("gpujobs", gpu_job("train"))
    await process.run_until(jobs={"default/train"}, profiles={"default/own"})
