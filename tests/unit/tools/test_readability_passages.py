"""The passages that ``tools/passages`` finds in each kind of file, and the sample it draws."""

import json
from pathlib import Path

import pytest

from readability.__main__ import draw, format_passages, main
from readability.passages import DOCSTRING, MESSAGE, PARAGRAPH, Passage, extract_passages
from readability.sources import is_judged

MODULE = '''"""Read the file."""

import logging

NAMES = {"key": "a long value that no user ever sees"}


class Reader:
    """Reads one file."""

    def read(self, path):
        """Return the text.

        Raises:
            OSError: the file is missing.
        """
        logging.warning("file not read, trying again %s", path)
        logging.info("two words-only-but-long")
        reason = f"file {path.name}: " f"not found in {len(NAMES)} folders"
        if not path:
            raise OSError(reason + "; create the file")
        return Option(path, help="The file that is read.", default="not a message for users")
'''

PAGE = """# A heading that is not a paragraph, however long it may be

The page begins with a paragraph. The second line
ends it, and a table follows.
| a table row | that is longer than the least length of a paragraph |

```
a code block is not a paragraph, also if it is longer than the least length
```

- The first item of a list is a paragraph of its own, with
    an indented second line.
- The second item of a list is a paragraph of its own as well.

    an indented block of code is not a paragraph, however long it may be

Too short.
"""

VALUES = """# The first comment of the file has two lines, which
# are one paragraph.
image: gputopo  # a comment behind a value is not a paragraph, however long it may be
# Short.
"""


def texts(path: str, text: str, kind: str) -> list[tuple[int, str]]:
    return [(each.line, each.text) for each in extract_passages(path, text) if each.kind == kind]


def test_docstrings_of_modules_classes_and_functions_are_found() -> None:
    found = texts("a.py", MODULE, DOCSTRING)
    assert [line for line, _ in found] == [1, 9, 12]
    assert found[2][1].splitlines()[-1] == "    OSError: the file is missing."


def test_messages_of_logs_errors_and_helps_are_found() -> None:
    assert sorted(texts("a.py", MODULE, MESSAGE)) == [
        (17, "file not read, trying again %s"),
        (19, "file {path.name}: not found in {len(NAMES)} folders"),
        (22, "The file that is read."),
    ]


def test_message_in_a_raise_statement_is_found() -> None:
    text = 'raise ValueError("size: 0 is not positive")'
    assert texts("a.py", text, MESSAGE) == [(1, "size: 0 is not positive")]


def test_paragraphs_of_markdown_are_prose_and_list_items() -> None:
    assert texts("a.md", PAGE, PARAGRAPH) == [
        (3, "The page begins with a paragraph. The second line ends it, and a table follows."),
        (
            11,
            "- The first item of a list is a paragraph of its own, with an indented second line.",
        ),
        (13, "- The second item of a list is a paragraph of its own as well."),
    ]


def test_paragraphs_of_the_chart_are_comment_blocks_and_notes() -> None:
    assert texts("charts/values.yaml", VALUES, PARAGRAPH) == [
        (1, "The first comment of the file has two lines, which are one paragraph.")
    ]
    notes = "gputopo is installed. To see the nodes and their GPUs run:\n  kubectl get gputopo\n"
    assert len(texts("charts/NOTES.txt", notes, PARAGRAPH)) == 1


@pytest.mark.parametrize(
    ("path", "judged"),
    [
        ("src/gputopo/cli/app.py", True),
        ("deviceplugin/README.md", True),
        ("sdk/README.md", True),
        ("README.md", True),
        ("charts/gputopo/templates/NOTES.txt", True),
        ("charts/gputopo/crds/gpujobs.yaml", False),
        ("deviceplugin/gputopo_deviceplugin/v1beta1/api_pb2.py", False),
        ("tests/unit/test_layout_guards.py", False),
    ],
)
def test_text_of_the_product_and_its_documentation_is_judged(path: str, judged: bool) -> None:  # noqa: FBT001
    assert is_judged(path) is judged


def test_sample_depends_on_the_seed_and_not_on_the_order_of_the_passages() -> None:
    passages = [Passage("a.md", line, PARAGRAPH, "text") for line in range(100)]
    drawn = draw(passages, 1, 10)
    assert len(set(drawn)) == 10
    assert draw(reversed(passages), 1, 10) == drawn
    assert draw(passages, 2, 10) != drawn


