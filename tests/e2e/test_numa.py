"""kubelet's topology manager and static CPU manager, and the GPUs that gputopo chooses."""

from collections.abc import Iterator

import pytest

from localcluster.settings import current_paths
from numatest import judge
from numatest.__main__ import VALUES
from numatest.judge import PodVerdict, PolicyTrial
from numatest.run import Settings, Trials
from showcase import install
from soaktest.client import Client

pytestmark = pytest.mark.e2e

SETTINGS = Settings(
    nodes=["n1", "n2", "n3"], pods=24, at_once=9, with_cpus=0.4, scope="container", seed=5
)


@pytest.fixture(scope="module")
def trial(installed: install.Installed) -> Iterator[PolicyTrial]:
    """Random pods with the policy restricted; all other tests get their own values back."""
    nodes = installed.nodes
    try:
        install.install_chart(*installed.values, VALUES)
        with Client(current_paths()) as client:
            [done] = Trials(client, nodes, installed.workload_image, SETTINGS).run(["restricted"])
        print("\n".join(judge.table([done])))
        yield done
    finally:
        install.install_chart(*installed.values)


def test_kubelet_accepts_the_gpus_of_every_pod_and_cpus_are_near_them(trial: PolicyTrial) -> None:
    rejected = [each for each in trial.findings if each.verdict is PodVerdict.REJECTED]
    # docs/studies/numa.md: one pod of 300 was rejected,.
    assert len(rejected) <= 1, rejected
    assert [each for each in trial.findings if each not in rejected] == []
    ran = [each for each in trial.pods if each.verdict is PodVerdict.RAN]
    assert any(each.pod.cpus for each in ran)
    assert any(not each.pod.cpus for each in ran)


def test_pods_that_kubelet_never_admits_stay_pending_with_the_reason(trial: PolicyTrial) -> None:
    never = [each for each in trial.pods if each.verdict is PodVerdict.NEVER_FITS]
    assert never
    assert all(each.pod.cpus and each.pod.gpus > 4 for each in never)
