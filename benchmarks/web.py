"""The page of ``gputopo web``: time to first paint, bytes, memory, and CPU with viewers and pods.

The page runs in a process of its own and watches a fake API server in this process. One viewer is
chromium. The others read the stream, and read sections again as the script of the page does.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import aiohttp

from benchmarks import web_details, web_pictures
from benchmarks.options import Options
from benchmarks.table import show
from benchmarks.web_cluster import Document, SimulatedCluster, waiting_pods

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROOT: Final = Path(__file__).parents[1]
SIZES: Final = (3, 1000)
VIEWERS: Final = 10
PODS_PER_SECOND: Final = 3
_SECONDS: Final = 60


@dataclass(frozen=True, slots=True)
class Measured:
    """The figures of one size of cluster."""

    nodes: int
    pods: int
    ready_seconds: float
    paint_ms: float
    page_kb: float
    sent_kb: float
    idle_cpu: float
    viewers_cpu: float
    memory_mb: float


def run(options: Options) -> None:
    """Measure each size and print a table."""
    sys.path.insert(0, str(ROOT / "tests"))  # the fake API server
    seconds = 2 if options.quick else _SECONDS
    sizes = SIZES[:1] if options.quick else SIZES
    found = [_measure(nodes, seconds, options) for nodes in sizes]
    show(
        "the page of gputopo web",
        [
            *("nodes", "pods", "ready s", "first paint ms", "page kB", "sent kB", "idle CPU %"),
            *(f"CPU % with {VIEWERS} viewers, {PODS_PER_SECOND} pods/s", "memory MB"),
        ],
        [
            [
                f"{it.nodes:,}",
                f"{it.pods:,}",
                f"{it.ready_seconds:.1f}",
                f"{it.paint_ms:.0f}",
                f"{it.page_kb:.0f}",
                f"{it.sent_kb:.0f}",
                f"{it.idle_cpu:.1f}",
                f"{it.viewers_cpu:.1f}",
                f"{it.memory_mb:.0f}",
            ]
            for it in found
        ],
    )


def _measure(nodes: int, seconds: float, options: Options) -> Measured:
    from support.api.kubeconfig import write_kubeconfig  # noqa: PLC0415 - see sys.path above
    from support.api.server import ApiServer, serving_in_thread  # noqa: PLC0415

    cluster = SimulatedCluster(nodes, options.seed)
    explained = cluster.place(3, only=web_pictures.MESH_NODE)
    pods = deque([*filter(None, [explained]), *cluster.fill(0.7)])
    cluster.break_gpus(nodes // 100)
    with serving_in_thread(ApiServer()) as api, tempfile.TemporaryDirectory() as folder:
        for node in cluster.nodes:
            api.create("gputopologies", node.document())
        web_details.resize([*pods])
        api.create("gpuprofiles", web_details.profile())
        api.create("deployments", web_details.operator())
        for pod in (*pods, *waiting_pods(min(nodes, 40), nodes)):
            api.create("pods", pod)
        config = write_kubeconfig(Path(folder) / "config", api.url)
        with _page(config) as (url, pid, ready_seconds), _opened(url) as page:
            paint, size, sent = _painted(page, nodes)
            if options.pictures is not None:
                web_pictures.take(page, options.pictures, nodes, details=nodes == SIZES[0])
            idle = _cpu_percent(pid, min(seconds, 10))
            stop = threading.Event()
            churn = threading.Thread(target=_churn, args=(api, cluster, pods, stop))
            viewers = threading.Thread(target=asyncio.run, args=(_viewers(url, stop),))
            churn.start()
            viewers.start()
            busy = _cpu_percent(pid, seconds)
            stop.set()
            churn.join()
            viewers.join()
            memory = _resident_mb(pid)
    return Measured(nodes, len(pods), ready_seconds, paint, size, sent, idle, busy, memory)


@contextmanager
def _page(kubeconfig: Path) -> Iterator[tuple[str, int, float]]:
    """Run the page in a process; yield its URL, the process, and the seconds until it is ready."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "gputopo_cli", "web", "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={"KUBECONFIG": str(kubeconfig)}
    ) as process:
        assert process.stdout is not None  # noqa: S101 - a pipe
        url = process.stdout.readline().split()[1]
        _wait_until_ready(url)
        try:
            yield url, process.pid, time.perf_counter() - began
        finally:
            process.terminate()


