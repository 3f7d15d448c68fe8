"""The map: states of GPUs, groups of nodes, search."""

import pytest

from gputopo_kube.document import ObjectKey
from gputopo_kube.listwatch import Listing
from gputopo_web.facts.cards import CellState, GpuCell, NodeCard
from gputopo_web.facts.groups import groups, natural, search, totals
from gputopo_web.pages.environment import environment
from gputopo_web.pages.overview import TileCache, shown_groups
from gputopo_web.pages.queries import Selection
from gputopo_web.pages.tiles import Dot, Tile, dot
from gputopo_web.state.cluster import ClusterState
from support.builders import objects, topologies
from support.cli.healthy_cluster import pod, topology, uuids
from support.web.clusters import cluster, set_topology, two_nodes


def card_of(state: ClusterState, name: str = "n1") -> NodeCard:
    return state.cards[name]


def states(card: NodeCard) -> dict[int, str]:
    return {cell.index: cell.state.value for cell in card.cells}


def one_node(*pods: objects.Document, **status: object) -> ClusterState:
    known = topologies.node(0, 1, 2, 3)
    document = objects.topology_object("n1", known, **status)  # type: ignore[arg-type]
    return cluster(topologies=[document], pods=pods)


def test_gpus_of_one_pod_have_one_letter_that_no_other_pod_of_the_node_has() -> None:
    card = card_of(two_nodes())
    letters = {cell.index: cell.letter for cell in card.cells if cell.pod}
    assert letters == {0: "A", 2: "A", 3: "A"}
    assert {cell.rank for cell in card.cells} == {None, 0, 1, 2}
    assert card.pods == (ObjectKey("default", "train"),)
    assert (card.free, card.count(CellState.USED)) == (5, 3)


def test_a_pod_that_kubelet_has_not_admitted_is_starting() -> None:
    starting = pod("new", "n1", uuids("n1", 4))
    starting["status"]["phase"] = "Pending"
    card = card_of(cluster(topologies=[topology("n1")], pods=[starting]))
    assert states(card)[4] == "starting"


def test_unhealthy_gpus_and_processes_of_deleted_pods_are_not_free() -> None:
    card = card_of(one_node(unhealthy=[1], used_by={2: "old"}, deleted=[2]))
    assert states(card) == {0: "free", 1: "unhealthy", 2: "ended", 3: "free"}
    assert card.free == 2


def test_a_gpu_that_was_chosen_for_another_pod_is_a_difference() -> None:
    other = pod("other", "n1", uuids("n1", 1))
    state = cluster(topologies=[topology("n1", pod("train", "n1", uuids("n1", 0)))], pods=[other])
    card = card_of(state)
    assert states(card)[0] == "differs"
    assert card.cells[0].reason == "kubelet's pod-resources list names a pod that does not exist"
    assert card.differs


def test_gpus_of_namespaces_that_are_not_read_are_used_without_a_difference() -> None:
    train = pod("train", "n1", uuids("n1", 0))
    serve = pod("serve", "n1", uuids("n1", 1), namespace="ml")
    gone = pod("gone", "n1", uuids("n1", 2))
    state = cluster(
        topologies=[topology("n1", train, serve, gone)], pods=[train], namespace="default"
    )
    card = card_of(state)
    assert [states(card)[index] for index in (0, 1, 2)] == ["used", "used", "differs"]
    assert card.cells[1].pod == ObjectKey("ml", "serve")
    found = totals([card])
    assert (found.in_use, found.free, found.differing) == (3, 5, 1)


def test_gpus_are_used_without_a_difference_while_pods_cannot_be_read() -> None:
    state = ClusterState()
    set_topology(state, topology("n1", pod("train", "n1", uuids("n1", 0))))
    state.take_changes()
    assert states(card_of(state))[0] == "used"
    state.pods.replace(Listing([], "1"))
    assert state.take_changes().nodes == {"n1"}
    assert states(card_of(state))[0] == "differs"
    state.set_error("pods", "no permission")
    assert state.take_changes().nodes == {"n1"}
    assert states(card_of(state))[0] == "used"


def test_a_node_that_takes_no_pods_has_no_free_gpus() -> None:
    card = card_of(one_node(not_ready="Stopping"))
    assert card.free == 0
    assert card.not_ready == "the node's agent is not ready: Stopping: the message"
    assert Tile(card).heading == "takes no pods"


def test_a_gpu_that_the_node_does_not_have_is_shown_below_the_node() -> None:
    state = cluster(topologies=[topology("n1")], pods=[pod("p", "n1", ["GPU-gone"])])
    assert card_of(state).others == ("default/p: the node has no such GPU",)
    assert Tile(card_of(state)).warnings == ["default/p: the node has no such GPU"]


