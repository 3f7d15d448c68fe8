"""Parses the Jobs, pods and the Service of the preprocessors of GPUEnsembles."""

from collections.abc import Iterable, Sequence

from gputopo.api.names import ENSEMBLE_PREPROCESSOR_LABEL
from gputopo_kube.document import Document, controller_of, true_condition
from gputopo_kube.podmodel import known_parts
from gputopo_operator.model.ensembles import PreprocessorJob, PreprocessorService
from gputopo_operator.parse.jobs import RESULTS


def parse_preprocessors(
    jobs: Iterable[Document], pods: Sequence[Document] = ()
) -> dict[str, list[PreprocessorJob]]:
    """Return the Jobs of preprocessors, by UID of the ensemble that owns them.

    Any client can create a Job with the label, so Jobs of other owners are skipped.
    """
    found: dict[str, list[PreprocessorJob]] = {}
    for raw in jobs:
        metadata, owner = raw["metadata"], controller_of(raw)
        if ENSEMBLE_PREPROCESSOR_LABEL not in metadata["labels"]:
            continue
        if owner.get("kind") != "GPUEnsemble":
            continue
        end = _end(raw)
        job = PreprocessorJob(
            name=metadata["name"],
            cores=_cores(raw["spec"]["template"]["spec"]["containers"]),
            suspended=bool(raw["spec"].get("suspend")),
            ready=bool((raw.get("status") or {}).get("ready")),
            message=end or _message(raw, pods),
            ended=bool(end),
            expires="ttlSecondsAfterFinished" in raw["spec"],
        )
        found.setdefault(str(owner["uid"]), []).append(job)
    return found


def parse_service(raw: Document | None) -> PreprocessorService | None:
    """Return the Service with the name of that of a preprocessor; None if there is none."""
    if raw is None:
        return None
    owner = str(controller_of(raw).get("uid", ""))
    return PreprocessorService(owner, str(raw["spec"].get("clusterIP") or ""))


def _cores(containers: Sequence[Document]) -> int:
    """Return the CPUs of the first container; 0 if they are not a whole number."""
    first = containers[0] if containers else {}
    cpus = str(((first.get("resources") or {}).get("limits") or {}).get("cpu", ""))
    return int(cpus) if cpus.isdecimal() else 0


def _end(job: Document) -> str:
    """Return why a Job starts no pods any more; empty if it can still start one."""
    name = job["metadata"]["name"]
    if "deletionTimestamp" in job["metadata"]:
        return f"Job {name} is being deleted"
    if (end := true_condition(job, *RESULTS)) is not None:
        text = end.get("message") or end.get("reason") or "no message"
        return f"Job {name} has ended: {text}"
    return ""


def _message(job: Document, pods: Iterable[Document]) -> str:
    """Return why the pod of a Job is not ready; empty if this is unknown."""
    own = (pod for pod in pods if controller_of(pod).get("uid") == job["metadata"]["uid"])
    return next((text for text in map(_message_of_pod, own) if text), "")


def _message_of_pod(raw: Document) -> str:
    pod = known_parts(raw)
    waiting = (each.waiting or {} for each in pod.status.containers)
    texts = [str(each["message"]) for each in waiting if each.get("message")]
    if (found := pod.status.unschedulable) is not None:
        texts = [found.message or ""]
    return f"pod {pod.metadata.name}: {texts[0]}" if texts else ""
