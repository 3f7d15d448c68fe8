"""Extract docstrings, messages and paragraphs from Python, Markdown and chart files."""

import ast
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Final, TypeAlias

DOCSTRING: Final = "docstring"
MESSAGE: Final = "message"
PARAGRAPH: Final = "paragraph"
KINDS: Final = (DOCSTRING, MESSAGE, PARAGRAPH)

_MIN_MESSAGE: Final = 20  # characters; shorter literals are keys, names and machine values
_MAX_CONTEXT: Final = 300
_LINES_AFTER: Final = 5
_MIN_PARAGRAPH: Final = 60  # characters; shorter blocks are captions
Documented: TypeAlias = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
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
        context: lines that a reader has on the screen too. Docstring: the definition, and the first
            paragraph of the docstring of its class or module. Message: the call, and the function
            with the first sentence of its docstring. Paragraph: the title of the page, the heading,
            and the paragraph or item before. Comment of a chart: the lines after it.
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
    nodes = _walk(ast.parse(text))
    for parents, node in nodes:
        if isinstance(node, Documented) and (docstring := ast.get_docstring(node)):
            context = "\n".join(filter(None, (_about(parents), _definition(node))))
            yield Passage(path, node.body[0].lineno, DOCSTRING, docstring, context)
    literals = {
        (literal.lineno, literal.col_offset): (literal, source, parents)
        for parents, node in nodes
        for source in _message_sources(node)
        for literal in _find_literals(source)
    }
    for literal, source, parents in literals.values():
        message = _render(literal)
        # A message is a phrase: machine values, paths and formats have fewer than three words.
        if len(message) >= _MIN_MESSAGE and len(message.split()) > 2:  # noqa: PLR2004
            used = "" if source is literal else _short(ast.unparse(source))
            yield Passage(path, literal.lineno, MESSAGE, message, f"{_about(parents)}\n{used}")


def _walk(tree: ast.Module) -> Sequence[tuple[tuple[Documented, ...], ast.AST]]:
    """Return each node with the module, classes and functions that contain it."""
    found: list[tuple[tuple[Documented, ...], ast.AST]] = [((), tree)]
    for parents, node in found:  # which grows meanwhile; recursion would take three times as long
        inside = (*parents, node) if isinstance(node, Documented) else parents
        found.extend((inside, child) for child in ast.iter_child_nodes(node))
    return found


def _about(parents: Sequence[Documented]) -> str:
    """Return the innermost class, function or module, and how its docstring begins.

    A definition without a docstring has that of the class or module around it.
    """
    if not parents:
        return ""
    docstring = next(filter(None, map(ast.get_docstring, reversed(parents))), "")
    first = _short(docstring.partition("\n\n")[0])
    return f"{_definition(parents[-1])}: {first}".removesuffix(": ")


def _short(text: str) -> str:
    return textwrap.shorten(text, _MAX_CONTEXT, placeholder=" ...")


def _definition(node: ast.AST) -> str:
    match node:
        case ast.ClassDef(name=name):
            return f"class {name}"
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
            return _short(f"def {name}({ast.unparse(node.args)}){returns}")
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
    above: list[str] = []  # the paragraph before, and the items of its list until here
    start, fenced, title, heading = 0, False, "", ""
    for number, line in enumerate([*text.splitlines(), ""], 1):
        fence = line.lstrip().startswith("```")
        fenced ^= fence
        code = fence or fenced or (not block and _INDENTED_CODE.match(line))
        prose = bool(line.strip()) and not code and not _NOT_PROSE.match(line)
        if block and (not prose or _ITEM.match(line)):
            headings = title if heading == title else f"{title}: {heading}"
            context = "\n".join([headings, *above[:1], *above[1:][-1:]])
            yield from _make_paragraph(path, start, block, context.strip())
            above = above if _ITEM.match(block[0]) else []
            above.append(" ".join(" ".join(block).split()))
            block = []
        if line.startswith("#") and not code:
            heading, above = line.strip("# "), []
            title = title or heading
        if prose:
            start = start if block else number
            block.append(line)


def _extract_from_chart(path: str, text: str) -> Iterator[Passage]:
    """Yield comment blocks with the lines after each, and the prose of ``NOTES.txt``."""
    notes = path.endswith(".txt")
    block: list[str] = []
    start = 0
    lines = [*text.splitlines(), ""]
    for number, line in enumerate(lines, 1):
        content = line.strip()
        words = content if notes else content[1:].strip() if content.startswith("#") else ""
        if words:
            start = start if block else number
            block.append(words)
        elif block:
            after = takewhile(str.strip, lines[number - 1 : number - 1 + _LINES_AFTER])
            yield from _make_paragraph(path, start, block, textwrap.dedent("\n".join(after)))
            block = []


def _make_paragraph(path: str, line: int, block: list[str], context: str) -> Iterator[Passage]:
    text = " ".join(" ".join(block).split())
    if len(text) >= _MIN_PARAGRAPH:
        yield Passage(path, line, PARAGRAPH, text, context)
