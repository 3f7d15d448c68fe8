"""Nodes with equal GPU indices and links have equal fingerprints."""

from dataclasses import replace

from gputopo.catalogue import named, names
from gputopo.topology.model import Ancestor, NodeTopology
from support.builders.topologies import DOUBLE, SINGLE, link, node


def test_uuids_do_not_change_the_fingerprint() -> None:
    assert node(0, 1, name="a").fingerprint == node(0, 1, name="b").fingerprint


def test_the_order_of_gpus_and_links_does_not_change_the_fingerprint() -> None:
    there = node(0, 1, 2, links={(0, 1): DOUBLE})
    back = NodeTopology(there.gpus[::-1], there.links[::-1])
    assert back.fingerprint == there.fingerprint


def test_indices_types_ancestors_and_bandwidths_change_the_fingerprint() -> None:
    one = node(0, 1).links[0]
    variants = [
        node(0, 1),
        node(0, 2),
        node(0),
        node(0, 1, links={(0, 1): SINGLE}),
        node(0, 1, links={(0, 1): DOUBLE}),
        NodeTopology(node(0, 1).gpus, (replace(one, ancestor=Ancestor.PIX),)),
        NodeTopology(node(0, 1).gpus, (link(0, 1, mb_per_s=11_000),)),
    ]
    assert len({variant.fingerprint for variant in variants}) == len(variants)


def test_the_fingerprint_is_the_same_in_every_process_and_release() -> None:
    assert named("dgx1-v100").fingerprint == "592a617d241fbee20fe149be3277783b"


def test_every_server_of_the_catalogue_has_its_own_fingerprint() -> None:
    assert len({named(name).fingerprint for name in names()}) == len(names())
