"""Runs the parts of the program and reports what differs from what gputopo expects."""

import argparse
import asyncio
import logging
import os
import sys
import tempfile
from pathlib import Path
from typing import Final

from hardwaretest.behaviour import Behaviour
from hardwaretest.facts import read_counters, read_gpus
from hardwaretest.node import shared_node
from hardwaretest.report import Report
from hardwaretest.speeds import measure

_PARTS: Final = ("facts", "behaviour", "speeds")


def main() -> None:
    """Run the parts; exit with 1 if the GPU does not behave as gputopo expects."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    options = _parse()
    if os.geteuid() != 0:
        sys.exit("gputopo: run this program as root: it sets the compute mode of a GPU")
    report = Report(options.out)
    with tempfile.TemporaryDirectory(prefix="gputopo-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # programs of other users find their daemon in it
        asyncio.run(_run(options, folder, report))
    if report.failed:
        sys.exit(f"gputopo: differs from what gputopo expects: {'; '.join(report.failed)}")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools/hardware", description=__doc__)
    parser.add_argument("--parts", nargs="+", choices=_PARTS, default=list(_PARTS))
    parser.add_argument("--out", type=Path, default=Path(), help="folder of hardware.json")
    parser.add_argument(
        "--library-dir",
        type=Path,
        default=Path("/usr/lib/x86_64-linux-gnu"),
        help="folder of libnvidia-ml.so.1",
    )
    parser.add_argument(
        "--control-program", default="nvidia-cuda-mps-control", help="control program of MPS"
    )
    parser.add_argument("--client-user", type=int, help="user ID of all clients")
    return parser.parse_args()


async def _run(options: argparse.Namespace, folder: Path, report: Report) -> None:
    uuid = read_gpus(options.library_dir, report)
    if "facts" in options.parts:
        await read_counters(options.library_dir, uuid, report)
    if not {"behaviour", "speeds"} & {*options.parts}:
        return
    async with shared_node(
        uuid, folder, options.library_dir, options.control_program, options.client_user
    ) as node:
        if "behaviour" in options.parts:
            await Behaviour(node, report).run()
        if "speeds" in options.parts:
            await measure(node, report)


if __name__ == "__main__":
    main()
