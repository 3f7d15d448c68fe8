"""A ResourceQuota forbids GPUProfiles: a GPUJob must report that, and run when it is allowed."""

from faulttest.bench import Bench
from faulttest.pods import NAMESPACE
from faulttest.scenario import Options
from soaktest import manifests
from soaktest.client import Object

_QUOTAS = f"/api/v1/namespaces/{NAMESPACE}/resourcequotas"
_JOBS = f"/apis/gputopo.io/v1alpha1/namespaces/{NAMESPACE}/gpujobs"
_JOB_SECONDS = 300.0
_STATUS_SECONDS = 60.0
_RUNNING_SECONDS = 90.0


def carry_out(bench: Bench, _: Options) -> None:
    """Create a GPUJob under the quota, read its status, and remove the quota."""
    bench.create(
        {
            "metadata": {"name": "no-profiles"},
            "spec": {"hard": {"count/gpuprofiles.gputopo.io": "0"}},
        },
        _QUOTAS,
    )
    bench.reach("the quota is in force", lambda: "hard" in _get(bench, "no-profiles"))
    job = manifests.job("limited", 2, bench.image, _JOB_SECONDS, "Ring")
    job["spec"]["workload"] = {"profile": "not-there-yet"}  # the operator creates it
    bench.create(job, _JOBS)
    bench.seen["seconds until the GPUJob has a status that names the quota"] = bench.reach(
        "the GPUJob's status names the quota",
        lambda: "quota" in _conditions(bench, "limited"),
        _STATUS_SECONDS,
    )
    found = bench.patient(lambda: _conditions(bench, "limited"))
    bench.seen["status of the GPUJob"] = found or "none"
    bench.patient(lambda: bench.client.delete(f"{_QUOTAS}/no-profiles"))
    bench.seen["seconds until it runs without the quota"] = bench.reach(
        "the GPUJob runs without the quota",
        lambda: _status(bench, "limited").get("phase") == "Running",
        _RUNNING_SECONDS,
    )
    bench.patient(lambda: bench.client.delete(f"{_JOBS}/limited"))
    bench.reach("the GPUJob is gone", lambda: not bench.client.get(_JOBS)["items"])


def _get(bench: Bench, name: str) -> Object:
    found: Object = bench.client.get(f"{_QUOTAS}/{name}").get("status", {})
    return found


def _status(bench: Bench, name: str) -> Object:
    found: Object = bench.client.get(f"{_JOBS}/{name}").get("status", {})
    return found


def _conditions(bench: Bench, name: str) -> str:
    status = _status(bench, name)
    texts = [
        f"{one['type']}={one['status']} {one['reason']}: {one['message']}"
        for one in status.get("conditions", [])
    ]
    return "; ".join([f"phase {status['phase']}", *texts]) if status else ""
