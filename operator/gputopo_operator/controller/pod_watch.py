"""Watches the pods that gputopo sizes, and pending pods while there are sized pods.

Without pods that have the label ``gputopo.io/tuned``, the operator keeps one watch for each
namespace that it serves, and the API server sends nothing over this watch.

kopf has only one label selector for all pods, which selects those of GPUJobs. It can neither select
pods by their fields nor end a watch while the operator runs. So these watches use gputopo's
reflector.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from gputopo.api.names import TUNED_LABEL
from gputopo_kube.client import ALL_NAMESPACES, AsyncApi, Listing, WatchEvent
from gputopo_kube.document import Document
from gputopo_kube.reflector import ListWatchTiming, Reflector
from gputopo_kube.resources import PodDocument
from gputopo_operator.controller.sized_pods import SizedPods
from gputopo_operator.controller.waiting_pods import WaitingPods
from gputopo_operator.model.workloads import WaitingPod, WatchedPod
from gputopo_operator.parse.pending import parse_waiting_pod
from gputopo_operator.parse.watched import parse_watched_pod
from gputopo_operator.settings import OperatorSettings

_PENDING: Final = {"spec.nodeName": "", "status.phase": "Pending"}


class PodWatch:
    """Watches pods and reports the nodes that must decide again."""

    def __init__(
        self,
        api: AsyncApi,
        sized: SizedPods,
        waiting: WaitingPods,
        settings: OperatorSettings,
        changed: Callable[[Iterable[str]], None],
    ) -> None:
        """Call ``changed`` with the names of the nodes that must decide again."""
        self._sized = sized
        self._waiting = waiting
        self._changed = changed
        self._exist = asyncio.Event()
        self._scope: asyncio.Timeout | None = None
        self._timing = ListWatchTiming(settings.resync_seconds)
        scopes = settings.namespace_names or (ALL_NAMESPACES,)
        self._reflectors = [self._sized_reflector(api, scope) for scope in scopes]

        def parse(raw: Document) -> tuple[str, WaitingPod | None]:
            return raw["metadata"]["uid"], parse_waiting_pod(raw, settings.resource)

        self._pending = Reflector(
            "pending pods",
            api.objects(PodDocument, parse, namespace=ALL_NAMESPACES, fields=_PENDING),
            on_list=self._list_pending,
            on_event=self._change_pending,
            timing=self._timing,
        )

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors:
                group.create_task(reflector.run())
            group.create_task(self._watch_pending())

    async def _watch_pending(self) -> None:
        """Watch pending pods while there are sized pods."""
        while True:
            await self._exist.wait()
            try:
                async with asyncio.timeout(None) as self._scope:
                    await self._pending.run()
            except TimeoutError:
                self._waiting.replace(())

    def _sized_reflector(self, api: AsyncApi, scope: str) -> Reflector[WatchedPod]:
        def on_list(listing: Listing[WatchedPod]) -> None:
            self._report(self._sized.replace(scope, listing.items))

        def on_event(event: WatchEvent[WatchedPod]) -> None:
            self._report(self._sized.change(scope, event.item, deleted=event.deleted))

        labels = {TUNED_LABEL: "true"}
        return Reflector(
            "sized pods",
            api.objects(PodDocument, parse_watched_pod, namespace=scope, labels=labels),
            on_list=on_list,
            on_event=on_event,
            timing=self._timing,
        )

    def _report(self, nodes: set[str]) -> None:
        if self._sized:
            self._exist.set()
        else:
            self._exist.clear()
            if self._scope is not None and not self._scope.expired():
                self._scope.reschedule(asyncio.get_running_loop().time())
        self._changed(nodes)

    def _list_pending(self, listing: Listing[tuple[str, WaitingPod | None]]) -> None:
        self._changed(self._waiting.replace(pod for _, pod in listing.items if pod is not None))

    def _change_pending(self, event: WatchEvent[tuple[str, WaitingPod | None]]) -> None:
        uid, pod = event.item
        self._changed(self._waiting.change(uid, None if event.deleted else pod))
