"""Command line: `tools/calltrace`."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import grimp

from calltracing import record
from calltracing.report import Call, document, fullest, lines, report

_HERE = Path(__file__).parent


def main() -> int:
    """Run the command, and print what its roots called."""
    parser = argparse.ArgumentParser(prog="tools/calltrace", description=record.__doc__)
    parser.add_argument("--root", action="append", required=True, metavar="CLASS.FUNCTION")
    parser.add_argument("--package", default="", help="count the modules of this package only")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="-- PROGRAM [ARGUMENT ...]")
    options = parser.parse_args()
    command = [word for word in options.command if word != "--"]
    if not command:
        parser.error("command: none given: add -- and the program to run")
    with tempfile.TemporaryDirectory() as folder:
        status = _run(command, options.root, folder)
        found = fullest(_records(Path(folder)))
    depends = _imports(
        {call.module.partition(".")[0] for calls in found.values() for call in calls}
    )
    reports = [
        report(root, found[root], depends, options.package)
        for root in options.root
        if root in found
    ]
    if options.output == "json":
        print(json.dumps(document(reports), indent=2))
    else:
        print("\n".join(lines(reports)))
    if missing := [root for root in options.root if root not in found]:
        print(f"not called: {', '.join(missing)}", file=sys.stderr)
        return 1
    return status


def _run(command: list[str], roots: list[str], folder: str) -> int:
    paths = [str(_HERE / "site"), str(_HERE.parent), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        record.ROOTS: ",".join(roots),
        record.FOLDER: folder,
    }
    return subprocess.run(command, env=environment, stdout=sys.stderr, check=False).returncode


def _records(folder: Path) -> Iterator[tuple[str, list[Call]]]:
    for file in sorted(folder.glob("*.jsonl")):
        for line in file.read_text().splitlines():
            found = json.loads(line)
            yield found["root"], [Call(*call) for call in found["calls"]]


def _imports(packages: set[str]) -> Callable[[str, str], bool]:
    graph = grimp.build_graph(*sorted(packages), exclude_type_checking_imports=True)

    @cache
    def depends(importer: str, imported: str) -> bool:
        return graph.chain_exists(importer=importer, imported=imported)

    return depends


if __name__ == "__main__":
    sys.exit(main())
