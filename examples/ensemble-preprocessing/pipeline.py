"""Decodes images once and feeds all members of an ensemble. Needs the standard library only.

The preprocessor (``python pipeline.py serve``) decodes and augments images in as many processes as
it has CPUs, and sends each result to all members. A member (``python pipeline.py train``) gets them
over one TCP connection, and connects again if the connection ends. Each item is its length, in 4
bytes, and then its pixels. All members get the same items, so a fast member waits for a slow one:
an ensemble gives them GPUs with which they are equally fast.

Replace ``load`` by your decoder, and ``train`` by your training loop.
"""

import itertools
import multiprocessing
import os
import queue
import random
import signal
import socket
import struct
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from multiprocessing import Pool
from pathlib import Path

SIDE = 224
IMAGES = 64
PREFETCHED = 16
PATIENCE = float(os.environ.get("PATIENCE", "20"))
LENGTH = struct.Struct("!I")
FOLDER = Path(os.environ.get("IMAGES", "/tmp/images"))
_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def make_png(number: int) -> bytes:
    """Return a picture as a PNG file."""
    rng = random.Random(number)
    palette = rng.randbytes(3 * 256)
    rows = []
    for y in range(SIDE):
        colours = ((x * y + number) // 97 % 256 for x in range(SIDE))
        rows.append(b"\x00" + b"".join(palette[3 * i : 3 * i + 3] for i in colours))
    header = struct.pack("!IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(b"".join(rows), 9)), (b"IEND", b""))
    return _SIGNATURE + b"".join(
        struct.pack("!I", len(data)) + kind + data + struct.pack("!I", zlib.crc32(kind + data))
        for kind, data in chunks
    )


def decode_png(file: bytes) -> bytes:
    """Return the pixels of a PNG file as ``make_png`` writes it, 3 bytes each."""
    at, data = len(_SIGNATURE), []
    while at < len(file):
        (size,) = struct.unpack_from("!I", file, at)
        if file[at + 4 : at + 8] == b"IDAT":
            data.append(file[at + 8 : at + 8 + size])
        at += size + 12
    raw, width = zlib.decompress(b"".join(data)), 3 * SIDE
    return b"".join(raw[y * (width + 1) + 1 : (y + 1) * (width + 1)] for y in range(SIDE))


def augment(pixels: bytes, number: int) -> bytes:
    """Return the pixels, mirrored for each second image, with changed brightness."""
    width = 3 * SIDE
    if number % 2:
        rows = (pixels[y * width : (y + 1) * width] for y in range(SIDE))
        pixels = b"".join(
            b"".join(row[x : x + 3] for x in range(width - 3, -1, -3)) for row in rows
        )
    factor = 0.8 + 0.4 * random.Random(number).random()
    return pixels.translate(bytes(min(255, int(factor * value)) for value in range(256)))


def make_images() -> None:
    """Write the pictures, if they do not exist. A real preprocessor would read those of users."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for number in range(IMAGES):
        if not (FOLDER / f"{number}.png").exists():
            (FOLDER / f"{number}.png").write_bytes(make_png(number))


def load(number: int) -> bytes:
    """Return the image with this number, decoded and augmented."""
    return augment(decode_png((FOLDER / f"{number % IMAGES}.png").read_bytes()), number)


class Feed:
    """Sends items to one member in a thread of its own.

    A member that takes nothing for ``PATIENCE`` seconds is dropped, for instance because its node
    is lost: all others wait for it. It connects again if it still runs.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.ended = False
        self._connection = connection
        connection.settimeout(PATIENCE)
        self._items: queue.Queue[bytes] = queue.Queue(PREFETCHED)
        threading.Thread(target=self._send, daemon=True).start()

    def put(self, item: bytes) -> None:
        """Add an item; wait while the member has not taken the earlier ones."""
        while not self.ended:
            try:
                self._items.put(item, timeout=0.5)
            except queue.Full:
                continue
            return

    def _send(self) -> None:
        try:
            while True:
                item = self._items.get()
                self._connection.sendall(LENGTH.pack(len(item)) + item)
        except OSError:
            self.ended = True
            self._connection.close()


def serve(port: int, workers: int) -> None:
    """Decode each image once, in this number of processes, and send it to all members."""
    feeds: list[Feed] = []
    server = socket.create_server(("", port))
    connected = threading.Event()

    def accept() -> None:
        while True:
            feeds.append(Feed(server.accept()[0]))
            connected.set()

    def end(*_: object) -> None:
        for child in multiprocessing.active_children():
            child.kill()
        os._exit(0)  # the pool would wait for the thread that waits for members

    with Pool(workers) as pool:
        signal.signal(signal.SIGTERM, end)
        threading.Thread(target=accept, daemon=True).start()
        print(f"serving at port {server.getsockname()[1]}", flush=True)
        connected.wait()
        gate = threading.Semaphore(PREFETCHED * workers)  # imap itself has no limit
        for item in pool.imap(load, _numbers(gate)):
            gate.release()
            for feed in [*feeds]:
                feed.put(item)
            feeds[:] = [feed for feed in feeds if not feed.ended]
            while not feeds:
                time.sleep(0.05)


def _numbers(gate: threading.Semaphore) -> Iterator[int]:
    for number in itertools.count():
        gate.acquire()
        yield number


def items(address: str) -> Iterator[bytes]:
    """Yield items of the preprocessor at ``HOST:PORT``; connect again if a connection ends."""
    host, _, port = address.rpartition(":")
    while True:
        try:
            with socket.create_connection((host, int(port)), timeout=30) as connection:
                stream = connection.makefile("rb")
                while len(head := stream.read(LENGTH.size)) == LENGTH.size:
                    size = LENGTH.unpack(head)[0]
                    item = stream.read(size)
                    if len(item) < size:  # the preprocessor has ended in the middle
                        break
                    yield item
        except OSError as error:
            print(f"not connected, trying again: {error}", flush=True)
        time.sleep(0.2)


def train(stream: Iterator[bytes], count: int) -> None:
    """Take ``count`` items; a training program would compute with them."""
    start, digest = time.monotonic(), 0
    for item in itertools.islice(stream, count):
        digest = zlib.adler32(item[:1024], digest)
    rate = count / (time.monotonic() - start)
    print(f"{count} items, {rate:.1f} items/s, digest {digest:08x}", flush=True)


def main(arguments: list[str]) -> None:
    """Run ``serve``, ``train`` or, to compare, ``separate``: a member with a loader of its own.

    ``make`` only writes the pictures.
    """
    role = arguments[0] if arguments else ""
    count = int(os.environ.get("ITEMS", "2000"))
    if role in {"make", "serve", "separate"}:
        make_images()
    if role == "serve":
        workers = int(os.environ.get("WORKERS") or len(os.sched_getaffinity(0)))
        serve(int(os.environ.get("PORT", "8000")), workers)
    elif role == "train":
        train(items(os.environ["GPUTOPO_PREPROCESSOR"]), count)
    elif role == "separate":
        train(map(load, itertools.count()), count)
    elif role != "make":
        sys.exit("usage: pipeline.py make|serve|train|separate")


if __name__ == "__main__":
    main(sys.argv[1:])
