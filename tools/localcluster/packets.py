"""Packet rules inside a node's network namespace: a pod without the API server, or with another."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from localcluster import settings
from localcluster.access import NodeAccess
from localcluster.errors import ClusterError

_RULE_COMMENT = ("-m", "comment", "--comment", "gputopo-fault")


@contextmanager
def dropped(nodes: NodeAccess, node: str, pod_address: str) -> Iterator[None]:
    """Drop the packets between one pod and the API server for the duration of a block.

    kubelet keeps its own connections: it is not behind the node's FORWARD chain. Other programs of
    the API server's host, such as one that reads the pod's metrics, keep theirs: the rules match
    the API server's port.
    """
    server, port = settings.CONTROL_PLANE_ADDRESS, str(settings.API_PORT)
    sent = ("-s", pod_address, "-d", server, "-p", "tcp", "--dport", port)
    received = ("-s", server, "-d", pod_address, "-p", "tcp", "--sport", port)
    rules = [("FORWARD", *sent, "-j", "DROP"), ("FORWARD", *received, "-j", "DROP")]
    with _rules(nodes, node, "filter", rules):
        yield


@contextmanager
def redirected(nodes: NodeAccess, node: str, pod_address: str, port: int) -> Iterator[None]:
    """Send one pod's new connections for the API server to a port of the control plane's address.

    Existing connections are reset.
    """
    server = settings.CONTROL_PLANE_ADDRESS
    tcp = ("-p", "tcp")
    redirect = [
        (
            *("PREROUTING", "-s", pod_address, "-d", settings.API_SERVICE_ADDRESS, *tcp),
            *("--dport", "443", "-j", "DNAT", "--to-destination", f"{server}:{port}"),
        )
    ]
    reset = [
        (
            *("FORWARD", "-s", pod_address, "-d", server, *tcp),
            *("--dport", str(settings.API_PORT), "-j", "REJECT", "--reject-with", "tcp-reset"),
        )
    ]
    with (
        _rules(nodes, node, "nat", redirect),
        _rules(nodes, node, "filter", reset),
    ):
        yield


@contextmanager
def _rules(
    nodes: NodeAccess, node: str, table: str, rules: Sequence[Sequence[str]]
) -> Iterator[None]:
    iptables = ("iptables", "-w", "10", "-t", table)
    added: list[Sequence[str]] = []
    try:
        for rule in rules:
            chain, *match = rule
            nodes.run(node, *iptables, "-I", chain, "1", *match, *_RULE_COMMENT)
            added.append(rule)
        yield
    finally:
        for chain, *match in added:
            # They go with the node's namespace where the node was switched off meanwhile.
            with suppress(ClusterError):
                nodes.run(node, *iptables, "-D", chain, *match, *_RULE_COMMENT)
