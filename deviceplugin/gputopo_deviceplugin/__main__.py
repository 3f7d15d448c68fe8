"""Runs the node agent until SIGTERM or SIGINT."""

from gputopo_deviceplugin.agent import Agent
from gputopo_deviceplugin.metrics import AgentMetrics
from gputopo_deviceplugin.settings import AgentSettings
from gputopo_kube.program import load_settings, run_program


def main() -> None:
    """Run the agent. An invalid setting ends the process with a message and exit status 1."""
    settings, metrics = load_settings(AgentSettings), AgentMetrics()
    run_program(
        settings, metrics.registry, lambda client, pulse: Agent(settings, client, metrics, pulse)
    )


if __name__ == "__main__":
    main()
