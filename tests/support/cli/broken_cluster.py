"""Break one thing of a healthy cluster, and return the findings of ``gputopo doctor``."""

import json
from collections.abc import Callable
from typing import Any

from support.api.static import Document, StaticApi
from support.cli.command_line import Command
from support.cli.healthy_cluster import CONFIG_MAPS, CONFIGURATION, PODS, TOPOLOGIES

OPERATOR, SCHEDULER = 0, 1  # indices of their Deployments

Break = Callable[[StaticApi], object]
Found = tuple[str, str, str, str]
"""Check, severity, object, problem."""


def findings(gputopo: Command) -> list[Found]:
    """Return the findings, and check that every finding has a remedy."""
    done = gputopo("doctor --settle 0 -o json")
    document = done.document
    found = [
        (check["check"], each["severity"], each["object"], each["problem"])
        for check in document["checks"]
        for each in check["findings"]
        if each["todo"]
    ]
    assert len(found) == document["errors"] + document["warnings"]
    assert done.status == (3 if document["errors"] else 0)
    return found


def todo(gputopo: Command) -> str:
    """Return the remedy of the only finding."""
    document = gputopo("doctor --settle 0 -o json").document
    (found,) = [each["todo"] for check in document["checks"] for each in check["findings"]]
    return str(found)


def change(path: str, at: int, *keys: str, **values: Any) -> Break:
    """Return a function that sets fields of an object in a list, or of the part at ``keys``."""

    def break_(api: StaticApi) -> None:
        target: Any = api.lists[path][at]
        for key in keys:
            target = target[int(key) if key.isdecimal() else key]
        target.update(values)

    return break_


def remove(path: str, at: int) -> Break:
    return lambda api: api.lists[path].pop(at)


def configured(**values: Any) -> Break:
    """Return a function that changes the extender in kube-scheduler's configuration."""
    return configuration(
        {**CONFIGURATION, "extenders": [{**CONFIGURATION["extenders"][0], **values}]}
    )


def configuration(document: object) -> Break:
    return change(CONFIG_MAPS, 0, data={"config.yaml": json.dumps(document)})


def profiles(*profiles: Document, **values: Any) -> Break:
    return configuration({**CONFIGURATION, "profiles": list(profiles), **values})


def conditions(at: int, kind: str, message: str, reason: str = "Because") -> Break:
    """Return a function that sets a condition of a GPUTopology to False."""

    def break_(api: StaticApi) -> None:
        for condition in api.lists[TOPOLOGIES][at]["status"]["conditions"]:
            if condition["type"] == kind:
                condition.update(status="False", message=message, reason=reason)

    return break_


def both(*breaks: Break) -> Break:
    return lambda api: [break_(api) for break_ in breaks]


def agent(api: StaticApi, node: str) -> Document:
    return next(
        pod for pod in api.lists[PODS] if pod["metadata"]["name"] == f"gputopo-deviceplugin-{node}"
    )


def no_agent(api: StaticApi) -> None:
    api.lists[PODS].remove(agent(api, "n2"))
