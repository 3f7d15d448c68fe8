"""Creates and deletes the jobs and pods of the soak, and resizes some of them as another client."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from gputopo.api.measuring import MeasuringRequest
from gputopo.api.tuning import ResourcesMode
from learntest import laws
from learntest.bench import Bench
from learntest.manifests import Run
from resizetest import manifests
from resizetest.manifests import Sizing
from resizetest.soaking import facts, plan
from resizetest.soaking.plan import Item, Offer
from resizetest.soaking.watch import Watch
from soaktest.client import Object, RejectedError, UnavailableError
from soaktest.reasons import kind_of

_CONFLICT = 409
_BUSY_SECONDS, _QUIET_SECONDS = 180.0, 240.0
_EVERY_SECONDS = 4.0
_RETRY_SECONDS = 0.5
_NEVER_SECONDS = 86_400

_RESIZED_TO = 77
"""An amount that gputopo is unlikely to choose."""


@dataclass(slots=True)
class _Present:
    item: Item
    until: float
    resize_at: float | None


class Load:
    """Keeps the nodes of the soak busy for three minutes, and unchanged for the next four.

    Without arrivals and departures nothing may be resized, whatever is killed.
    """

    def __init__(self, bench: Bench, watch: Watch, rng: random.Random) -> None:
        self._bench, self._watch, self._rng = bench, watch, rng
        self._present: list[_Present] = []
        self._began = self._next = time.monotonic()
        self._offers = {
            node: plan.offers(rng, node, watch.capacity(node), gpus, number)
            for number, (node, (_, gpus)) in enumerate(sorted(watch.judge.nodes.items()))
        }

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is created and deleted now."""
        passed = (time.monotonic() - self._began) % (_BUSY_SECONDS + _QUIET_SECONDS)
        return passed > _BUSY_SECONDS

    def prepare(self) -> None:
        """Create the GPUProfiles with facts."""
        path = f"/apis/gputopo.io/v1alpha1/namespaces/{self._bench.namespace}/gpuprofiles"
        for name, enough in plan.ENOUGH.items():
            made = self._bench.client.create(path, facts.profile(name))
            status = facts.status(name, enough, made["metadata"]["generation"])
            self._bench.client.patch_as_operator(f"{path}/{name}/status", {"status": status})

    def step(self) -> None:
        """Create, delete or resize what is due."""
        now = time.monotonic()
        self._delete_rejected()
        if self.is_quiet:
            return
        for each in [one for one in self._present if one.until < now]:
            self._delete(each)
        for each in self._present:
            if each.resize_at is not None and each.resize_at < now:
                self._resize(each)
        if now >= self._next:
            self._next = now + self._rng.uniform(0.2, 1.8) * _EVERY_SECONDS
            self._create(next(self._offers[self._rng.choice(sorted(self._offers))]))

    def end(self) -> None:
        """Delete everything."""
        for each in [*self._present]:
            self._delete(each)

    def _delete_rejected(self) -> None:
        """Delete pods that kubelet has rejected; the operator replaces those of GPUJobs."""
        failed = self._watch.failed()
        for each in [one for one in self._present if not one.item.expected.is_job]:
            pod = failed.get(each.item.expected.name)
            if pod is not None:
                self._bench.journal.count(f"pods rejected by kubelet: {kind_of(pod.why)}")
                self._delete(each)

    def _create(self, offer: Offer) -> None:
        item = offer.item
        if not offer.fits(each.item for each in self._present if each.item.node == item.node):
            return
        made = _manifest(item, self._bench)
        path = self._bench.jobs if item.expected.is_job else self._bench.pods
        self._watch.created(item.node, item.expected)
        now = time.monotonic()
        after = item.resized_after
        resize_at = None if after is None else now + after
        self._present.append(_Present(item, now + item.seconds, resize_at))
        self._bench.journal.note(f"create {item.expected}")
        self._bench.journal.count(f"created: {item.kind.name}")
        self._repeat(lambda: self._bench.client.create(path, made))

    def _delete(self, present: _Present) -> None:
        expected = present.item.expected
        path = self._bench.jobs if expected.is_job else self._bench.pods
        self._watch.deleted(present.item.node, expected.name)
        self._present.remove(present)
        self._repeat(lambda: self._bench.client.delete(f"{path}/{expected.name}"))

    def _resize(self, present: _Present) -> None:
        """Resize a running pod as another client.

        What a pod has when the operator sees it for the first time, is its floor. So the resize
        waits for the operator's record, which may be late after a kill.
        """
        pod = self._watch.running(present.item.expected.name)
        if pod is not None and not pod.record:
            return
        present.resize_at = None
        if pod is None:
            return
        raw = self._bench.client.get(f"{self._bench.pods}/{pod.name}")
        self._watch.resized(pod.uid, pod.size._replace(request=_RESIZED_TO, limit=_RESIZED_TO))
        self._bench.resize(raw, _RESIZED_TO)
        self._bench.journal.count("pods resized by another client")

    def _repeat(self, request: Callable[[], object]) -> None:
        """Send a request until the API server has responded to it."""
        while True:
            try:
                request()
            except UnavailableError:
                time.sleep(_RETRY_SECONDS)
            except RejectedError as error:
                if error.status != _CONFLICT:  # it was created by the request before
                    raise
                return
            else:
                return


def _manifest(item: Item, bench: Bench) -> Object:
    expected, kind = item.expected, item.kind
    if kind.mode == plan.FILLER:
        image = bench.installed.workload_image
        return manifests.filler(expected.name, item.node, expected.created.request, image)
    law = laws.plain_law(1) | ({} if expected.learns else {"seconds": _NEVER_SECONDS})
    run = Run(
        expected.name,
        law,
        item.node,
        gpus=expected.gpus,
        milli_cpu=expected.created.request,
        measuring=MeasuringRequest(profile=kind.profile or None),
    )
    memory = f"{plan.GUARANTEED_MEMORY // plan.MEBIBYTE}Mi" if kind.guaranteed else None
    sizing = Sizing(ResourcesMode(kind.mode), kind.most, memory)
    image = bench.installed.trainer_image
    if kind.is_job:
        return manifests.job(run, sizing, image)
    made = manifests.pod(run, sizing, image)
    limits = made["spec"]["containers"][0]["resources"]["limits"]
    limits["cpu"] = f"{expected.created.limit}m"
    return made
