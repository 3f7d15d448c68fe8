"""Parses the objects for a decision about a GPUJob or a GPUProfile."""

from contextlib import suppress

from pydantic import ValidationError

from gputopo.api.annotations import AnnotationError, GpusAnnotation, parse_placement
from gputopo.api.known_facts import FactsAnnotation, parse_facts
from gputopo.api.link_runs import LinkRunResult, LinksResult
from gputopo.api.names import FACTS_ANNOTATION, LINK_RESULT_ANNOTATION, SENSITIVITY_ANNOTATION
from gputopo.api.profile import GPUProfile
from gputopo.api.profiling import ProfilingState, parse_profiling_state
from gputopo.api.readable import readable_status
from gputopo.api.tuning import (
    ResourcesMode,
    TuningRequest,
    parse_tuned_record,
    parse_tuning_request,
)
from gputopo.api.v1alpha1 import GPUJobSpec, GPUJobStatus
from gputopo.runtime.messages import first_error
from gputopo_kube.document import Document, ObjectKey, controller_of, true_condition
from gputopo_kube.own_gpus import own_gpus
from gputopo_kube.podmodel import PodObject, parse_pod_object
from gputopo_kube.podruntime import ContainerRuntime, runtime_of
from gputopo_kube.pods import PodView, view_of
from gputopo_kube.tuned_pod import container_obstacle
from gputopo_operator.model.jobs import ChildJob, GpuJob, JobPod, JobResult, LinkRun, PodSize
from gputopo_operator.model.workloads import ProfileState

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"

_JOB_CONTROLLER = "kubernetes.io/job-controller"

RESULTS = ("Complete", "Failed")
"""Types of the conditions that show that a GPUJob or Job has succeeded or failed."""


def has_ended(raw: Document) -> bool:
    """Return whether the status of a GPUJob or Job shows that it has succeeded or failed."""
    return true_condition(raw, *RESULTS) is not None


def end_of(job: Document) -> str | None:
    """Return when a Job was suspended or ended; None if it can have a running pod."""
    end = true_condition(job, *RESULTS, "Suspended")
    return None if end is None else end.get("lastTransitionTime")


def job_start(job: Document) -> str | None:
    """Return when the Job controller started a Job; None if it has not, or the Job has ended."""
    if job["spec"].get("suspend") or end_of(job) is not None:
        return None
    started: str | None = (job.get("status") or {}).get("startTime")
    return started


def is_current(raw: Document) -> bool:
    """Return whether the status of an object is of its newest generation."""
    observed = (raw.get("status") or {}).get("observedGeneration")
    return bool(observed == raw["metadata"].get("generation"))


def parse_gpu_job(raw: Document) -> GpuJob:
    """Return a GPUJob; ``spec_error`` and ``status_error`` describe what is invalid."""
    metadata = raw["metadata"]
    spec, spec_error = None, ""
    try:
        spec = GPUJobSpec.model_validate(raw.get("spec", {}))
    except ValidationError as error:
        spec_error = first_error(error, prefix="spec")
    status, status_error = readable_status(GPUJobStatus, raw.get("status"))
    return GpuJob(
        key=ObjectKey(metadata["namespace"], metadata["name"]),
        uid=metadata["uid"],
        generation=metadata.get("generation", 0),
        labels=metadata.get("labels", {}),
        deleting="deletionTimestamp" in metadata,
        spec=spec,
        spec_error=spec_error,
        status=status,
        status_error=status_error,
    )


def parse_child_job(raw: Document) -> ChildJob:
    """Parse a batch/v1 Job: an existing Job, or a new Job that the operator will create."""
    metadata, spec, status = raw["metadata"], raw["spec"], raw.get("status", {})
    pod_annotations = spec["template"].get("metadata", {}).get("annotations", {})
    return ChildJob(
        uid=metadata.get("uid", ""),
        resource_version=metadata.get("resourceVersion", ""),
        owner_uid=str(controller_of(raw).get("uid", "")),
        deleting="deletionTimestamp" in metadata,
        suspended=spec.get("suspend", False),
        backoff_limit=spec["backoffLimit"],
        queue=metadata.get("labels", {}).get(QUEUE_LABEL, ""),
        failed=status.get("failed", 0),
        sensitivity=pod_annotations.get(SENSITIVITY_ANNOTATION, ""),
        facts=_facts(pod_annotations.get(FACTS_ANNOTATION)),
        result=_job_result(raw),
        links=LinksResult.parse(metadata.get("annotations", {}).get(LINK_RESULT_ANNOTATION)),
        parallelism=spec.get("parallelism", 1),
        own_pods=not spec.get("manualSelector")
        and spec.get("managedBy", _JOB_CONTROLLER) == _JOB_CONTROLLER,
    )


