"""The operator's requests to the API server for GPUEnsembles."""

from typing import Final

from gputopo.api.names import ENSEMBLE_LABEL, ENSEMBLE_PREPROCESSOR_LABEL, GROUP, VERSION
from gputopo_kube.document import Document, ObjectKey
from gputopo_operator.controller.job_queue_api import JobQueueApi
from gputopo_operator.model.ensembles import JobDeletion, service_name

_GPUTOPO: Final = ("apis", GROUP, VERSION)


class EnsembleApi(JobQueueApi):
    """Reads GPUEnsembles and the GPUJobs of their members, and creates and deletes these GPUJobs.

    Any thread may call the methods. Errors are those of ``JobApi``.
    """

    def ensemble(self, key: ObjectKey) -> Document | None:
        """Return the GPUEnsemble; None if it does not exist."""
        return self._api.find(*_path(key.namespace, "gpuensembles"), key.name)

    def ensemble_uids(self) -> dict[ObjectKey, str]:
        """Return the UIDs of all GPUEnsembles."""
        found = self._each(_GPUTOPO, "gpuensembles")
        return {ObjectKey.of(each): str(each["metadata"]["uid"]) for each in found}

    def member_jobs(self) -> list[Document]:
        """Return the GPUJobs of the members of all ensembles."""
        return [*self._each(_GPUTOPO, "gpujobs", ENSEMBLE_LABEL)]

    def member_children(self) -> list[Document]:
        """Return the batch/v1 Jobs of the GPUJobs of all members."""
        return [*self._each(("apis", "batch", "v1"), "jobs", ENSEMBLE_LABEL)]

    def preprocessor_pods(self, ensemble: ObjectKey) -> list[Document]:
        """Return the pods of the preprocessors of an ensemble."""
        path = ("api", "v1", "namespaces", ensemble.namespace, "pods")
        selector = f"{ENSEMBLE_PREPROCESSOR_LABEL},{ENSEMBLE_LABEL}={ensemble.name}"
        return self._api.list(*path, selector=selector)

    def service(self, ensemble: ObjectKey) -> Document | None:
        """Return the Service with the name of that of the preprocessor; None if there is none."""
        path = ("api", "v1", "namespaces", ensemble.namespace, "services")
        return self._api.find(*path, service_name(ensemble.name))

    def create_gpu_job(self, manifest: Document) -> None:
        """Create a GPUJob. The API server rejects unknown and duplicate fields."""
        path = _path(manifest["metadata"]["namespace"], "gpujobs")
        self._api.request("POST", path, manifest, {"fieldValidation": "Strict"})

    def create_preprocessor(self, manifest: Document) -> None:
        """Create the Service or the Job of a preprocessor."""
        namespace = manifest["metadata"]["namespace"]
        job = manifest["kind"] == "Job"
        api = ("apis", "batch", "v1") if job else ("api", "v1")
        path = (*api, "namespaces", namespace, "jobs" if job else "services")
        self._api.request("POST", path, manifest, {"fieldValidation": "Strict"})

    def delete_gpu_job(self, deletion: JobDeletion) -> None:
        """Delete a GPUJob if it still has this UID; Kubernetes then deletes its Job and pod.

        Raises:
            NotFoundError: it does not exist.
            ConflictError: it has another UID.
        """
        path = (*_path(deletion.key.namespace, "gpujobs"), deletion.key.name)
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": deletion.uid},
            "propagationPolicy": "Background",
        }
        self._api.request("DELETE", path, options)


def _path(namespace: str, plural: str) -> tuple[str, ...]:
    return (*_GPUTOPO, "namespaces", namespace, plural)
