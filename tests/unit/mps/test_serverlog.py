"""The log of an MPS server, in the forms that different drivers write."""

from pathlib import Path

import pytest

from gputopo_mps.serverlog import LoggedFault, ServerLog, limit_size, parse_fault

LOGS = Path(__file__).parent
PREFIX = "[2022-04-28 15:56:08.906 Other 11570] "
DOCUMENTED = [
    f"{PREFIX}Volta MPS: status of client {{11641, 1}} is ACTIVE",
    f"{PREFIX}Volta MPS: Server is handling a fatal GPU error.",
    f"{PREFIX}Volta MPS: status of client {{11641, 1}} is INACTIVE",
    f"{PREFIX}Volta MPS: status of client {{PID: 11643, Context ID: 2}} is INACTIVE",
    f"{PREFIX}Volta MPS: The following devices",
    f"{PREFIX}Volta MPS: 0",
    f"{PREFIX}Volta MPS: The following clients have a sticky error set:",
    f"{PREFIX}Volta MPS: 11641",
    f"{PREFIX}Volta MPS: 11647",
    f"{PREFIX}Volta MPS: Receive command failed, assuming client exit",
    f"{PREFIX}Volta MPS: 5",
]


def test_clients_of_a_fault_come_from_their_status_and_the_list() -> None:
    assert parse_fault(DOCUMENTED) == LoggedFault(
        None, frozenset({11641, 11643, 11647}), "Server is handling a fatal GPU error."
    )


@pytest.mark.parametrize(
    "line",
    [
        "Memory fault caused by client {PID: 77, Context ID: 1}",
        "Fatal exception from client 77",
        "Client {PID: 77, Context ID: 0} caused a fatal fault",
        "process 77 triggered an error",
        "A fatal error was raised by PID 77",
    ],
)
def test_a_line_may_name_the_cause(line: str) -> None:
    found = parse_fault([f"{PREFIX}Volta MPS: {line}"])
    assert found == LoggedFault(77, frozenset({77}), line)


def test_the_first_cause_counts() -> None:
    lines = ["Memory fault caused by client 1", "Memory fault caused by client 2"]
    assert parse_fault(lines) == LoggedFault(1, frozenset({1}), lines[0])


def test_other_lines_are_no_fault() -> None:
    lines = ["[x] Server has started", "Client {PID: 5, Context ID: 1} connected", "", "7"]
    assert parse_fault(lines) is None


def test_log_is_read_from_where_it_ended_and_from_its_start_after_a_replacement(
    tmp_path: Path,
) -> None:
    path = tmp_path / "server.log"
    log = ServerLog(path)
    assert log.read() == []
    path.write_bytes(b"one\ntwo\xff\nthr")
    assert log.read() == ["one", "two\N{REPLACEMENT CHARACTER}"]
    path.write_bytes(b"one\ntwo\xff\nthree\n")
    assert ServerLog(path, log.offset).read() == ["three"]
    path.write_text("new\n")
    assert log.read() == ["new"]
    path.write_bytes(b"x" * (1 << 21) + b"\nlast\n")
    assert log.read()[-1] == "last"


def test_log_of_a_fault_on_a_real_gpu() -> None:
    lines = (LOGS / "server-580.log").read_text().splitlines()
    message = "Client {PID: 523, Context: 1} encountered a fatal GPU error."
    assert parse_fault(lines) == LoggedFault(523, frozenset({523, 524}), message)
    before = lines[: next(i for i, line in enumerate(lines) if message in line)]
    assert parse_fault(before) is None


def test_a_client_that_was_killed_may_be_the_cause_of_a_fault_in_another_one() -> None:
    """On the real GPU, process 1200 was killed with work in flight; the log names the other one."""
    lines = (LOGS / "server-580-killed.log").read_text().splitlines()
    message = "Client {PID: 1219, Context: 1} encountered a fatal GPU error."
    assert parse_fault(lines) == LoggedFault(None, frozenset({1219}), message)
    late = [line.replace("15:39:30.965", "15:39:29.965") for line in lines]
    assert parse_fault(late) == LoggedFault(1219, frozenset({1219}), message)


def test_a_log_that_became_too_long_is_emptied(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    with path.open("a") as daemon:
        daemon.write(f"{'x' * 1000}\n" * 1100)
        daemon.flush()
        log = ServerLog(path)
        assert len(log.read()) == 1048
        assert path.stat().st_size == 0
        daemon.write("next\n")
        daemon.flush()
        assert log.read() == ["next"]
    assert not limit_size(tmp_path / "missing.log")