def _wait_until_ready(url: str) -> None:
    async def wait() -> None:
        async with aiohttp.ClientSession() as session:
            for path, text in (("readyz", "ok"), ("part/map", "node-gpu-0001")):
                while True:
                    async with session.get(url + path) as response:
                        if text in await response.text():
                            break
                    await asyncio.sleep(0.05)

    asyncio.run(wait())


@contextmanager
def _opened(url: str) -> Iterator["Page"]:
    from support.web.browser import running_browser  # noqa: PLC0415 - see sys.path above

    with running_browser("--force-color-profile=srgb") as browser:
        page = browser.new_page(viewport={"width": 1360, "height": 900})
        page.goto(url)
        page.wait_for_selector("#connection:has-text('live')")
        yield page


def _painted(page: "Page", nodes: int) -> tuple[float, float, float]:
    """Return milliseconds to the first paint of content, kB of the page, and kB that were sent."""
    page.reload()
    page.wait_for_selector("#connection:has-text('live')")
    page.wait_for_selector("#node-gpu-0001, #dot-gpu-0001")
    found: Any = page.evaluate(
        """() => ({
          paint: performance.getEntriesByName("first-contentful-paint")[0].startTime,
          size: performance.getEntriesByType("navigation")[0].decodedBodySize,
          sent: [...performance.getEntriesByType("navigation"),
                 ...performance.getEntriesByType("resource")]
            .reduce((sum, it) => sum + (it.encodedBodySize || 0), 0),
        })"""
    )
    shown = page.locator(".dot, .node").count()
    assert shown >= min(nodes, 3), shown  # noqa: S101 - a check of the benchmark itself
    return found["paint"], found["size"] / 1e3, found["sent"] / 1e3


def _cpu_percent(pid: int, seconds: float) -> float:
    """Return the CPU time of a process in percent of one CPU."""

    def used() -> float:
        numbers = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")

    before, began = used(), time.perf_counter()
    time.sleep(seconds)
    return 100 * (used() - before) / (time.perf_counter() - began)


def _resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _churn(
    api: Any,  # noqa: ANN401 - support.api.server.ApiServer, imported later
    cluster: SimulatedCluster,
    pods: deque[Document],
    stop: threading.Event,
) -> None:
    """Place and delete ``PODS_PER_SECOND`` pods; the agents report each change."""
    while not stop.wait(1 / PODS_PER_SECOND):
        old = pods.popleft()
        node = cluster.remove(old)
        api.delete("pods", old["metadata"]["name"], old["metadata"]["namespace"])
        _report(api, node.document())
        new = cluster.place(len(old["spec"]["containers"])) or cluster.place(1)
        if new is not None:
            pods.append(new)
            api.create("pods", new)
            _report(api, _node_of(cluster, new))


def _node_of(cluster: SimulatedCluster, pod: Document) -> Document:
    name = pod["spec"]["nodeName"]
    return next(node.document() for node in cluster.nodes if node.name == name)


def _report(api: Any, topology: Document) -> None:  # noqa: ANN401
    def change(document: Document) -> None:
        document["status"] = topology["status"]

    api.change("gputopologies", topology["metadata"]["name"], change, "")


async def _viewers(url: str, stop: threading.Event) -> None:
    """Read the stream as ``VIEWERS`` - 1 browsers; the remaining viewer is chromium."""
    async with aiohttp.ClientSession(read_bufsize=2**20) as session:
        tasks = [asyncio.create_task(_viewer(session, url)) for _ in range(VIEWERS - 1)]
        await asyncio.to_thread(stop.wait)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _viewer(session: aiohttp.ClientSession, url: str) -> None:
    """Read changes, and each old section at most once a second."""
    due: dict[str, asyncio.Task[None]] = {}

    async def read(section: str) -> None:
        await asyncio.sleep(1)
        async with session.get(f"{url}part/{section}") as response:
            await response.read()

    async with session.get(f"{url}events", timeout=aiohttp.ClientTimeout()) as response:
        async for line in response.content:
            if line.startswith(b"data: {") and b"sections" in line:
                for section in json.loads(line[6:])["sections"]:
                    if section not in due or due[section].done():
                        due[section] = asyncio.create_task(read(section))
