"""Format and levels of log lines."""

import logging
import re
from collections.abc import Iterator

import pytest

from gputopo.runtime.log import configure, fields


@pytest.fixture
def root_logger() -> Iterator[None]:
    """Let a test configure logging, and put back what was there."""
    root, quiet = logging.getLogger(), logging.getLogger("chatty")
    handlers, level = root.handlers[:], root.level
    root.handlers.clear()
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    quiet.setLevel(logging.NOTSET)


def test_values_with_blanks_quotes_or_line_ends_are_quoted() -> None:
    line = fields(pod="default/a", reason='no "pod"\nFORGED', empty="", left_out=None)
    assert str(line) == 'pod=default/a reason="no \\"pod\\"\\nFORGED" empty=""'


@pytest.mark.usefixtures("root_logger")
def test_a_line_starts_with_time_in_utc_and_level(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure("info", quiet=())
    record = {"name": "ours", "levelno": logging.INFO, "levelname": "INFO", "msg": "bound pod=a"}
    logging.getLogger("ours").handle(logging.makeLogRecord({**record, "created": 0.0, "msecs": 7}))
    assert capsys.readouterr().err == "1970-01-01T00:00:00.007Z INFO bound pod=a\n"


@pytest.mark.usefixtures("root_logger")
def test_lower_levels_and_quiet_loggers_are_not_written(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure("info", quiet=["chatty"])
    for name in ("ours", "chatty"):
        logger = logging.getLogger(f"{name}.part")
        logger.debug("debug of %s", name)
        logger.info("info of %s", name)
        logger.warning("warning of %s", name)
    lines = re.findall(r"\w+ of \w+", capsys.readouterr().err)
    assert lines == ["info of ours", "warning of ours", "warning of chatty"]


def test_fields_of_a_line_that_is_not_written_are_not_formatted() -> None:
    class Unprintable:
        def __str__(self) -> str:
            raise AssertionError

    logging.getLogger("ours").debug("bound %s", fields(pod=Unprintable()))
