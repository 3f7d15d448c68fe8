"""Jobs that give data to every query of the dashboard."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

from faulttest import pods
from gputopo.api.measuring import MeasuringRequest
from learntest import laws
from learntest.manifests import Run
from monitortest.component_causes import queued
from monitortest.sharing_causes import sharing_pod
from monitortest.site import JOBS, NAMESPACE, PODS, Site, repeating
from resizetest import manifests
from resizetest.manifests import Sizing
from resizetest.soaking import facts
from showcase.kubectl import wait_for
from soaktest import manifests as plain

_PROFILES: Final = f"/apis/gputopo.io/v1alpha1/namespaces/{NAMESPACE}/gpuprofiles"
_PROFILE: Final = "hungry"
_RATE_SECONDS: Final = 240.0
_CHURN_SECONDS: Final = 4.0
_SHARING: Final = ("sharing-1", "sharing-2")
_FILLER: Final = "filler"
_FILLER_MILLI_CPU: Final = 500


@contextmanager
def busy(site: Site) -> Iterator[None]:
    """Run a queue, a resized and measured job, sharing pods, and pods that come and go."""
    with queued(site), repeating(_CHURN_SECONDS, partial(_churn, site)):
        for name in _SHARING if site.runs_mps else ():
            site.create(sharing_pod(name, site.installed.trainer_image, site.node))
        _measure_and_resize(site)
        yield


def _measure_and_resize(site: Site) -> None:
    """Start a measured job beside a pod that takes CPUs, and remove this pod after a sample."""
    site.client.create(_PROFILES, facts.profile(_PROFILE))
    status = {"status": facts.status(_PROFILE, enough=2000, generation=1)}
    site.client.patch_as_operator(f"{_PROFILES}/{_PROFILE}/status", status)
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


def _churn(site: Site, number: int) -> None:
    """Create a pod and a GPUJob, and delete the pod before."""
    if number > 1:
        site.client.delete(f"{PODS}/churn-{number - 1}")
    site.create(pods.pod(f"churn-{number}", 2, site.image, site.node))
    job = plain.job(f"job-{number}", 2, site.image, 2.0, "Ring")
    job["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": site.node}
    site.client.create(JOBS, job)