def test_sample_is_smaller_where_a_kind_has_fewer_passages() -> None:
    assert draw([Passage("a.py", 1, MESSAGE, "text")], 1, 10) == [
        Passage("a.py", 1, MESSAGE, "text")
    ]


def test_passages_are_numbered_with_file_and_line() -> None:
    lines = list(format_passages([Passage("a.md", 7, PARAGRAPH, "word " * 30)]))
    assert lines[0] == "1. paragraph, a.md:7"
    assert all(line.startswith("   ") and len(line) <= 100 for line in lines[1:-1])


def test_working_tree_gives_ten_passages_of_each_kind(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-o", "json"]) == 0
    kinds = [passage["kind"] for passage in json.loads(capsys.readouterr().out)]
    assert kinds == [DOCSTRING] * 10 + [MESSAGE] * 10 + [PARAGRAPH] * 10


def test_git_revision_gives_numbered_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--ref", "HEAD", "--count", "1", "--seed", "3"]) == 0
    assert capsys.readouterr().out.startswith("1. docstring, ")


def test_unknown_revision_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--ref", "no-such-revision"]) == 2
    assert "no-such-revision" in capsys.readouterr().err


def test_a_passage_comes_with_what_a_reader_sees_beside_it() -> None:
    python = '''
class Store:
    """Keeps objects by name."""

    async def find(self, name, *, now):
        """Return the object with this name."""
        raise KeyError(f"no object has the name {name}: " + "create it first, please")
'''
    found = {each.text: each.context for each in extract_passages("a.py", python)}
    assert found["Keeps objects by name."] == "module\nclass Store"
    store, find = "class Store: Keeps objects by name.", "def find(self, name, *, now)"
    assert found["Return the object with this name."] == f"{store}\n{find}"
    message = found["no object has the name {name}: "]
    assert message.startswith(f"{find}: Return the object with this name.\n")
    assert "create it first" in message
    page = (
        "# Guide\n\n## Start\n\nThis paragraph is long enough to be drawn by the script, I hope.\n"
    )
    [paragraph] = extract_passages("a.md", page)
    assert paragraph.context == "Guide: Start"


def test_a_definition_without_a_docstring_has_that_of_the_module_around_it() -> None:
    python = '''"""Reads sensors."""

def read(path):
    raise OSError("the sensor does not respond")
'''
    [_, message] = extract_passages("a.py", python)
    assert message.context.splitlines()[0] == "def read(path): Reads sensors."


def test_a_paragraph_comes_with_the_paragraph_before_it() -> None:
    introduction = "A pod is forgotten under each of these conditions, which are rare:"
    first = "- kubelet can no longer start the pod, which is soon the case after a deletion."
    second = "- the node of the pod was deleted, and the pod has no process on any node."
    after = "Another paragraph follows, and it is about something that has no list."
    page = f"# Cleaning\n\n{introduction}\n\n{first}\n{second}\n\n{after}\n"
    contexts = {each.text: each.context for each in extract_passages("a.md", page)}
    assert contexts == {
        introduction: "Cleaning",
        first: f"Cleaning\n{introduction}",
        second: f"Cleaning\n{introduction}\n{first}",
        after: f"Cleaning\n{introduction}\n{second}",
    }


def test_a_comment_of_the_chart_comes_with_the_lines_after_it() -> None:
    comment = "# This comment of the values says how long the agent waits for the API."
    values = f"agent:\n  {comment}\n  timeout: 10\n  retries: 2\n\nother: 1\n"
    [found] = extract_passages("charts/values.yaml", values)
    assert found.context == "timeout: 10\nretries: 2"


def test_a_blind_test_has_the_passages_of_three_sources_without_their_places(
    tmp_path: Path,
) -> None:
    assert main(["--blind", str(tmp_path), "--count", "2", "--seed", "5"]) == 0
    key = json.loads((tmp_path / "key.json").read_text())
    assert set(key) == {DOCSTRING, MESSAGE, PARAGRAPH}
    for kind, entries in key.items():
        groups = sorted(entry.split()[0] for entry in entries)
        assert groups == ["before", "before", "controls", "controls", "now", "now"]
        text = (tmp_path / f"{kind}.txt").read_text()
        assert [line for line in text.splitlines() if line[:1].isdigit()] == [
            f"{number}." for number in range(1, 7)
        ]
        assert not any(entry.split()[1] in text for entry in entries)
