"""What the fail-over tool shows of its rounds."""

from failovertest.report import Report, document, table
from failovertest.rounds import Round

KILLED = Round("killed", "scheduler-a", 24, 10, 0, 4.25, 9.0, 0)
FROZEN = Round("frozen", "scheduler-b", 24, 12, 5, 7.5, 14.0, 3)


def test_each_round_has_its_line_and_the_wrongs_are_counted_even_where_there_are_none() -> None:
    shown = list(table(Report(1, [KILLED, FROZEN], {"watch events": 9}, {}, "failover.log")))
    (killed,) = (line.split() for line in shown if line.startswith("killed"))
    assert killed == ["killed", "24", "10", "-", "-", "4.2", "s", "9.0", "s"]
    (frozen,) = (line.split() for line in shown if line.startswith("frozen"))
    assert frozen == ["frozen", "24", "12", "5", "3", "7.5", "s", "14.0", "s"]
    assert any(line.split() == ["double", "allocations", "0"] for line in shown)
    assert any(line.split() == ["watch", "events", "9"] for line in shown)


def test_findings_are_reported_in_full() -> None:
    result = Report(1, [KILLED], {}, {"not reached": ["24 pods are bound; 3 are bound"]}, "x.log")
    assert "24 pods are bound; 3 are bound" in "\n".join(table(result))
    assert document(result)["findings"] == result.findings
