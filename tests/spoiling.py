"""Spoiling a cluster that is well, one thing at a time, and what ``gputopo doctor`` then finds."""

import json
from collections.abc import Callable
from typing import Any

from canned_api import CannedApi, Document
from command_line import Command
from healthy_cluster import CONFIG_MAPS, CONFIGURATION, PODS, TOPOLOGIES

OPERATOR, SCHEDULER = 0, 1
"""Places of their Deployments in the list."""

Spoil = Callable[[CannedApi], object]
Found = tuple[str, str, str, str]
"""Check, severity, object, problem."""


def findings(gputopo: Command) -> list[Found]:
    """Return what is found at once, and check that every finding says what to do."""
    done = gputopo("doctor --settle 0 -o json")
    document = done.document
    told = [
        (check["check"], each["severity"], each["object"], each["problem"])
        for check in document["checks"]
        for each in check["findings"]
        if each["todo"]
    ]
    assert len(told) == document["errors"] + document["warnings"]
    assert done.status == (3 if document["errors"] else 0)
    return told


def todo(gputopo: Command) -> str:
    """Return what is to be done about the one finding."""
    document = gputopo("doctor --settle 0 -o json").document
    (found,) = [each["todo"] for check in document["checks"] for each in check["findings"]]
    return str(found)


def change(path: str, at: int, *keys: str, **values: Any) -> Spoil:
    """Return what sets fields in an object of a list, deep inside where keys are given."""

    def spoil(api: CannedApi) -> None:
        target: Any = api.lists[path][at]
        for key in keys:
            target = target[int(key) if key.isdecimal() else key]
        target.update(values)

    return spoil


def remove(path: str, at: int) -> Spoil:
    return lambda api: api.lists[path].pop(at)


def configured(**values: Any) -> Spoil:
    """Return what changes the extender in kube-scheduler's configuration."""
    return configuration(
        {**CONFIGURATION, "extenders": [{**CONFIGURATION["extenders"][0], **values}]}
    )


def configuration(document: object) -> Spoil:
    return change(CONFIG_MAPS, 0, data={"config.yaml": json.dumps(document)})


def profiles(*profiles: Document, **values: Any) -> Spoil:
    return configuration({**CONFIGURATION, "profiles": list(profiles), **values})


def conditions(at: int, kind: str, message: str, reason: str = "Because") -> Spoil:
    """Return what turns a condition of a GPUTopology to False."""

    def spoil(api: CannedApi) -> None:
        for condition in api.lists[TOPOLOGIES][at]["status"]["conditions"]:
            if condition["type"] == kind:
                condition.update(status="False", message=message, reason=reason)

    return spoil


def both(*spoils: Spoil) -> Spoil:
    return lambda api: [spoil(api) for spoil in spoils]


def agent(api: CannedApi, node: str) -> Document:
    return next(
        pod for pod in api.lists[PODS] if pod["metadata"]["name"] == f"gputopo-deviceplugin-{node}"
    )


def no_agent(api: CannedApi) -> None:
    api.lists[PODS].remove(agent(api, "n2"))
