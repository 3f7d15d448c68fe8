"""``gputopo explain`` repeats each decision of a churn from what the extender recorded.

``GPUTOPO_PLACEMENTS`` sets the number of pods.
"""

import os

import pytest

from gputopo_explain.placed.replay import ReplayVerdict
from replays import churn, explained, summary
from sandbox import Sandbox
from support.cli.command_line import Done, process

pytestmark = pytest.mark.e2e

PLACEMENTS = int(os.environ.get("GPUTOPO_PLACEMENTS", "40"))


def gputopo(sandbox: Sandbox, *words: str) -> Done:
    kubeconfig = str(sandbox.kubectl.kubeconfig)
    return process(*words, "-n", sandbox.namespace, KUBECONFIG=kubeconfig)


def test_replay_of_every_placement_gives_the_same_choice(sandbox: Sandbox) -> None:
    pods = churn(sandbox, PLACEMENTS)
    placed = [pod for pod in pods if pod["spec"].get("nodeName")]
    found = explained(sandbox, placed)
    print(summary(found))
    differ = [each for each in found if each.replay.verdict is not ReplayVerdict.SAME]
    assert [(str(each.pod.key), each.replay.reasons) for each in differ] == []
    assert len(found) == PLACEMENTS
    assert all(each.nodes for each in found), "one extender has filtered and bound all pods"


def test_running_job_is_explained_on_one_screen(sandbox: Sandbox, dgx1: str) -> None:
    sandbox.run_job("train", 3, node=dgx1, communication={"pattern": "Ring"})
    done = gputopo(sandbox, "explain", "gpujob/train")
    print(done.out)
    assert done.status == 0
    assert "annotation gputopo.io/pattern (set by GPUJob train)" in done.out
    assert "replay       same choice" in done.out
    assert "kubelet      the pod has exactly the intended GPUs" in done.out
