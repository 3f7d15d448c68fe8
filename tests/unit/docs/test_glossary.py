"""The glossary lists terms that the pages use, in alphabetical order, each with a page."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "reference/glossary.md").read_text()
ROWS = [row.strip("| ").split(" | ") for row in re.findall(r"(?m)^\|.*\|$", PAGE)[2:]]
TERMS = [term for cells in ROWS for term in cells[0].split(", ")]


def test_rows_are_in_alphabetical_order_and_have_a_page() -> None:
    first = [cells[0].lower() for cells in ROWS]
    assert first == sorted(first)
    assert all(re.search(r"^\[.+\]\(.+\.md", cells[2]) for cells in ROWS)


def test_each_term_is_in_the_text_of_another_page_for_users() -> None:
    folders = ("start", "use", "operate", "concepts")
    pages = [path.read_text() for folder in folders for path in (DOCS / folder).glob("*.md")]
    text = re.sub(r"\s+", " ", " ".join(pages)).lower()
    assert len(TERMS) > 30
    assert [term for term in TERMS if term.lower() not in text] == []
