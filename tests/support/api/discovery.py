"""The discovery documents of the fake API server: kopf looks kinds up before it watches them."""

from functools import cache

from support.api.store import CLUSTER_SCOPED, Document

_KINDS = {
    ("", "v1", "namespaces"): "Namespace",
    ("", "v1", "nodes"): "Node",
    ("", "v1", "pods"): "Pod",
    ("apiextensions.k8s.io", "v1", "customresourcedefinitions"): "CustomResourceDefinition",
    ("batch", "v1", "jobs"): "Job",
    ("events.k8s.io", "v1", "events"): "Event",
    ("gputopo.io", "v1alpha1", "gpuensembles"): "GPUEnsemble",
    ("gputopo.io", "v1alpha1", "gpujobs"): "GPUJob",
    ("gputopo.io", "v1alpha1", "gpuprofiles"): "GPUProfile",
    ("gputopo.io", "v1alpha1", "gputopologies"): "GPUTopology",
}


def discovery_page(path: str) -> Document | None:
    """Return the discovery document at a path, None if there is none."""
    return _pages().get(path)


@cache
def _pages() -> dict[str, Document]:
    pages: dict[str, Document] = {"/version": {"major": "1", "minor": "36"}}
    groups: dict[str, Document] = {}
    for (group, version, plural), kind in _KINDS.items():
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        page = pages.setdefault(path, {"groupVersion": version, "resources": []})
        resource: Document = {"name": plural, "singularName": kind.lower(), "kind": kind}
        resource |= {"namespaced": plural not in CLUSTER_SCOPED, "verbs": ["list", "watch"]}
        page["resources"] += [resource, {**resource, "name": f"{plural}/status"}]
        if group:
            entry = {"version": version}
            groups[group] = {"name": group, "versions": [entry], "preferredVersion": entry}
    return {**pages, "/api": {"versions": ["v1"]}, "/apis": {"groups": list(groups.values())}}
