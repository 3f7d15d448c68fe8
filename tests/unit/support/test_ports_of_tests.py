"""Ports that servers of tests take."""

import itertools
import socket

from support.ports import free_among, is_free, ports_of


def worker(index: int, count: int) -> dict[str, str]:
    return {"PYTEST_XDIST_WORKER": f"gw{index}", "PYTEST_XDIST_WORKER_COUNT": str(count)}


def test_workers_have_different_ports() -> None:
    found = [ports_of(worker(index, 3)) for index in range(3)]
    assert len(set().union(*found)) == sum(len(ports) for ports in found) == 9_999


def test_a_run_without_workers_has_all_ports() -> None:
    assert len(ports_of({})) == 10_000


def test_no_port_is_one_that_the_kernel_gives_to_clients() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert server.getsockname()[1] not in ports_of({})


def test_ports_with_a_server_are_left_out() -> None:
    ports = ports_of({})
    taken = next(free_among(ports))
    with socket.create_server(("127.0.0.1", taken)):
        assert not is_free(taken)
        assert taken not in itertools.islice(free_among(range(taken - 2, taken + 3)), 4)


def test_each_port_is_given_once_in_a_turn() -> None:
    found = list(itertools.islice(free_among(ports_of({})), 50))
    assert len(set(found)) == 50
