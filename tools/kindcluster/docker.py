"""Commands of Docker's client, and the nodes that kind has made with it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from kindcluster import settings
from localcluster.commands import run, succeeds, tied_to_this


class Docker:
    """A Docker daemon, by the environment of its client and of kind.

    Attributes:
        environment: has DOCKER_HOST if the daemon is not the machine's, and the PATH.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = dict(environment)

    def run(self, *words: str | Path, input_file: Path | None = None) -> str:
        """Run a command of the client; return its output. A ClusterError if it failed."""
        return run(["docker", *words], env=self.environment, input_file=input_file)

    def responds(self) -> bool:
        """Whether there is a client, and its daemon responds."""
        try:
            return succeeds(["docker", "version"], env=self.environment)
        except FileNotFoundError:
            return False

    def nodes(self) -> dict[str, bool]:
        """The nodes of the cluster, and whether each runs."""
        return parse_nodes(self._list("{{.Names}} {{.State}}"))

    def identities(self) -> dict[str, str]:
        """The ID of each node's container, by its name."""
        listed = self._list("{{.Names}} {{.ID}}", "--no-trunc")
        return dict(line.split(maxsplit=1) for line in listed.splitlines())

    def kind(self, *words: str | Path) -> str:
        """Run a command of kind; return its output. A ClusterError if it failed."""
        return run(tied_to_this(["kind", *words]), env=self.environment)

    def _list(self, form: str, *options: str) -> str:
        label = f"label=io.x-k8s.kind.cluster={settings.CLUSTER}"
        return self.run("ps", "--all", *options, f"--filter={label}", f"--format={form}")

    def inside(self, container: str, command: Sequence[str], *, terminal: bool) -> list[str]:
        """The command line that runs a command in a node."""
        options = ["--interactive", "--tty"] if terminal else ["--interactive"]
        return ["docker", "exec", *options, container, *command]


def parse_nodes(listed: str) -> dict[str, bool]:
    """Names of containers, and whether each runs, from lines such as `gputopo-worker running`."""
    pairs = [line.split(maxsplit=1) for line in listed.splitlines() if line.strip()]
    return {name: state == "running" for name, state in sorted(pairs)}
