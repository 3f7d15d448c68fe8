"""Calls the extender as kube-scheduler does: PascalCase, both modes, four verbs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp import ClientSession

from support.builders.objects import Document


@dataclass(frozen=True, slots=True)
class Filtered:
    """A response of filter."""

    fits: list[str]
    failed: dict[str, str]
    unresolvable: dict[str, str]
    error: str


@dataclass(slots=True)
class Scheduler:
    """A client of the four verbs; ``cached`` is nodeCacheCapable."""

    http: ClientSession
    url: str
    cached: bool = True

    async def filter(self, pod: Document, nodes: Sequence[str]) -> Filtered:
        """Call filter and check that the response has the mode of the request."""
        reply = await self._post("filter", self._args(pod, nodes))
        if self.cached:
            assert reply["Nodes"] is None
            fits = reply["NodeNames"] or []
        else:
            assert reply["NodeNames"] is None
            fits = [item["metadata"]["name"] for item in (reply["Nodes"] or {}).get("items", [])]
        return Filtered(
            fits, reply["FailedNodes"], reply["FailedAndUnresolvableNodes"], reply["Error"]
        )

    async def prioritize(self, pod: Document, nodes: Sequence[str]) -> dict[str, int]:
        """Call prioritize."""
        reply = await self._post("prioritize", self._args(pod, nodes))
        return {each["Host"]: each["Score"] for each in reply}

    async def bind(self, pod: Document, node: str) -> str:
        """Call bind and return its error; empty means bound."""
        metadata = pod["metadata"]
        reply = await self._post(
            "bind",
            {
                "PodName": metadata["name"],
                "PodNamespace": metadata["namespace"],
                "PodUID": metadata["uid"],
                "Node": node,
            },
        )
        return str(reply["Error"])

    async def preempt(
        self, pod: Document, offers: Mapping[str, Sequence[Document]]
    ) -> dict[str, list[str]]:
        """Call preempt and return the UIDs of the victims on each node that remains."""
        body: Document = {"Pod": pod, "NodeNameToVictims": None, "NodeNameToMetaVictims": None}
        if self.cached:
            body["NodeNameToMetaVictims"] = {
                node: {
                    "Pods": [{"UID": each["metadata"]["uid"]} for each in victims],
                    "NumPDBViolations": 1,
                }
                for node, victims in offers.items()
            }
        else:
            body["NodeNameToVictims"] = {
                node: {"Pods": list(victims), "NumPDBViolations": 1}
                for node, victims in offers.items()
            }
        found = (await self._post("preempt", body))["NodeNameToMetaVictims"]
        assert {victims["NumPDBViolations"] for victims in found.values()} <= {1}
        return {
            node: [victim["UID"] for victim in victims["Pods"]] for node, victims in found.items()
        }

    async def schedule(self, pod: Document, nodes: Sequence[str]) -> str | None:
        """Call the verbs for one pod; return its node, None if no node fits or bind fails."""
        fits = (await self.filter(pod, nodes)).fits
        if not fits:
            return None
        best = fits[0]
        if len(fits) > 1:
            scores = await self.prioritize(pod, fits)
            best = max(fits, key=lambda node: scores[node])
        return None if await self.bind(pod, best) else best

    def _args(self, pod: Document, nodes: Sequence[str]) -> Document:
        if self.cached:
            return {"Pod": pod, "Nodes": None, "NodeNames": list(nodes)}
        items = [{"metadata": {"name": node, "labels": {"a": "b"}}} for node in nodes]
        return {"Pod": pod, "Nodes": {"metadata": {}, "items": items}, "NodeNames": None}

    async def _post(self, verb: str, body: Document) -> Any:
        async with self.http.post(f"{self.url}/{verb}", json=body) as response:
            assert response.status == 200, await response.text()
            return await response.json()
