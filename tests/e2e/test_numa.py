"""kubelet's topology manager and static CPU manager, and the GPUs that gputopo chooses."""

import pytest

from numatest import judge
from numatest.judge import PodVerdict, PolicyTrial
from numatest.run import Settings, Trials
from showcase.install import Installed
from soaktest.client import Client

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.chart(devicePlugin={"numa": {"publish": "AnyPolicy"}}),
]


@pytest.fixture(scope="module")
def trial(chart: Installed) -> PolicyTrial:
    """Random pods with the policy restricted; the kubelets get their own configuration back."""
    with Client(chart.kubectl.kubeconfig) as client:
        names = sorted(each["metadata"]["name"] for each in chart.kubectl.list("gputopologies"))
        settings = Settings(
            nodes=names, pods=24, at_once=9, with_cpus=0.4, scope="container", seed=5
        )
        trials = Trials(client, chart.nodes, chart.workload_image, settings)
        [done] = trials.run(["restricted"])
    print("\n".join(judge.table([done])))
    return done


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
