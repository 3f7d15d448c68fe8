"""The states through which one run takes an installation, and the checks in each of them."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from showcase.install import VALUES
from showcase.kubectl import Kubectl, wait_for
from upgradetest import cleanup, explained, inspect
from upgradetest.helm import Helm, HelmFailedError, wait_until_replaced
from upgradetest.mixed import AGENT, SCHEDULER, mixed_version
from upgradetest.pods import TrialPods
from upgradetest.previous import Version
from upgradetest.report import State

_SURVIVES = "devicePlugin.measuring.publishSeconds"
_FLAG = "--measure-publish-seconds=31"
"""A value that the first installation sets, and every --reuse-values must keep."""


@dataclass(slots=True)
class Trial:
    """One run.

    Attributes:
        old: the version to upgrade from.
        new: the version to upgrade to.
        folder: for charts that the run makes.
        say: gets the name of each state.
    """

    kubectl: Kubectl
    old: Version
    new: Version
    pods: TrialPods
    folder: Path
    say: Callable[[str], None]
    states: list[State] = field(default_factory=list)

    def carry_out(self) -> None:
        """Go through all states; each of them records its problems."""
        helm = Helm(self.kubectl)
        values = ("--values", str(VALUES), "--set", f"{_SURVIVES}=31")
        self._enter("previous version", self.old, lambda: helm.install(self.old, *values))
        self._move("upgraded", self.new, lambda: helm.upgrade(self.new))
        self._test(helm)
        self._move("rolled back", self.old, lambda: helm.rollback(1))
        agents = mixed_version(self.new, self.old, {AGENT}, self.folder / "old-agents")
        self._move("old agents, all else new", agents, lambda: helm.upgrade(agents))
        scheduler = mixed_version(self.new, self.old, {SCHEDULER}, self.folder / "old-scheduler")
        self._move("old scheduler, all else new", scheduler, lambda: helm.upgrade(scheduler))
        self._move("upgraded again", self.new, lambda: helm.upgrade(self.new))
        self._test(helm)
        self._remove(helm)
        self._install_defaults(helm)

    def _enter(self, name: str, version: Version, step: Callable[[], None]) -> None:
        """Install the first version, and start the pods that must survive."""
        state = self._begin(name)
        self._do(state, version, step)
        wait_for("every node offers its GPUs", lambda: inspect.all_offered(self.kubectl))
        self.pods.start()
        self._check(state, version)

    def _move(self, name: str, version: Version, step: Callable[[], None]) -> None:
        state = self._begin(name)
        run = f"during-{len(self.states)}"
        created = self.pods.begin_transition(run)
        self._do(state, version, step)
        problems, state.rejected = self.pods.end_transition(run, created)
        state.problems += problems
        self._check(state, version)

    def _check(self, state: State, version: Version) -> None:
        state.problems += self.pods.survived()
        state.problems += self.pods.place_new(f"new-{len(self.states)}")
        state.problems += self.pods.survived()
        self._explain(state)
        state.problems += inspect.wrong_definitions(self.kubectl, version)
        if not inspect.agents_have_argument(self.kubectl, _FLAG):
            state.problems.append(f"the agents have lost {_FLAG}, so {_SURVIVES} was not kept")

    def _explain(self, state: State) -> None:
        found = self.pods.explained()
        state.notes.append(f"explain: {explained.summary(found)}")
        state.problems += explained.differing(found)

    def _test(self, helm: Helm) -> None:
        state = self.states[-1]
        try:
            log = helm.test()
        except HelmFailedError as error:
            state.problems.append(f"helm test: {error}")
        else:
            checks = [line for line in log.splitlines() if line.startswith("passed")]
            state.notes.append(f"helm test: {len(checks)} checks passed")

    def _remove(self, helm: Helm) -> None:
        """Remove the installation in the documented order, and report what stays."""
        state = self._begin("removed")
        began = time.monotonic()
        self.pods.remove()
        cleanup.remove(self.kubectl, helm)
        state.seconds = time.monotonic() - began
        state.problems += [f"{left} is left" for left in cleanup.leftovers(self.kubectl)]

    def _install_defaults(self, helm: Helm) -> None:
        """Install with default values only, then with the folders of the simulated driver."""
        state = self._begin("installed with default values")
        self._do(state, self.new, lambda: helm.install(self.new))
        self._test(helm)
        state = self._begin("GPUs found after an upgrade")
        values = ("--reuse-values", "--values", str(VALUES))
        self._do(state, self.new, lambda: helm.install(self.new, *values))
        wait_for("every node offers its GPUs", lambda: inspect.all_offered(self.kubectl))
        self.pods.start()
        state.problems += self.pods.survived()
        self._explain(state)
        self._test(helm)
        self.pods.remove()

    def _begin(self, name: str) -> State:
        self.say(name)
        self.states.append(State(name))
        return self.states[-1]

    def _do(self, state: State, version: Version, step: Callable[[], None]) -> None:
        began = time.monotonic()
        step()
        wait_until_replaced(self.kubectl, version)
        state.seconds = time.monotonic() - began
