"""The bridge, the nodes' network interfaces and the routes between them."""

import ipaddress
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from localcluster import settings
from localcluster.commands import run, succeeds
from localcluster.errors import ClusterError
from localcluster.settings import Node

NETWORKS = (settings.NODE_NETWORK, settings.POD_NETWORK, settings.SERVICE_NETWORK)


def overlapping_routes(
    routes: Sequence[Mapping[str, Any]],
    networks: Sequence[str] = NETWORKS,
    own_interface: str = settings.BRIDGE,
) -> list[str]:
    """The routes of the machine that conflict with a cluster's networks.

    Args:
        routes: as `ip -json route` lists them.
        networks: of the cluster, by default of the local cluster.
        own_interface: its routes are the cluster's own.
    """
    ours = [ipaddress.ip_network(network) for network in networks]
    return [
        f"{route['dst']} dev {route.get('dev', '?')}"
        for route in routes
        if route["dst"] != "default"
        and route.get("dev") != own_interface
        and any(ipaddress.ip_network(route["dst"], strict=False).overlaps(net) for net in ours)
    ]


def require_no_route(networks: Sequence[str], own_interface: str) -> None:
    """Check that the machine has no route into a cluster's networks, but over its own interface.

    Raises:
        ClusterError: it has one.
    """
    routes = json.loads(run(["ip", "-4", "-json", "route"]))
    if conflicts := overlapping_routes(routes, networks, own_interface):
        needed = " and ".join(filter(None, (", ".join(networks[:-1]), networks[-1])))
        raise ClusterError(
            f"the cluster needs {needed}, but this machine has a route for {conflicts[0]}"
        )


def check_free() -> None:
    """Check that the cluster's bridge and networks are free.

    Raises:
        ClusterError: another cluster runs, or the addresses are in use.
    """
    if succeeds(["ip", "link", "show", settings.BRIDGE]):
        raise ClusterError(
            f"another cluster runs on this machine, with another GPUTOPO_STATE: it has the bridge"
            f" {settings.BRIDGE}"
        )
    require_no_route(NETWORKS, settings.BRIDGE)


def create_bridge() -> None:
    """Create the bridge with the control plane's address, unless it exists."""
    if succeeds(["ip", "link", "show", settings.BRIDGE]):
        return
    run(["ip", "link", "add", settings.BRIDGE, "type", "bridge"])
    run(["ip", "address", "add", f"{settings.CONTROL_PLANE_ADDRESS}/24", "dev", settings.BRIDGE])
    run(["ip", "link", "set", settings.BRIDGE, "up"])


def connect(node: Node, init: int, others: Iterable[Node], *, serves_services: bool) -> None:
    """Connect a running node to the bridge and set its routes.

    Args:
        node: the node.
        init: its first process, whose network namespace gets the other end of the veth pair.
        others: the rest of the nodes.
        serves_services: whether this machine reaches the services' addresses through this node.
    """
    disconnect(node)
    cable, bridge = node.host_interface, settings.BRIDGE
    run(["ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", str(init)])
    run(["ip", "link", "set", cable, "master", bridge, "up"])
    run(["ip", "route", "replace", node.pod_network, "via", node.address])
    if serves_services:
        run(["ip", "route", "replace", settings.SERVICE_NETWORK, "via", node.address])
    batch = [
        "link set lo up",
        f"address add {node.address}/24 dev eth0",
        "link set eth0 up",
        f"route add default via {settings.CONTROL_PLANE_ADDRESS}",
        *(f"route add {other.pod_network} via {other.address}" for other in others),
    ]
    run(["nsenter", "-t", str(init), "-n", "ip", "-batch", "-"], stdin="\n".join(batch))
    run(["nsenter", "-t", str(init), "-n", "sysctl", "-qw", "net.ipv4.ip_forward=1"])


def disconnect(node: Node) -> None:
    """Remove the node's interface, and with it its routes."""
    # It goes with the node's namespace, but half-closed sockets may hold that for a while yet.
    delete_link(node.host_interface)
    if succeeds(["ip", "link", "show", settings.BRIDGE]):
        for network in (node.pod_network, settings.SERVICE_NETWORK):
            succeeds(["ip", "route", "delete", network, "via", node.address])


def remove_bridge() -> None:
    """Remove the bridge if it exists."""
    delete_link(settings.BRIDGE)


def delete_link(name: str) -> None:
    """Delete a network interface if it exists.

    Raises:
        ClusterError: it stays.
    """
    # The kernel may be deleting it at the same moment; only one that stays is an error.
    if not succeeds(["ip", "link", "delete", name]) and succeeds(["ip", "link", "show", name]):
        raise ClusterError(f"the network interface {name} cannot be deleted")
