"""No GPU is given to two pods, also when many pods come at once and components crash."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

import workloads
from localcluster import access
from localcluster.access import NodeAccess
from sandbox import Sandbox
from showcase.kubectl import Object, wait_for

pytestmark = pytest.mark.e2e


def _burst(sandbox: Sandbox, count: int) -> None:
    sandbox.create(*(workloads.gpu_pod(f"burst-{n}", 1, image=sandbox.image) for n in range(count)))


def _assert_no_gpu_twice(pods: Sequence[Object]) -> None:
    held = Counter(uuid for pod in pods for uuid in workloads.uuids(pod))
    assert [uuid for uuid, times in held.items() if times > 1] == []
    assert sum(held.values()) == len(pods)


def test_24_pods_at_once_fill_three_nodes_of_eight(
    sandbox: Sandbox, record_property: Callable[[str, object], None]
) -> None:
    began = time.monotonic()
    _burst(sandbox, 24)
    pods = sandbox.wait_running(24)
    seconds = round(time.monotonic() - began, 1)
    record_property("seconds", seconds)
    print(f"24 one-GPU pods created at once: all running after {seconds} s")
    _assert_no_gpu_twice(pods)
    assert len({one.annotated for one in sandbox.assert_sources_agree()}) == 24


def test_extender_killed_while_24_pods_are_placed_loses_nothing(
    sandbox: Sandbox, nodes: NodeAccess
) -> None:
    over = threading.Event()
    with ThreadPoolExecutor(max_workers=1) as background:
        creation = background.submit(_one_by_one, sandbox, 24, over)
        try:
            wait_for("the first pod is bound", lambda: _bound(sandbox), interval_s=0)
            bound = _bound(sandbox)
            killed = access.kill(nodes, "gputopo-extender")
            began = time.monotonic()
        finally:
            over.set()
        creation.result()
    print(f"{killed} extender processes killed with at least {bound} of 24 pods bound")
    assert killed >= 1
    pods = sandbox.wait_running(24, timeout_s=180)
    print(f"all 24 running {time.monotonic() - began:.1f} s after the kill")
    _assert_no_gpu_twice(pods)
    sandbox.assert_sources_agree()


def _one_by_one(sandbox: Sandbox, count: int, over: threading.Event) -> None:
    """Create pods one after the other, the second half when the kill is over."""
    for number in range(count):
        if number == count // 2:
            over.wait()
        sandbox.create(workloads.gpu_pod(f"burst-{number}", 1, image=sandbox.image))


def _bound(sandbox: Sandbox) -> int:
    return sum(1 for pod in sandbox.pods() if pod["spec"].get("nodeName"))
