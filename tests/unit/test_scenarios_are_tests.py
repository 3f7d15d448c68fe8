import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
TEXT = (ROOT / "docs" / "develop" / "scenarios.md").read_text()


def test_every_scenario_has_a_test() -> None:
    rows = [line for line in TEXT.splitlines() if line.startswith("| ") and "`tests/" not in line]
    headers = ("| fault |", "| what fails |", "| input |")
    assert [row for row in rows if not row.startswith(headers)] == []
    assert len(NAMED.findall(TEXT)) > 40


@pytest.mark.parametrize(("path", "name"), sorted(set(NAMED.findall(TEXT))))
def test_a_test_that_is_named_exists(path: str, name: str) -> None:
    assert re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text(), re.MULTILINE)
