"""The example of shared preprocessing runs on a cluster, with another image and fewer items."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from ensembletest.observe import Observer, phases
from gputopo.api.names import ENSEMBLE_PREPROCESSOR_LABEL
from longruns import LONG
from sandbox import Sandbox
from showcase.install import Installed
from showcase.kubectl import Object, wait_for

pytestmark = [pytest.mark.e2e, LONG]

FOLDER = Path(__file__).parents[2] / "examples" / "ensemble-preprocessing"
ITEMS = 2000


def example(image: str) -> Object:
    """Return the manifest of the example for images of this machine."""
    text = (FOLDER / "ensemble.yaml").read_text().replace("python:3.13-slim", image)
    text = re.sub(r'(name: ITEMS, value: )"\d+"', rf'\1"{ITEMS}"', text)
    found: Object = yaml.safe_load(re.sub(r"steps: \d+", f"steps: {ITEMS}", text))
    return found


def logs(sandbox: Sandbox, pod: Object) -> str:
    return sandbox.kubectl.run("logs", pod["metadata"]["name"], "-n", sandbox.namespace)


def test_one_preprocessor_feeds_the_three_members_of_the_example(
    installed: Installed, sandbox: Sandbox
) -> None:
    program = {"pipeline.py": (FOLDER / "pipeline.py").read_text()}
    metadata = {"name": "pipeline"}
    sandbox.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": program},
        example(installed.trainer_image),
    )
    fed = Observer(sandbox.kubectl, sandbox.namespace, "fed")
    preprocessor: dict[str, Any] = wait_for(
        "the preprocessor runs", lambda: _running_preprocessor(sandbox), timeout_s=90
    )
    cores = fed.look()["preprocessor"]["cores"]
    limits = preprocessor["spec"]["containers"][0]["resources"]["limits"]
    assert limits["cpu"] == str(cores)
    done = fed.wait("all members have ended", lambda it: it["phase"] == "Succeeded", 300)
    assert set(phases(done).values()) == {"Succeeded"}
    members = sandbox.kubectl.list("pods", sandbox.namespace, selector="gputopo.io/job")
    assert len(members) == 3
    for pod in members:
        text = logs(sandbox, pod)
        print(pod["metadata"]["name"], text)
        assert f"{ITEMS} items, " in text
    wait_for(
        "the preprocessor has ended with its ensemble",
        lambda: not _running_preprocessor(sandbox),
        timeout_s=60,
    )


def _running_preprocessor(sandbox: Sandbox) -> Object | None:
    pods = sandbox.kubectl.list("pods", sandbox.namespace, selector=ENSEMBLE_PREPROCESSOR_LABEL)
    return next((pod for pod in pods if pod["status"].get("phase") == "Running"), None)
