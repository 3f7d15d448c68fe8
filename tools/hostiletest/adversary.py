"""A hostile tenant that attacks in a random order, beside the load and the faults of a soak."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from gputopo.api.names import PROFILE_ANNOTATION
from hostiletest import attacks, manifests
from hostiletest.attacks import Race
from hostiletest.neighbours import tolerating
from hostiletest.tenant import Replies, Tenant, tenant_in
from localcluster.access import NodeAccess, PodProcess
from soaktest.client import Client, Object, RejectedError, UnavailableError
from soaktest.journal import Journal

ESCAPED: Final = "processes outside of the cgroup of their pod"
_NAMESPACE: Final = "gputopo-hostile"
_WITHOUT_PODS: Final = "gputopo-hostile-quota"
_EVERY_SECONDS: Final = (1.0, 4.0)
_LOOK_SECONDS: Final = 0.2
_POD_SECONDS: Final = 30.0
_JOBS_AT_ONCE: Final = 8
_RACES_AT_ONCE: Final = 3


class Adversary:
    """Attacks in one thread, and looks at its processes in another one."""

    def __init__(
        self,
        tenants: tuple[Tenant, Tenant],
        journal: Journal,
        rng: random.Random,
        images: tuple[str, str],
        where: tuple[NodeAccess, list[str]],
    ) -> None:
        """Attack on all nodes; the last one is that of the measured and the sized neighbour.

        Args:
            tenants: one that gets pods, and one whose quota forbids them.
            journal: gets the counts and findings.
            rng: determines the order of the attacks.
            images: one with ``sleep``, and one with Python.
            where: access to the nodes, and the names of those to attack on.
        """
        (self._tenant, self._without_pods), (self._image, self._python) = tenants, images
        self._journal, self._rng, (self._machines, self._nodes) = journal, rng, where
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=run, name=run.__name__, daemon=True)
            for run in (self._attack, self._look)
        ]
        self._expires: dict[str, float] = {}
        self._number = 0
        self._known: dict[int, PodProcess] = {}
        self.replies: dict[str, Replies] = {}

    def start(self) -> None:
        """Begin."""
        self._journal.expect_none(ESCAPED)
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End after the current attack, and write the replies to the journal."""
        self._ended.set()
        for thread in self._threads:
            thread.join()
        for name, replies in self.replies.items():
            self._journal.count(f"attacks: {name}: writes accepted", replies.accepted)
            self._journal.count(f"attacks: {name}: writes rejected", replies.rejected.total())
            self._journal.note(f"{name}: {replies}")

    def _attack(self) -> None:
        kinds: dict[str, Callable[[Replies], None]] = {
            "records of measurements": self._forge_record,
            "changed profiles": self._change_profile,
            "jobs without pods": self._hold_queue,
            "ensembles without pods": self._hold_ensemble,
            "memory changed after Binding": self._race,
            "replaced files": self._replace_file,
            "forged daemons": self._forge_daemon,
        }
        while not self._ended.wait(self._rng.uniform(*_EVERY_SECONDS)):
            name = self._rng.choice([*kinds])
            try:
                self._expire()
                kinds[name](self.replies.setdefault(name, Replies()))
                self._journal.count(f"attacks: {name}")
            except (UnavailableError, RejectedError) as error:
                self._journal.note(f"attack {name}: {error}")

    def _forge_record(self, replies: Replies) -> None:
        node = self._rng.choice(self._nodes)
        name = f"forging-{node}"
        self._ensure(tolerating(manifests.sized_pod(name, self._image, node)))
        attacks.forge_profiling_state(self._tenant, name, replies)

    def _change_profile(self, replies: Replies) -> None:
        pod = tolerating(manifests.measured_pod("changing", self._image, self._nodes[-1]))
        self._ensure(pod)
        change = {PROFILE_ANNOTATION: self._rng.choice(("first", "second", "third"))}
        replies.send(lambda: self._tenant.annotate("changing", change))

    def _hold_queue(self, replies: Replies) -> None:
        path, first = self._without_pods.custom("gpujobs"), self._number
        self._number += _JOBS_AT_ONCE
        replies.send(
            lambda: attacks.hold_queue(self._without_pods, self._image, _JOBS_AT_ONCE, first=first)
        )
        for number in range(first, self._number):
            self._expires[f"{path}/held-{number}"] = time.monotonic() + 4 * _POD_SECONDS

    def _hold_ensemble(self, replies: Replies) -> None:
        self._number += 1
        name, gpus = f"held-{self._number}", 8 * len(self._nodes)
        replies.send(
            lambda: attacks.hold_ensemble(self._without_pods, self._python, gpus, name=name)
        )
        path = f"{self._without_pods.custom('gpuensembles')}/{name}"
        self._expires[path] = time.monotonic() + 4 * _POD_SECONDS

    def _race(self, replies: Replies) -> None:
        found = Race(replies=replies)
        nodes, names = self._nodes[:-1], attacks.race_names(_RACES_AT_ONCE)
        for name in names:
            self._expires[f"{self._tenant.pods}/{name}"] = time.monotonic() + _POD_SECONDS
        attacks.race(self._tenant, self._image, nodes, names, found)
        self._journal.count("attacks: pods changed after Binding", found.bound)
        self._journal.count("attacks: pods changed and rejected by kubelet", found.won)

    def _replace_file(self, replies: Replies) -> None:
        kind = self._rng.choice(manifests.HELD_FILES)
        self._create_sharing(replies, "hold", kind)

    def _forge_daemon(self, replies: Replies) -> None:
        self._create_sharing(replies, "forge")

    def _create_sharing(self, replies: Replies, program: str, *arguments: str) -> None:
        self._number += 1
        name, node = f"{program}-{self._number}", self._rng.choice(self._nodes[:-1])
        pod = manifests.sharing_pod(name, self._python, node, program, *arguments)
        replies.send(lambda: self._tenant.client.create(self._tenant.pods, pod))
        self._expires[f"{self._tenant.pods}/{name}"] = time.monotonic() + _POD_SECONDS

    def _ensure(self, pod: Object) -> None:
        """Create a pod again if it has ended, or was deleted with its node."""
        name = pod["metadata"]["name"]
        try:
            found = self._tenant.pod(name)
        except RejectedError:
            self._tenant.client.create(self._tenant.pods, pod)
            return
        if found["status"].get("phase") in {"Succeeded", "Failed"}:
            self._tenant.client.delete(f"{self._tenant.pods}/{name}")

    def _expire(self) -> None:
        """Delete what has existed long enough."""
        now = time.monotonic()
        for path in [path for path, until in self._expires.items() if until < now]:
            self._tenant_of(path).client.delete(path, gracePeriodSeconds="0")
            del self._expires[path]

    def _tenant_of(self, path: str) -> Tenant:
        own = self._without_pods
        return own if f"/{own.namespace}/" in path else self._tenant

    def _look(self) -> None:
        """Report each process of a container that is in another cgroup than at first."""
        while not self._ended.wait(_LOOK_SECONDS):
            for process in self._machines.processes():
                if process.pid not in self._known and "forge" in _command(process):
                    self._known[process.pid] = process
                    self._journal.count("attacks: processes that were watched")
            for pid, process in list(self._known.items()):
                text, command = process.read("cgroup"), _command(process)
                if not text or "forge" not in command:
                    del self._known[pid]
                elif "kubepods" not in text:
                    self._journal.finding(ESCAPED, f"{command[:60]} of pod {process.pod_uid}")


def _command(process: PodProcess) -> str:
    return process.read("cmdline").replace("\0", " ")


@contextmanager
def beside(
    admin: Client,
    journal: Journal,
    rng: random.Random,
    images: tuple[str, str],
    where: tuple[NodeAccess, list[str]],
) -> Iterator[None]:
    """Attack while the context is open; remove everything at its end."""
    with ExitStack() as stack:
        tenants = (
            stack.enter_context(tenant_in(admin, _NAMESPACE)),
            stack.enter_context(tenant_in(admin, _WITHOUT_PODS, most_pods=0)),
        )
        adversary = Adversary(tenants, journal, rng, images, where)
        adversary.start()
        stack.callback(adversary.stop)
        yield