def parse_link_run(raw: Document) -> LinkRun:
    """Parse the Job of a short run that measures links."""
    job, metadata = parse_child_job(raw), raw["metadata"]
    annotations = metadata.get("annotations", {})
    return LinkRun(
        name=metadata["name"],
        uid=job.uid,
        resource_version=job.resource_version,
        owner_uid=job.owner_uid,
        created=metadata["creationTimestamp"],
        result=LinkRunResult.parse(annotations.get(LINK_RESULT_ANNOTATION)),
        finished=job.result is not None,
    )


def parse_job_pod(raw: Document) -> JobPod:
    """Return a pod. Annotations that cannot be parsed are treated as missing.

    Raises:
        PodError: the object is not a valid pod; the message names the field.
    """
    pod = parse_pod_object(raw)
    view, gpus, placement = view_of(pod), None, None
    try:
        gpus = own_gpus(view)
        placement = parse_placement(view.annotations) if gpus else None
    except AnnotationError:
        pass  # condition Placed reports that gputopo has chosen no GPUs
    profiling = None
    with suppress(AnnotationError):  # the next step of the measurement replaces the annotation
        profiling = parse_profiling_state(view.annotations, view.uid)
    return JobPod(
        view=view,
        status=pod.status,
        job_uid=pod.metadata.controller_uid,
        created=pod.metadata.creation_timestamp or "",
        gpus=gpus,
        placement=placement,
        profiling=profiling,
        size=_size(pod, view, gpus, profiling) if gpus else None,
    )


def _size(
    pod: PodObject, view: PodView, gpus: GpusAnnotation, profiling: ProfilingState | None
) -> PodSize | None:
    """Return the CPU and memory of the container with GPUs; None if the pod is not resized."""
    request, record, obstacle = TuningRequest(ResourcesMode.AUTO), None, ""
    try:
        request = parse_tuning_request(view.annotations)
        record = parse_tuned_record(view.annotations, view.uid)
    except AnnotationError as error:
        obstacle = str(error)
    if request.mode is ResourcesMode.FIXED:
        return None
    name = next(iter(gpus.containers), "")
    for container in pod.spec.containers:
        if container.name == name:
            obstacle = obstacle or container_obstacle(pod, container)
    limits = runtime_of(pod).containers.get(name, ContainerRuntime())
    return PodSize(
        request,
        limits.milli_cpu,
        limits.memory_bytes,
        record,
        pod.unapplied_resize,
        obstacle,
        measuring=profiling is not None and not profiling.restored,
    )


def parse_profile(raw: Document, *, complete: bool = False) -> GPUProfile:
    """Parse a GPUProfile for the decision about a GPUJob.

    If ``complete`` is false, the result has only the spec and the annotation for pods, which takes
    less time. A part in an unknown format of a newer operator is left out.
    """
    spec, status = raw.get("spec", {}), raw.get("status", {})
    text = status.get("podAnnotation")
    known = {"podAnnotation": text if _facts(text) else None}
    if complete:
        with suppress(ValidationError):
            return GPUProfile.model_validate({"spec": spec, "status": {**status, **known}})
    return GPUProfile.model_validate({"spec": spec, "status": known})


def parse_profile_state(raw: Document) -> ProfileState:
    """Parse a GPUProfile with all its samples."""
    metadata, profile = raw["metadata"], GPUProfile.model_validate(raw)
    return ProfileState(
        key=ObjectKey(metadata["namespace"], metadata["name"]),
        generation=metadata.get("generation", 0),
        created=metadata["creationTimestamp"],
        deleting="deletionTimestamp" in metadata,
        spec=profile.spec,
        status=profile.status,
    )


def _facts(text: str | None) -> FactsAnnotation | None:
    """Parse the annotation with facts; None if it is missing or has a newer operator's format."""
    try:
        return None if text is None else parse_facts({FACTS_ANNOTATION: text})
    except AnnotationError:
        return None


def _job_result(job: Document) -> JobResult | None:
    found = true_condition(job, *RESULTS)
    if found is None:
        return None
    return JobResult(
        succeeded=found["type"] == "Complete",
        reason=found.get("reason", ""),
        message=found.get("message", ""),
    )
