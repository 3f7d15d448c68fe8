"""Extract docstrings, messages and paragraphs from Python, Markdown and chart files."""

import ast
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

DOCSTRING: Final = "docstring"
MESSAGE: Final = "message"
PARAGRAPH: Final = "paragraph"
KINDS: Final = (DOCSTRING, MESSAGE, PARAGRAPH)

_MIN_MESSAGE: Final = 20  # characters; shorter literals are keys, names and machine values
_MAX_CONTEXT: Final = 300
_MIN_PARAGRAPH: Final = 60  # characters; shorter blocks are captions
_HAS_DOCSTRING: Final = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
_LOG_METHODS: Final = {"debug", "info", "warning", "error", "exception", "critical", "log"}
# Functions and classes that build a message for users, by a part of their name.
_MESSAGE_CALL: Final = re.compile(
    r"error|condition|claim|event|finding|refus|reject|warn|misfit|option|argument|ending|fault|response",
    re.IGNORECASE,
)
_MESSAGE_NAMES: Final = {"detail", "epilog", "help", "message", "note", "problem", "reason", "todo"}
_ITEM: Final = re.compile(r"\s*([-*]|\d+\.)\s")
_NOT_PROSE: Final = re.compile(r"\s*(#|\||!\[|<|---)")
_INDENTED_CODE: Final = re.compile(r"    \S")


@dataclass(frozen=True, order=True)
class Passage:
    """One text of the project, where it begins, and what a reader sees beside it.

    Attributes:
        context: the definition of a docstring, the call that uses a message, the heading above a
            paragraph with the sentence that introduces its list, or the line after a comment.
    """

    path: str
    line: int
    kind: str
    text: str
    context: str = ""


def extract_passages(path: str, text: str) -> Iterator[Passage]:
    """Yield all passages of one file, chosen by the file's suffix."""
    if path.endswith(".py"):
        yield from _extract_from_python(path, text)
    elif path.endswith(".md"):
        yield from _extract_from_markdown(path, text)
    else:
        yield from _extract_from_chart(path, text)


def _extract_from_python(path: str, text: str) -> Iterator[Passage]:
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, _HAS_DOCSTRING) and (docstring := ast.get_docstring(node)):
            yield Passage(path, node.body[0].lineno, DOCSTRING, docstring, _definition(node))
    literals = {
        (literal.lineno, literal.col_offset): (literal, source)
        for node in ast.walk(tree)
        for source in _message_sources(node)
        for literal in _find_literals(source)
    }
    for literal, source in literals.values():
        message = _render(literal)
        # A message is a phrase: machine values, paths and formats have fewer than three words.
        if len(message) >= _MIN_MESSAGE and len(message.split()) > 2:  # noqa: PLR2004
            used = textwrap.shorten(ast.unparse(source), _MAX_CONTEXT, placeholder=" ...")
            yield Passage(path, literal.lineno, MESSAGE, message, used)


def _definition(node: ast.AST) -> str:
    match node:
        case ast.ClassDef(name=name):
            return f"class {name}"
        case ast.FunctionDef(name=name, args=args) | ast.AsyncFunctionDef(name=name, args=args):
            names = [each.arg for each in (*args.posonlyargs, *args.args, *args.kwonlyargs)]
            return f"def {name}({', '.join(names)})"
    return "module"


def _message_sources(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Raise(exc=ast.expr() as raised):
            yield raised
        case ast.Call():
            name = _called_name(node.func)
            if name in _LOG_METHODS or _MESSAGE_CALL.search(name):
                yield from node.args
            yield from (each.value for each in node.keywords if each.arg in _MESSAGE_NAMES)
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in _MESSAGE_NAMES:
            yield value


def _called_name(function: ast.expr) -> str:
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _find_literals(source: ast.AST) -> Iterator[ast.JoinedStr | ast.Constant]:
    match source:
        case ast.JoinedStr() | ast.Constant(value=str()):
            yield source  # without what is nested: the parts of an f-string are one message
        case _:
            for child in ast.iter_child_nodes(source):
                yield from _find_literals(child)


def _render(literal: ast.JoinedStr | ast.Constant) -> str:
    """Return the text of a literal; values of an f-string are shown as their expressions."""
    if isinstance(literal, ast.Constant):
        return str(literal.value)
    parts = []
    for part in literal.values:
        match part:
            case ast.FormattedValue(value=value):
                parts.append(f"{{{ast.unparse(value)}}}")
            case ast.Constant(value=value):
                parts.append(str(value))
    return "".join(parts)


def _extract_from_markdown(path: str, text: str) -> Iterator[Passage]:
    """Yield prose blocks and list items; skip code, headings, tables and pictures."""
    block: list[str] = []
    start, fenced, heading, introduction = 0, False, "", ""
    for number, line in enumerate([*text.splitlines(), ""], 1):
        fence = line.lstrip().startswith("```")
        fenced ^= fence
        code = fence or fenced or (not block and _INDENTED_CODE.match(line))
        prose = bool(line.strip()) and not code and not _NOT_PROSE.match(line)
        if block and (not prose or _ITEM.match(line)):
            if not _ITEM.match(block[0]):
                introduction = _list_introduction(block)
                yield from _make_paragraph(path, start, block, heading)
            else:
                context = ": ".join(filter(None, (heading, introduction)))
                yield from _make_paragraph(path, start, block, context)
            block = []
        if line.startswith("#") and not code:
            heading, introduction = line.strip("# "), ""
        if prose:
            start = start if block else number
            block.append(line)


def _list_introduction(block: list[str]) -> str:
    """Return the last sentence of a paragraph that introduces a list, else an empty text."""
    text = " ".join(block)
    return re.split(r"(?<=[.!?]) ", text)[-1] if text.endswith(":") else ""


def _extract_from_chart(path: str, text: str) -> Iterator[Passage]:
    """Yield comment blocks with the line after each, and the prose of ``NOTES.txt``."""
    notes = path.endswith(".txt")
    block: list[str] = []
    start = 0
    for number, line in enumerate([*text.splitlines(), ""], 1):
        content = line.strip()
        words = content if notes else content[1:].strip() if content.startswith("#") else ""
        if words:
            start = start if block else number
            block.append(words)
        elif block:
            yield from _make_paragraph(path, start, block, content)
            block = []


def _make_paragraph(path: str, line: int, block: list[str], context: str) -> Iterator[Passage]:
    text = " ".join(" ".join(block).split())
    if len(text) >= _MIN_PARAGRAPH:
        yield Passage(path, line, PARAGRAPH, text, context)
