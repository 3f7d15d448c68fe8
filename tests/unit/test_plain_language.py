"""Names and text avoid the words that ``docs/develop/terms.md`` lists in its column "not"."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from readability.words import Use, find_uses, parse_glossary, split_name

ROOT = Path(__file__).parents[2]
EXCLUDED = parse_glossary((ROOT / "docs/develop/terms.md").read_text())
CODE = ("src", "operator", "extender", "deviceplugin", "mps")
CHECKED = (
    *("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"),
    *("docs", "charts", "crds", "examples", "sdk", "benchmarks", "tools", "tests"),
    *CODE,
)
CODE_BLOCK = re.compile(r"^ *```.*?^ *```|^    .*?$", re.MULTILINE | re.DOTALL)
MAX_WIDTH = 100
SUFFIXES = {".py", ".md", ".yaml", ".tpl", ".txt"}

# Names that keep an excluded word, with the reason.
NAMES = {
    "holder_identity": "field of a Kubernetes Lease",
}

# Text that may use an excluded word, with the reason.
PHRASES = {
    r"connection refused": "error text of the operating system (ECONNREFUSED)",
    r"holderIdentity": "field of a Kubernetes Lease",
}


def files(folder: str) -> Iterator[tuple[str, str]]:
    """Yield path and text of the files that are written by hand."""
    found = [ROOT / folder] if folder.endswith(".md") else sorted((ROOT / folder).rglob("*"))
    for file in found:
        path = file.relative_to(ROOT).as_posix()
        if file.suffix in SUFFIXES and "_pb2" not in path and "tests/data/" not in path:
            yield path, file.read_text()


def blank_lines(block: re.Match[str]) -> str:
    return "\n" * block[0].count("\n")


def is_exception(use: Use) -> bool:
    return use.context in NAMES or any(
        re.search(rf"(?i){phrase}", use.context) for phrase in PHRASES
    )


@pytest.mark.parametrize("folder", CHECKED)
def test_names_and_text_use_no_excluded_word(folder: str) -> None:
    found = [
        f"{use.path}:{use.line}: {use.word}: {use.context}"
        for path, text in files(folder)
        if path != "docs/develop/terms.md"
        for use in find_uses(path, text, EXCLUDED)
        if not is_exception(use)
    ]
    assert not found, "\n".join(found)


def test_public_class_names_are_unique() -> None:
    defined = defaultdict(list)
    for path, text in (each for folder in CODE for each in files(folder)):
        code = path.endswith(".py")
        for node in ast.walk(ast.parse(text)) if code else ():
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                defined[node.name].append(f"{path}:{node.lineno}")
    assert {name: places for name, places in defined.items() if len(places) > 1} == {}


@pytest.mark.parametrize("folder", CHECKED)
def test_prose_of_pages_is_wrapped(folder: str) -> None:
    long = [
        f"{path}:{number}"
        for path, text in files(folder)
        if path.endswith(".md")
        for number, line in enumerate(CODE_BLOCK.sub(blank_lines, text).splitlines(), 1)
        if len(line) > MAX_WIDTH and not line.lstrip().startswith("|")
    ]
    assert not long, "\n".join(long)


@pytest.mark.parametrize(
    "entry", ["ask", "asks", "asked", "asking", "refused", "taken back", "takes back", "books"]
)
def test_all_forms_of_a_word_are_excluded(entry: str) -> None:
    excluded = parse_glossary(
        "| request | wanted | core | ask, refuse, take back, taken back, book |"
    )
    assert excluded.in_text.fullmatch(entry)


def test_word_in_code_font_is_excluded_in_names_only() -> None:
    excluded = parse_glossary("| allocation | GPUs | agent | `grant`, room (for a pod, or two) |")
    assert [
        (use.line, use.word, use.context)
        for use in find_uses(
            "a.py", '"""Grant rights, with room."""\n\nmost_grants = 3\n', excluded
        )
    ] == [(3, "grants", "most_grants")]


def test_row_without_excluded_words_excludes_nothing() -> None:
    excluded = parse_glossary(
        "| term | meaning | where | not |\n|---|---|---|---|\n| a | b | c | |"
    )
    assert not list(find_uses("a.md", "# A term that is not excluded", excluded))


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.py", "def book_of(): ..."),
        ("a.py", "class NodeBook: ..."),
        ("a.py", "def add(book): ..."),
        ("a.py", "self.books = 1"),
        ("a.py", "import ledger as book"),
        ("book/a.py", ""),
        ("a.py", "# A comment about a book."),
        ("a.py", '"""A docstring about a book."""'),
        ("a.py", 'raise ValueError("there is no book of this pod")'),
        ("a.md", "A paragraph of a page that is about kubelet's books, in two\nlines of text."),
        ("a.md", "| row | about books |"),
        ("a.md", "## Books"),
        ("charts/values.yaml", "key: value  # about books"),
    ],
)
def test_excluded_word_is_found(path: str, text: str) -> None:
    excluded = parse_glossary("| node usage | | | book |")
    assert [use.path for use in find_uses(path, text, excluded)] == [path]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.py", "books.sort()"),
        ("a.py", 'KEYS = ("book",)'),
        (
            "a.md",
            "Text in code font, for instance `book`, is a quotation; so is [a link](book.md).",
        ),
        ("a.md", "```\nthe book of a program's output, which is shown as it was printed\n```"),
    ],
)
def test_quoted_word_and_word_of_another_module_are_not_found(path: str, text: str) -> None:
    excluded = parse_glossary("| node usage | | | book |")
    assert not list(find_uses(path, text, excluded))


def test_names_are_split_at_underscores_and_capitals() -> None:
    assert split_name("_HTTPServer_bookOf2") == "HTTP Server book Of"
