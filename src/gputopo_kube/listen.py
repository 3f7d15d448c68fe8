"""The address on which the servers of the components listen."""

import socket


def listen_address(host: str) -> str:
    """Return the address on which a server listens; an empty ``host`` means all addresses."""
    if host:
        return host
    # A socket of IPv6 takes connections of IPv4 too. The kernel may have been started without it.
    return "::" if socket.has_dualstack_ipv6() else "0.0.0.0"  # noqa: S104 - kubelet is outside
