"""The two pods that must get shares of one GPU, and whether they got what they must have."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gputopo.api.annotations import AnnotationError, parse_gpus
from gputopo.api.names import API_VERSION, PROFILE_ANNOTATION
from gputopo.api.shares import gpu_of, is_share, share_resource
from gputopo_kube.document import Document
from gputopo_operator.installtest.dryruns import SECURITY
from gputopo_operator.installtest.settings import Sharing
from gputopo_operator.installtest.topologies import why_not_ready
from gputopo_operator.installtest.verdict import InstallCheck, InstallVerdict

NAME: Final = "shared GPU"
PODS: Final = ("gputopo-test-share-1", "gputopo-test-share-2")
PROFILE: Final = "gputopo-test-share"

_PROGRAM: Final = """
import json, os, time
pipe = os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "")
files = sorted(os.listdir(pipe)) if os.path.isdir(pipe) else []
names = [each for each in os.environ if each.startswith("CUDA_")]
print(json.dumps({"env": {each: os.environ[each] for each in names}, "pipe": files}), flush=True)
time.sleep(90)
"""
_CONTROL: Final = "control"
"""Socket of the MPS daemon in its pipe directory."""

_NAME_FIELD: Final = "metadata.name"


def shareable_node(topologies: Sequence[Document]) -> tuple[str, str] | None:
    """Return name and GPU model of a node with an idle GPU that pods can share, or None."""
    for each in topologies:
        status = each.get("status") or {}
        if not status.get("sharing") or why_not_ready(each):
            continue
        models = {gpu["uuid"]: gpu["model"] for gpu in each["spec"]["gpus"]}
        for gpu in status.get("gpus") or ():
            used = {"podUID", "pod", "shares", "sharingFault"} & gpu.keys()
            if gpu.get("healthy") and not used and gpu["uuid"] in models:
                return each["metadata"]["name"], models[gpu["uuid"]]
    return None


def profile(namespace: str) -> Document:
    """Return the GPUProfile of both pods."""
    metadata = {"name": PROFILE, "namespace": namespace}
    return {"apiVersion": API_VERSION, "kind": "GPUProfile", "metadata": metadata, "spec": {}}


def facts(namespace: str, model: str) -> Document:
    """Return the status by which the workload gains beside itself: it slows itself down by 5 %."""
    alone = {"microStepsPerSecond": 10**6, "ciPermille": 10, "samples": 5}
    beside = {"beside": [f"{namespace}/{PROFILE}"], "speedPermille": 950, "ciPermille": 10}
    found = {"gpuModel": model, "alone": alone, "sharing": [{**beside, "samples": 5}]}
    return {"status": {"facts": found}}


def pod(name: str, node: str, resource: str, scheduler_name: str, image: str) -> Document:
    """Return a pod of a node that shows what its container has, and then waits."""
    term = {"matchFields": [{"key": _NAME_FIELD, "operator": "In", "values": [node]}]}
    required = {"nodeSelectorTerms": [term]}
    amounts = {"cpu": "10m", "memory": "32Mi"}
    container = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-c", _PROGRAM],
        "resources": {"requests": amounts, "limits": {**amounts, share_resource(resource): "1"}},
        "securityContext": SECURITY,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {PROFILE_ANNOTATION: PROFILE}},
        "spec": {
            "schedulerName": scheduler_name,
            "serviceAccountName": "default",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 3,
            "activeDeadlineSeconds": 110,
            "tolerations": [{"operator": "Exists"}],
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}
            },
            "containers": [container],
        },
    }


def skipped(text: str) -> InstallCheck:
    """Return the check of an installation or cluster in which no pods can share a GPU."""
    return InstallCheck(NAME, InstallVerdict.SKIPPED, text)


def failed(text: str) -> InstallCheck:
    """Return the check of an installation in which the pods did not get what they must have."""
    return InstallCheck(NAME, InstallVerdict.FAILED, text)


def why_not_running(document: Document) -> str:
    """Return why a pod does not run; empty if it runs."""
    status = document.get("status") or {}
    phase = status.get("phase", "Unknown")
    if phase == "Running":
        return ""
    conditions = [each.get("message", "") for each in status.get("conditions") or ()]
    reasons = [status.get("message", ""), *conditions]
    return ": ".join([phase, *[each for each in reasons if each][:1]])


def judge_shares(
    pods: Sequence[Document], logs: Sequence[Mapping[str, Any]], sharing: Sharing
) -> InstallCheck:
    """Return whether both pods have shares, and what a container with a share must have."""
    devices = [_device(each) for each in pods]
    for each, device, log in zip(pods, devices, logs, strict=True):
        problem = _problem(device, log)
        if problem:
            return failed(f"{each['metadata']['name']}: {problem}")
    gpus = {gpu_of(device) for device in devices}
    if len(set(devices)) < len(devices) or (sharing == "Together" and len(gpus) > 1):
        return failed(f"the pods have {' and '.join(devices)}, not different shares of one GPU")
    text = f"{len(pods)} pods have shares of {' and '.join(sorted(gpus))}, and reach MPS"
    return InstallCheck(NAME, InstallVerdict.PASSED, text)


def _device(document: Document) -> str:
    """Return the only device in the annotation; empty if there is no such device."""
    try:
        found = parse_gpus(document["metadata"].get("annotations") or {})
    except AnnotationError:
        return ""
    devices = [each for named in (found.containers if found else {}).values() for each in named]
    return devices[0] if len(devices) == 1 else ""


def _problem(device: str, log: Mapping[str, Any]) -> str:
    variables, files = log.get("env", {}), log.get("pipe", [])
    if not is_share(device):
        return "its annotation gputopo.io/gpus names no share of a GPU"
    if variables.get("CUDA_VISIBLE_DEVICES") != gpu_of(device):
        seen = variables.get("CUDA_VISIBLE_DEVICES", "no GPU")
        return f"the container has {seen}, but the annotation names {device}"
    if not variables.get("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "").startswith("0="):
        return "the container has no limit for its GPU memory"
    if _CONTROL not in files:
        return "the container has no directory with the socket of MPS"
    return ""
