"""Compares the preprocessor of ``examples/ensemble-preprocessing`` with three separate loaders.

    python -m benchmarks.shared_preprocessing --items 600 --turns 3

Both ways give three members the same number of items, in ordinary processes of this machine. In the
first way, one process decodes each item once for all members; in the second way, each member
decodes its own. CPU seconds are those of all processes; the start of the preprocessor is left out.
"""

import argparse
import os
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import table

PIPELINE = Path(__file__).parents[1] / "examples" / "ensemble-preprocessing" / "pipeline.py"
MEMBERS = 3
_TICK = os.sysconf("SC_CLK_TCK")


def cpu_seconds(root: int) -> float:
    """Return the CPU seconds of a process and of its children that still run."""
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            pid = int(folder.name)
            parents[pid], used[pid] = int(fields[1]), (int(fields[11]) + int(fields[12])) / _TICK
    return sum(used[pid] for pid in used if root in {pid, parents[pid]})


def start(role: str, **environment: str) -> subprocess.Popen[bytes]:
    """Start a process of the pipeline."""
    return subprocess.Popen(
        [sys.executable, str(PIPELINE), role],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
    )


def wait_all(processes: Sequence[subprocess.Popen[bytes]]) -> float:
    """Wait until all processes have ended; return their CPU seconds."""
    total = 0.0
    for process in processes:
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            raise SystemExit(f"{process.args!r}: ended with status {status}")
        total += usage.ru_utime + usage.ru_stime
    return total


def shared(items: int, workers: int) -> Mapping[str, float]:
    """Measure members that one preprocessor feeds."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = start("serve", PORT=str(port), WORKERS=str(workers))
    assert server.stdout is not None  # noqa: S101 - it is a pipe
    server.stdout.readline()  # it serves now
    before, begin = cpu_seconds(server.pid), time.monotonic()
    address = {"GPUTOPO_PREPROCESSOR": f"127.0.0.1:{port}", "ITEMS": str(items)}
    members = [start("train", **address) for _ in range(MEMBERS)]
    used = wait_all(members)
    seconds = time.monotonic() - begin
    used += cpu_seconds(server.pid) - before
    server.send_signal(signal.SIGTERM)
    server.wait()
    return {"items/s": items / seconds, "CPU s": used}


def separate(items: int) -> Mapping[str, float]:
    """Measure members that each decode their own items."""
    begin = time.monotonic()
    used = wait_all([start("separate", ITEMS=str(items)) for _ in range(MEMBERS)])
    return {"items/s": items / (time.monotonic() - begin), "CPU s": used}


def main(arguments: Sequence[str]) -> None:
    """Measure both ways in turns, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=600, help="items of each member")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2, help="decoding processes when shared")
    options = parser.parse_args(arguments)
    wait_all([start("make")])
    found: dict[str, list[Mapping[str, float]]] = {"shared": [], "separate": []}
    for _ in range(options.turns):
        found["shared"].append(shared(options.items, options.workers))
        found["separate"].append(separate(options.items))
    rows = [
        (
            way,
            f"{statistics.median(each['items/s'] for each in turns):.1f}",
            f"{statistics.median(each['CPU s'] for each in turns):.2f}",
        )
        for way, turns in found.items()
    ]
    title = f"{MEMBERS} members, {options.items} items each, medians of {options.turns} turns"
    table.show(title, ("way", "items/s of each member", "CPU s of all"), rows)


if __name__ == "__main__":
    main(sys.argv[1:])
