"""The command line of the tools that carry out named cases on the local cluster."""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from faulttest import scenario
from faulttest.scenario import Outcome
from localcluster.cluster import Cluster
from localcluster.progress import Progress
from localcluster.settings import current_paths
from showcase.install import Installed
from soaktest.trial import trial, write


class Case(Protocol):
    """A scenario or an experiment."""

    @property
    def summary(self) -> str:
        """One line."""
        ...


def parser(
    tool: str,
    description: str | None,
    noun: str,
    cases: Mapping[str, Case],
    how: str,
    more: Sequence[str] = (),
) -> argparse.ArgumentParser:
    """Return the options that all these tools have.

    Args:
        tool: name of the program in ``tools/``.
        description: first part of the help text.
        noun: kind of the cases, in the singular.
        cases: by name, in the order of the help text.
        how: end of the help text of the names.
        more: further words that are allowed in place of names.
    """
    width = max(map(len, cases))
    lines = "\n".join(f"  {name:<{width}}  {one.summary}" for name, one in cases.items())
    made = argparse.ArgumentParser(
        prog=f"tools/{tool}",
        description=description,
        epilog=f"{noun}s:\n{lines}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--rounds", type=int, help=f"how often each {noun} repeats its steps")
    made.add_argument("--log", type=Path, help="file for every step")
    made.add_argument("-o", "--output", choices=("table", "json"), default="table")
    made.add_argument(
        *("cases",),
        nargs="+",
        choices=[*cases, *more],
        metavar=noun.upper(),
        help=f"one or more of the names below, {how}",
    )
    return made


def run(
    tool: str,
    options: argparse.Namespace,
    install: Callable[[Callable[[str], None]], Installed],
    carry_out: Callable[[Installed, Cluster, Path], Sequence[Outcome]],
    *,
    keep_cluster: bool = False,
) -> int:
    """Install gputopo, carry out the cases, print the result; return 1 if an error was found.

    Args:
        tool: name of the program in ``tools/``.
        options: of :func:`parser`.
        install: returns a cluster with gputopo; its argument gets the name of each stage.
        carry_out: its last argument is the log.
        keep_cluster: see :func:`soaktest.trial.trial`.
    """
    stamp = time.strftime("%Y%m%d-%H%M%S")
    log = options.log or Path(tempfile.gettempdir()) / f"gputopo-{tool}-{stamp}.log"
    with trial(keep_cluster=keep_cluster):
        installed = install(lambda text: print(f"==> {text}", file=sys.stderr))
        outcomes = carry_out(installed, Cluster(current_paths(), Progress()), log)
    document = scenario.document(outcomes, str(log))
    write(options.output, document, scenario.table(outcomes, str(log)))
    return 0 if all(one.is_clean for one in outcomes) else 1