def test_an_invalid_topology_is_a_node_that_cannot_be_read() -> None:
    broken = topology("n1")
    broken["spec"]["gpus"][0]["index"] = 99
    state = cluster(topologies=[broken])
    card = card_of(state)
    assert card.group == "unreadable"
    assert card.fault == "spec.gpus[0].index: 99: Input should be less than or equal to 63"
    assert Tile(card).heading == "not readable"
    assert Tile(card).width == 0
    assert dot(card) == Dot("n1", "bad", "!", "n1: 0 of 0 GPUs free; see node")


def test_gpus_are_ordered_and_separated_by_numa_node() -> None:
    cells = tuple(GpuCell(index, f"u{index}", index // 2, CellState.FREE) for index in range(4))
    tile = Tile(NodeCard("n", "g", "m", cells))
    assert [x for _, x in tile.cells] == [2, 32, 72, 102]
    assert tile.width == 132


def test_more_than_26_pods_of_a_node_have_letters_with_numbers() -> None:
    assert GpuCell(27, "u", None, CellState.USED, mark=27).letter == "B2"
    assert GpuCell(27, "u", None, CellState.USED, mark=27).colour == 3


def test_nodes_that_cannot_be_read_are_one_group_without_a_size() -> None:
    broken = topology("n1")
    broken["spec"] = {"gpus": 7}
    [group], _ = shown_groups(cluster(topologies=[broken]), Selection(), TileCache(environment()))
    assert group.title == "1 node without a valid GPUTopology"
    assert group.links == ""


def test_the_tile_of_an_unchanged_node_is_rendered_once_and_deleted_nodes_are_dropped() -> None:
    tiles = TileCache(environment())
    card = card_of(two_nodes())
    assert tiles.render(card) is tiles.render(card)
    tiles.forget({"n2"})
    assert not tiles._tiles


def test_equal_nodes_are_one_group_and_the_largest_group_comes_first() -> None:
    known = topologies.node(0, 1)
    large = [objects.topology_object(f"a{n}", known) for n in (10, 9, 1)]
    state = cluster(topologies=[topology("n1"), *large])
    found = groups(state.cards.values())
    assert [[card.name for card in group.cards] for group in found] == [["a1", "a9", "a10"], ["n1"]]
    assert [group.size for group in found] == [2, 8]
    assert found[0].free_counts == {2: 3}


def test_totals_count_each_gpu_once() -> None:
    state = one_node(unhealthy=[1], used_by={2: "old"}, deleted=[2])
    found = totals(state.cards.values())
    assert (found.nodes, found.gpus, found.in_use, found.free, found.unhealthy) == (1, 4, 1, 2, 1)
    assert (found.differing, found.not_ready) == (0, 0)


@pytest.mark.parametrize(
    ("text", "state", "names"),
    [
        ("", "", ["n1", "n2"]),
        ("V100", "", ["n1"]),
        ("ml/serve t4", "", ["n2"]),
        ("train t4", "", []),
        ("", "free", ["n1", "n2"]),
        ("", "unhealthy", []),
        ("", "differs", []),
        ("", "not-ready", []),
        ("", "no such state", ["n1", "n2"]),
    ],
)
def test_search_finds_names_models_pods_and_states(text: str, state: str, names: list[str]) -> None:
    found = search(two_nodes().cards.values(), text, state)
    assert sorted(card.name for card in found) == names


def test_names_with_numbers_are_ordered_by_value() -> None:
    assert sorted(["b", "a10", "a9", "9", "a٣"], key=natural) == ["9", "a9", "a10", "a٣", "b"]


@pytest.mark.parametrize(("free", "style"), [(0, "f0"), (1, "f1"), (3, "f1"), (4, "f2"), (8, "f3")])
def test_squares_are_darker_with_fewer_free_gpus(free: int, style: str) -> None:
    cells = tuple(
        GpuCell(it, f"u{it}", None, CellState.FREE if it < free else CellState.USED, mark=0)
        for it in range(8)
    )
    found = dot(NodeCard("n", "g", "m", cells, free))
    assert found == Dot("n", style, str(free), f"n: {free} of 8 GPUs free")


def test_squares_of_nodes_with_a_problem_keep_their_number_and_have_a_sign() -> None:
    assert dot(card_of(one_node(unhealthy=[1]))).style == "bad"
    assert dot(card_of(one_node(unhealthy=[1]))).text == "3"
    assert dot(card_of(one_node(unhealthy=[0, 1, 2, 3]))).text == "!"
