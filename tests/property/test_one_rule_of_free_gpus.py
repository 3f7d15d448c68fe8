"""The extender, explanations, the page, the queue and ensembles offer the same GPUs of a node."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from gputopo.api.names import RESOURCE
from gputopo_cluster.topologies import parse_gpu_node
from gputopo_explain.snapshot import snapshot_of
from gputopo_extender.state.ledger import Ledger
from gputopo_kube.pods import parse_gpu_pod
from gputopo_kube.podstatus import ENDED_PHASES
from gputopo_operator.decision.ensemble.nodes import usable_nodes
from gputopo_operator.model.ensembles import ClusterGpus
from gputopo_operator.parse.ensemble_spec import parse_ensemble
from gputopo_operator.parse.queue import cluster_of, parse_gpu_pods
from support.builders.clusters import Lists, random_lists
from support.operator.ensembles import ensemble, member
from support.operator.queue import QueuedCluster, plain_node, started
from support.property_settings import fuzzed, tried
from support.shares import random_sharing_lists
from support.web.clusters import cluster


def lists_of(chance: Random) -> Lists:
    """Return what all parts read: the operator reads no claims and no pods that have ended."""
    lists = random_sharing_lists(chance) if chance.random() < 0.5 else random_lists(chance)
    for topology in lists.topologies:
        for gpu in topology["status"]["gpus"]:
            if chance.random() < 0.1:
                gpu["healthy"] = False
            if chance.random() < 0.1:
                gpu["wholeFault"] = "MPS still serves it"
    pods = [pod for pod in lists.pods if pod["status"].get("phase") not in ENDED_PHASES]
    return Lists(lists.topologies, pods, [])


def by_extender(lists: Lists, node: str) -> int:
    ledger = Ledger(lambda: 0.0)
    epoch = ledger.begin_pod_list()
    ledger.replace_topologies(map(parse_gpu_node, lists.topologies))
    pods = [parse_gpu_pod(document, RESOURCE) for document in lists.pods]
    ledger.replace_pods([pod for pod in pods if pod is not None], epoch=epoch, version=90)
    return ledger.usages()[node].offered


def by_explanation(lists: Lists, node: str) -> int:
    return snapshot_of(lists.topologies, lists.pods).usages[node].offered


def by_page(lists: Lists, node: str) -> int:
    return cluster(topologies=lists.topologies, pods=lists.pods).cards[node].free


def by_queue(lists: Lists, node: str) -> int:
    """Return the GPUs of the largest job that starts on the node."""
    found = QueuedCluster()
    found.nodes, found.pods = lists.topologies, lists.pods
    found.objects = [plain_node(node)]
    sizes = range(1, 9)
    for gpus in sizes:
        found.jobs, found.children = {}, {}
        found.job("job", gpus)
        if not started(found):
            return gpus - 1
    return sizes.stop


def by_ensembles(lists: Lists, node: str) -> int:
    nodes = {each["metadata"]["name"]: parse_gpu_node(each) for each in lists.topologies}
    picture = cluster_of(nodes, parse_gpu_pods(lists.pods, RESOURCE))
    spec = parse_ensemble(ensemble(member("a"))).spec
    assert spec is not None
    (found,) = usable_nodes(ClusterGpus(picture, {node: plain_node(node)}), spec, ())
    return found.gpus


@fuzzed
@given(st.randoms())
def test_all_parts_offer_the_same_gpus(chance: Random) -> None:
    tried("clusters")
    lists = lists_of(chance)
    for topology in lists.topologies:
        node = topology["metadata"]["name"]
        expected = by_extender(lists, node)
        for part in (by_explanation, by_page, by_queue, by_ensembles):
            assert part(lists, node) == expected, part.__name__
