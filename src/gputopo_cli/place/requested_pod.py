"""Make the pod of a what-if question from options or from a manifest."""

from collections.abc import Sequence
from typing import Any, Final

import yaml

from gputopo.api.request import RequestAnnotations, format_request
from gputopo.api.shares import share_resource
from gputopo.patterns.declared import DeclaredPattern
from gputopo.sensitivity.resolve import Sensitivity
from gputopo_cli.place.options import PlaceOptions
from gputopo_cli.place.place import parse_edges
from gputopo_cli.shared.errors import InputError
from gputopo_cli.shared.files import read_text
from gputopo_explain.objects import ClusterObjects, LiveKind
from gputopo_explain.templates import WORKLOADS, ManifestError, pod_of
from gputopo_kube.document import Document
from gputopo_kube.priorities import priorities_of

_SENSITIVITY: Final = {
    None: Sensitivity.AUTO,
    True: Sensitivity.SENSITIVE,
    False: Sensitivity.INSENSITIVE,
}


def pod_of_options(
    options: PlaceOptions, objects: ClusterObjects, *, share: bool = False
) -> Document:
    """Return a pod of one container that requests the GPUs of the options, or a share of one.

    Raises:
        InputError: if the number of GPUs is missing, or an edge is invalid.
    """
    if options.gpus is None:
        raise InputError("gpus: is required without --filename")
    if share and options.gpus != 1:
        raise InputError(f"gpus: {options.gpus} is not allowed with --share; must be 1")
    edges = parse_edges(options.edges)
    request = RequestAnnotations(
        pattern=_pattern(options, has_edges=bool(edges)),
        edges=tuple(edges),
        sensitivity=_SENSITIVITY[options.sensitive],
        policy=options.policy,
    )
    settings = objects.installation
    name = share_resource(settings.resource) if share else settings.resource
    amounts = {name: str(options.gpus)}
    container = {"name": "main", "resources": {"requests": amounts, "limits": amounts}}
    workload = {
        "kind": "Pod",
        "metadata": {"name": "new-pod", "annotations": format_request(request)},
        "spec": {"schedulerName": settings.scheduler_name, "containers": [container]},
    }
    return pod_of(workload)


def _pattern(options: PlaceOptions, *, has_edges: bool) -> DeclaredPattern:
    if options.pattern is not None:
        return DeclaredPattern(options.pattern.value)
    return DeclaredPattern.CUSTOM if has_edges else DeclaredPattern.AUTO


def pod_of_manifest(path: str, objects: ClusterObjects) -> Document:
    """Return the pod that the only workload of a YAML or JSON file would create.

    Raises:
        InputError: if the file cannot be read, or has no workload, several, or an invalid one.
    """
    workload = _only_workload(_documents(path))
    settings = objects.installation
    try:
        return pod_of(
            workload,
            resource=settings.resource,
            scheduler=settings.scheduler_name,
            priorities=priorities_of(objects[LiveKind.PRIORITY_CLASSES]),
        )
    except ManifestError as error:
        raise InputError(f"filename: {error}") from None


def _documents(path: str) -> list[Any]:
    text = read_text(path, "filename")
    try:
        return [each for each in yaml.safe_load_all(text) if each is not None]
    except (yaml.YAMLError, ValueError) as error:
        first = str(error).partition("\n")[0]
        raise InputError(f"filename: not valid YAML: {first}") from None
    except RecursionError:
        raise InputError("filename: is nested too deeply") from None


def _only_workload(documents: Sequence[Any]) -> Document:
    if len(documents) == 1 and isinstance(documents[0], dict):
        return documents[0]
    found = [it for it in documents if isinstance(it, dict) and it.get("kind") in WORKLOADS]
    if len(found) != 1:
        raise InputError(
            f"filename: has {len(found)} objects of the kinds {', '.join(WORKLOADS)}: "
            "leave exactly one"
        )
    workload: Document = found[0]
    return workload
