"""Another client sends hundreds of pod-resources Lists per second while pods are admitted."""

import asyncio
import threading
import time
from typing import Self

import grpc

from faulttest import pods
from faulttest.bench import Bench
from faulttest.scenario import Options
from gputopo_deviceplugin.kubelet.podresources import api_pb2, api_pb2_grpc

_SOCKET = "/var/lib/kubelet/pod-resources/kubelet.sock"
_PER_SECOND = 500
_PODS = 8
_ROUNDS = 3
_LIMIT_SECONDS = 60.0


class Flood:
    """Sends Lists in its own thread.

    Attributes:
        lists: number of Lists.
        rejected: number of Lists that kubelet's rate limit rejected.
    """

    def __init__(self, socket: str, per_second: int) -> None:
        self._target, self._every_seconds = f"unix://{socket}", 1 / per_second
        self._ended = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._run()), name="flood", daemon=True
        )
        self.lists = self.rejected = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    async def _run(self) -> None:
        options = [("grpc.default_authority", "localhost")]
        async with grpc.aio.insecure_channel(self._target, options=options) as channel:
            stub = api_pb2_grpc.PodResourcesListerStub(channel)
            due = time.monotonic()
            async with asyncio.TaskGroup() as lists:
                while not self._ended.is_set():
                    lists.create_task(self._list(stub))
                    due += self._every_seconds
                    await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def _list(self, stub: api_pb2_grpc.PodResourcesListerStub) -> None:
        self.lists += 1
        try:
            await stub.List(api_pb2.ListPodResourcesRequest())
        except grpc.aio.AioRpcError:
            self.rejected += 1


def carry_out(bench: Bench, options: Options) -> None:
    """Admit eight pods at a time on one node during the flood."""
    rounds, ran, lists, rejected = options.rounds or _ROUNDS, 0, 0, 0
    seconds = 0.0
    for number in range(rounds):
        began = time.monotonic()
        with Flood(str(bench.machines.file(bench.nodes[0], _SOCKET)), _PER_SECOND) as flood:
            uids = _admit(bench, number)
        seconds += time.monotonic() - began
        lists, rejected = lists + flood.lists, rejected + flood.rejected
        ran += sum(bench.runs(uid) for uid in uids)
        bench.judge_failed(uids)
        bench.remove_pods()
    bench.seen["admissions"] = rounds * _PODS
    bench.seen["pods that ran"] = ran
    bench.seen["Lists"] = f"{lists} in {seconds:.0f} s, {rejected} rejected by kubelet"


def _admit(bench: Bench, number: int) -> list[str]:
    """Create the pods and return their UIDs once each runs or failed."""
    time.sleep(1)
    uids = [
        bench.create(pods.pod(f"one-{number}-{place}", 1, bench.image, bench.nodes[0]))
        for place in range(_PODS)
    ]
    bench.reach(
        "all pods run or fail",
        lambda: all(bench.runs(uid) or bench.failed(uid) for uid in uids),
        _LIMIT_SECONDS,
        "pods that wait",
    )
    return uids
