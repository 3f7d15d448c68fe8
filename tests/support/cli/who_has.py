"""Changes of the users of GPUs, and the differences that gputopo who-has shows."""

import json
from typing import Any

from gputopo.api.names import GPUS_ANNOTATION
from support.api.static import Document, StaticApi
from support.cli.command_line import Command
from support.cli.healthy_cluster import PODS, TOPOLOGIES, uuids


def train(api: StaticApi) -> Document:
    """Return the pod that uses GPUs of n1."""
    return api.lists[PODS][0]


def seen(api: StaticApi, index: int) -> Document:
    """Return the observed state of a GPU of n1."""
    (uuid,) = uuids("n1", index)
    gpus = api.lists[TOPOLOGIES][0]["status"]["gpus"]
    return next(gpu for gpu in gpus if gpu["uuid"] == uuid)


def annotate(pod: Document, **changed: Any) -> None:
    """Change fields of the annotation with the GPUs of a pod."""
    annotations = pod["metadata"]["annotations"]
    annotations[GPUS_ANNOTATION] = json.dumps(
        {**json.loads(annotations[GPUS_ANNOTATION]), **changed}
    )


def differences(gputopo: Command) -> list[tuple[Any, ...]]:
    """Return node, GPU, pod and difference of each GPU with a difference."""
    rows = gputopo("who-has -o json").document
    return [
        (row["node"], row["index"], (row["pod"] or {}).get("name"), row["difference"])
        for row in rows
        if row["difference"]
    ]
