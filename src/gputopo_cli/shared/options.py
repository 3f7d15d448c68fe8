"""Options that several commands have: under one name, with one help and one way to read them."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final

import typer

from gputopo.patterns.model import PatternKind
from gputopo.placement.model import PolicyName
from gputopo.runtime.messages import quoted
from gputopo_cli.shared.errors import InputError
from gputopo_cli.shared.words import nearest, policy_name, word

ANSWER_IS_NO: Final = 3
"""Exit status: the input is good; nothing fits, or something is wrong with the cluster."""


def starting_with(words: Sequence[str]) -> Callable[[str], list[str]]:
    """Return what completes a word in the shell to one of ``words``."""
    return lambda incomplete: [each for each in words if each.startswith(incomplete)]


def one_of(field: str, words: Sequence[str]) -> Callable[[str], str]:
    """Return a reader that takes one of ``words`` and refuses all else."""

    def read(text: str) -> str:
        if text in words:
            return text
        raise InputError(
            f"{field}: {quoted(text)} is not one of {', '.join(words)}{nearest(text, words)}"
        )

    return read


def format_option(*formats: str) -> Any:  # noqa: ANN401 - what typer.Option says it is
    """Return the option ``-o`` of a command that has these formats."""
    return typer.Option(
        "-o",
        "--output",
        metavar="|".join(formats),
        parser=one_of("output", formats),
        autocompletion=starting_with(formats),
        help="What to write.",
    )


OutputFile = Annotated[
    str | None,
    typer.Option("--output-file", metavar="FILE", help="Write there, not to standard output."),
]


def complete_topologies(incomplete: str) -> list[str]:
    """Return the names of the catalogue that start so."""
    from gputopo_cli.topology.load import known_names

    return starting_with(known_names())(incomplete)


TopologyOption = Annotated[
    str,
    typer.Option(
        "--topology",
        metavar="NAME|FILE|NODE",
        autocompletion=complete_topologies,
        help="A name of `gputopo topology list`, a file (- is standard input), or a node.",
    ),
]

Context = Annotated[
    str | None,
    typer.Option("--context", metavar="NAME", help="Of the kubeconfig, where a node is meant."),
]

ClusterContext = Annotated[
    str | None,
    typer.Option(
        "--context", metavar="NAME", help="Of the kubeconfig; its current one if none is named."
    ),
]

PATTERN_WORDS = tuple(map(word, PatternKind))
POLICY_WORDS = tuple(map(word, PolicyName))

PolicyOption = Annotated[
    PolicyName,
    typer.Option(
        "--policy",
        metavar="POLICY",
        parser=policy_name,
        show_default="preserve",
        autocompletion=starting_with(POLICY_WORDS),
        help=f"{', '.join(POLICY_WORDS[:-1])} or {POLICY_WORDS[-1]}.",
    ),
]

ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="MODEL|FILE",
        show_default="the best one valid here",
        help="A bandwidth model of `gputopo bandwidth list`, or a fitted one's JSON file.",
    ),
]

JobsOption = Annotated[
    str | None,
    typer.Option("--jobs", metavar="FILE", help="The list of jobs; - is standard input."),
]

GenerateOption = Annotated[
    str | None,
    typer.Option(
        "--generate",
        metavar="N",
        help="Instead of --jobs: draw so many as the MAPA paper did, 1 to 5 GPUs in rings.",
    ),
]

NodesOption = Annotated[
    str, typer.Option("--nodes", metavar="N", help="How many such nodes there are.")
]

BackfillOption = Annotated[
    bool,
    typer.Option("--backfill", help="Let jobs that fit start before those that have to wait."),
]

WaitOption = Annotated[
    bool,
    typer.Option(
        "--wait",
        help="Let a sensitive job wait for better links where that saves more GPU time than it"
        " idles; on one node, without --backfill.",
    ),
]

TimeOption = Annotated[
    str,
    typer.Option(
        "--time",
        metavar="fixed|bandwidth|FILE",
        autocompletion=starting_with(("bandwidth", "fixed")),
        help="How long a job runs: its service time, or the longer the less bandwidth it has,"
        " by published curves or those of a JSON file (docs/simulator.md).",
    ),
]

AsReleasedOption = Annotated[
    bool,
    typer.Option(
        "--as-released",
        help="Do what the paper's authors' program does, to reproduce its figures only.",
    ),
]
