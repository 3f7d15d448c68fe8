"""Log lines that a person and a machine can read."""

from gputopo_extender.log import fields


def test_values_with_blanks_quotes_or_line_ends_are_quoted() -> None:
    line = fields(pod="default/a", reason='no "pod"\nFORGED', empty="", left_out=None)
    assert line == 'pod=default/a reason="no \\"pod\\"\\nFORGED" empty=""'
