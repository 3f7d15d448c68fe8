"""Pretends to be the MPS control daemon of a shared GPU, so that it is moved to another cgroup.

The supervisor starts a client of MPS, which finds its process ID on the node in the list of
clients. Then it makes the daemon end, waits until the pipe folder is emptied for a new one, and
writes this process ID into the PID file again and again. At the same time, the client runs itself
again with the command line and the environment of a daemon; its process ID stays. Each line of
output is JSON.
"""

import json
import os
import re
import select
import socket
import stat
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

PIPE = Path(os.environ["CUDA_MPS_PIPE_DIRECTORY"])
PID_FILE = PIPE / "nvidia-cuda-mps-control.pid"
VARIABLE = "CUDA_MPS_PIPE_DIRECTORY"
SEVERAL_CHECKS_SECONDS = 6.0
FORGED_SECONDS = 10.0
OTHER_DEVICE = os.makedev(10, 229)  # a device that no container has


def say(**values: object) -> None:
    """Print a line."""
    print(json.dumps(values), flush=True)


def request(path: Path, message: object) -> dict[str, str]:
    """Send a message to a socket of MPS; return the response."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(5)
        connection.connect(str(path))
        connection.sendall(json.dumps(message).encode() + b"\n")
        found: dict[str, str] = json.loads(connection.makefile().readline())
        return found


def clients() -> set[int]:
    """Return the process IDs of the GPU's clients on the node."""
    text = request(PIPE / "control", {"command": ["ps"]})["text"]
    return {int(line.split()[0]) for line in text.splitlines()[1:] if line.split()}


def folder_on_node() -> str:
    """Return the path of the pipe folder outside of this container."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        words = line.split()
        if words[4] == str(PIPE):
            return "/run/gputopo-mps" + re.sub("^.*/gputopo-mps", "", words[3])
    return str(PIPE)


def cgroups() -> list[str]:
    """Return the cgroups of this process."""
    return Path("/proc/self/cgroup").read_text().split()


def connect() -> None:
    """Become a client, report the process ID on the node, and wait for the command to forge."""
    before = clients()
    found = request(PIPE / "control", {"connect": True})
    server = socket.socket(socket.AF_UNIX)
    server.connect(str(PIPE / found["server"]))
    limit = os.environ.get("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT")
    server.sendall(json.dumps({"limit": limit}).encode() + b"\n")
    server.makefile().readline()
    say(pid=max(clients() - before))
    sys.stdin.readline()
    program = [sys.executable, "-X", "nvidia-cuda-mps-control", "-u", "-c", sys.orig_argv[3]]
    variables = {**os.environ, VARIABLE: folder_on_node(), "PIPE_OF_CONTAINER": str(PIPE)}
    os.execve(sys.executable, [*program, "forged"], variables)  # noqa: S606 - no shell is wanted


def forged() -> None:
    """Report the cgroups, and whether the process may use a device of the node."""
    say(forged=True, cgroups=cgroups())
    known: tuple[object, ...] = ()
    while True:
        found = (cgroups(), device())
        if found != known:
            known = found
            say(cgroups=found[0], device=found[1])
        time.sleep(0.2)


def device() -> str:
    """Return whether this process may make and open a file of a device that it was not given."""
    file = Path("/tmp/device")  # noqa: S108 - in the container
    try:
        file.unlink(missing_ok=True)
        os.mknod(file, stat.S_IFCHR | 0o600, OTHER_DEVICE)
        os.close(os.open(file, os.O_RDWR | os.O_NONBLOCK))
    except OSError as error:
        return os.strerror(error.errno or 0)
    return "opened"


def write(text: str) -> bool:
    """Replace the PID file at once; return whether that was possible."""
    new = PIPE / ".pid"
    try:
        new.write_text(text)
        new.rename(PID_FILE)
    except OSError as error:
        say(rejected=str(error))
        return False
    return True


def supervise() -> None:
    """Repeat the attack until the forged process lives for some seconds."""
    while True:
        program = [sys.executable, "-u", "-c", sys.orig_argv[3], "connect"]
        child = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        line = read(child)
        if line and attack(child, json.loads(line)["pid"]):
            say(lasting=True)
            while child.poll() is None:
                print(read(child), end="", flush=True)
        child.kill()
        say(ended=child.wait())
        time.sleep(1)


def read(child: "subprocess.Popen[str]") -> str:
    """Return the next line of the child."""
    return child.stdout.readline() if child.stdout else ""


def attack(child: "subprocess.Popen[str]", pid: int) -> bool:
    """Make the daemon start again, and forge it; return whether the process still runs."""
    canary = PIPE / "canary"
    canary.write_text("")
    write("1\n")
    if not wait_gone(canary, SEVERAL_CHECKS_SECONDS):
        say(quit=True)
        with suppress(OSError, ValueError):  # the daemon ends without a response
            request(PIPE / "control", {"command": ["quit", "-t", "1"]})
        if not wait_gone(canary, SEVERAL_CHECKS_SECONDS):
            say(restarted=False)
    say(writes=pid)
    if child.stdin:
        print(file=child.stdin, flush=True)
    deadline, written = time.monotonic() + FORGED_SECONDS, 0
    while time.monotonic() < deadline and child.poll() is None:
        written += write(f"{pid}\n")
        if child.stdout and select.select([child.stdout], [], [], 0.002)[0]:
            print(read(child), end="", flush=True)
    say(written=written)
    return child.poll() is None


def wait_gone(file: Path, seconds: float) -> bool:
    """Wait until a file is deleted; return whether it was."""
    deadline = time.monotonic() + seconds
    while file.exists() and time.monotonic() < deadline:
        time.sleep(0.001)
    return not file.exists()


def main() -> None:
    """Run the part that the arguments name."""
    {"connect": connect, "forged": forged}.get(sys.argv[-1], supervise)()


if __name__ == "__main__":
    main()
