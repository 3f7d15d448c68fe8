"""The output of MPS's control program."""

import pytest

from gputopo_mps.control import MpsClient, parse_clients

TABLE = """PID        ID       SERVER    DEVICE             NAMESPACE  COMMAND
9741       0        6472      GPU-cb1213a3-d6a4  1          ./nbody -i 5
9741       1        6472      GPU-cb1213a3-d6a4  1          ./nbody -i 5
9743       2        6472      GPU-cb1213a3-d6a4  7          ./clock
"""
FORGED = f"PID SERVER\n² 7\n7 ²\n{'8' * 5000} 7\n"


def test_a_process_with_several_contexts_is_one_client() -> None:
    assert parse_clients(TABLE) == [MpsClient(9741, 6472), MpsClient(9743, 6472)]


@pytest.mark.parametrize(
    "text", ["", "\n", "no such command\n", "PID SERVER\nx y\n7\n7 z\n", FORGED]
)
def test_other_output_has_no_clients(text: str) -> None:
    assert parse_clients(text) == []


def test_a_forged_table_has_no_more_clients_than_the_component_can_check() -> None:
    table = "PID SERVER\n" + "".join(f"{pid} 1\n" for pid in range(100_000))
    assert len(parse_clients(table)) == 1024
