"""Jobs that give data to every query of the dashboard."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from faulttest import pods
from gputopo.api.measuring import MeasuringRequest
from learntest import laws
from learntest.manifests import Run
from monitortest.component_causes import queued
from monitortest.site import JOBS, NAMESPACE, PODS, Site
from resizetest import manifests
from resizetest.manifests import Sizing
from resizetest.soaking import facts
from showcase.kubectl import wait_for
from soaktest import manifests as plain
from soaktest.client import RejectedError, UnavailableError

_PROFILES: Final = f"/apis/gputopo.io/v1alpha1/namespaces/{NAMESPACE}/gpuprofiles"
_PROFILE: Final = "hungry"
_RATE_SECONDS: Final = 240.0
_CHURN_SECONDS: Final = 4.0
_FILLER: Final = "filler"
_FILLER_MILLI_CPU: Final = 500


@contextmanager
def busy(site: Site) -> Iterator[None]:
    """Run a queue, a job that was resized while it was measured, and pods that come and go."""
    with queued(site), _churning(site):
        _measure_and_resize(site)
        yield


def _measure_and_resize(site: Site) -> None:
    """Start a measured job beside a pod that takes CPUs, and remove this pod after a sample."""
    site.client.create(_PROFILES, facts.profile(_PROFILE))
    status = {"status": facts.status(_PROFILE, enough=2000, generation=1)}
    site.client.patch(f"{_PROFILES}/{_PROFILE}/status", status)
    filler = manifests.filler(_FILLER, site.node, _FILLER_MILLI_CPU, site.image)
    site.start(filler)
    measuring = MeasuringRequest(profile=_PROFILE)
    run = Run("measured", laws.plain_law(1), site.node, 1, 100, measuring=measuring)
    site.client.create(JOBS, manifests.job(run, Sizing(), site.installed.trainer_image))
    wait_for("the rate of the job is known", lambda: _rate(site), timeout_s=_RATE_SECONDS)
    site.client.delete(f"{PODS}/{_FILLER}")


def _rate(site: Site) -> int:
    status = site.get(f"{JOBS}/measured").get("status", {})
    return int(status.get("throughput", {}).get("microStepsPerSecond", 0))


@contextmanager
def _churning(site: Site) -> Iterator[None]:
    """Create and delete a pod and a GPUJob every few seconds, in a thread."""
    ended = threading.Event()
    thread = threading.Thread(target=_churn, args=(site, ended), name="churn")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _churn(site: Site, ended: threading.Event) -> None:
    number = 0
    while not ended.wait(_CHURN_SECONDS):
        number += 1
        with suppress(RejectedError, UnavailableError):
            site.create(pods.pod(f"churn-{number}", 2, site.image, site.node))
            site.client.create(JOBS, plain.job(f"job-{number}", 2, site.image, 2.0, "Ring"))
        with suppress(RejectedError, UnavailableError):
            site.client.delete(f"{PODS}/churn-{number - 1}")
