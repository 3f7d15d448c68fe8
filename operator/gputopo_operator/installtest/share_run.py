"""Lets two pods share a GPU, and removes everything again."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from gputopo_kube.document import Document
from gputopo_kube.errors import ApiError, ConflictError, NotFoundError
from gputopo_kube.sync import SyncApi
from gputopo_operator.installtest import dryruns, shares
from gputopo_operator.installtest.settings import InstallTestSettings
from gputopo_operator.installtest.verdict import InstallCheck

_PROFILES: Final = ("apis", "gputopo.io", "v1alpha1", "namespaces")
_POLL_SECONDS: Final = 0.5
_FACTS_SECONDS: Final = 12.0
"""The extender uses new facts after at most 10 s."""


def check_shares(
    api: SyncApi, settings: InstallTestSettings, allowed: Callable[[dryruns.DryRun], bool]
) -> InstallCheck:
    """Return the result; skip the check where no pods can share a GPU.

    ``allowed`` returns whether the account of the test may create an object.
    """
    if settings.sharing == "Off":
        return shares.skipped("sharing.enabled is false")
    pods = ("api", "v1", "namespaces", settings.namespace, "pods")
    if not allowed(dryruns.DryRun(shares.NAME, "", "pods", pods, {})):
        return shares.skipped(
            "the account of the test may not create pods; the chart gives this right only with"
            " admissionPolicies.enabled"
        )
    try:
        found = shares.shareable_node(api.list("apis", "gputopo.io", "v1alpha1", "gputopologies"))
        if found is None:
            return shares.skipped("no node has an idle GPU now that pods can share")
        with _objects(api, settings, *found):
            return _judge(api, settings)
    except ApiError as error:
        return shares.failed(str(error))


@contextmanager
def _objects(api: SyncApi, settings: InstallTestSettings, node: str, model: str) -> Iterator[None]:
    """Create the GPUProfile and the pods for the time of the block."""
    namespace = settings.namespace
    profiles = (*_PROFILES, namespace, "gpuprofiles")
    pods = ("api", "v1", "namespaces", namespace, "pods")
    paths = [(*profiles, shares.PROFILE), *((*pods, name) for name in shares.PODS)]
    _remove(api, paths, settings.share_seconds)  # of an earlier test that was interrupted
    try:
        api.request("POST", profiles, shares.profile(namespace))
        status = (*profiles, shares.PROFILE, "status")
        api.request("PATCH", status, shares.facts(namespace, model))
        time.sleep(_FACTS_SECONDS)
        for name in shares.PODS:
            made = shares.pod(
                name, node, settings.resource, settings.scheduler_name, settings.image
            )
            _start(api, pods, made, settings.share_seconds)
        yield
    finally:
        _remove(api, paths, 0)


def _start(api: SyncApi, pods: tuple[str, ...], made: Document, seconds: float) -> None:
    """Create a pod, and wait until it runs or the time is over."""
    api.request("POST", pods, made)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not shares.why_not_running(api.get(*pods, made["metadata"]["name"])):
            return
        time.sleep(_POLL_SECONDS)


def _judge(api: SyncApi, settings: InstallTestSettings) -> InstallCheck:
    path = ("api", "v1", "namespaces", settings.namespace, "pods")
    pods = [api.get(*path, name) for name in shares.PODS]
    for each in pods:
        if problem := shares.why_not_running(each):
            return shares.failed(f"{each['metadata']['name']} does not run: {problem}")
    logs = [_log(api, (*path, name, "log"), settings.share_seconds) for name in shares.PODS]
    return shares.judge_shares(pods, logs, settings.sharing)


def _log(api: SyncApi, path: tuple[str, ...], seconds: float) -> Document:
    """Return the only line of a pod's log, a JSON object; empty if it comes not in time."""
    deadline = time.monotonic() + seconds
    while True:
        with suppress(ApiError):  # a running container has no log for a moment
            return api.get(*path)
        if time.monotonic() >= deadline:
            return {}
        time.sleep(_POLL_SECONDS)


def _remove(api: SyncApi, paths: list[tuple[str, ...]], seconds: float) -> None:
    """Delete objects; wait until they are gone or the time is over."""
    deadline = time.monotonic() + seconds
    for path in paths:
        with suppress(NotFoundError, ConflictError):
            api.request("DELETE", path)
    while any(api.find(*path) for path in paths) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
