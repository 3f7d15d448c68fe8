"""Callbacks report the trainer's count; stand-ins take the place of the frameworks."""

import importlib
import sys
import types
from typing import Any

import pytest

from gputopo_steps.reporter import Reporter
from support.steps import AgentSocket


class Callback:
    """Stand-in for the base class of callbacks, with hooks that do nothing."""

    def on_train_end(self, *_args: Any) -> None: ...


FRAMEWORKS = {
    "gputopo_steps.lightning": {"lightning": {}, "lightning.pytorch": {"Callback": Callback}},
    "gputopo_steps.pytorch_lightning": {"pytorch_lightning": {"Callback": Callback}},
    "gputopo_steps.transformers": {"transformers": {"TrainerCallback": Callback}},
}


@pytest.fixture(params=FRAMEWORKS)
def callback(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the callback of one framework, as a user makes it."""
    for name, content in FRAMEWORKS[request.param].items():
        module = types.ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, request.param, raising=False)
    return importlib.import_module(request.param).StepsCallback()


def call_hook(callback: Any, trainer: object) -> None:
    """Call the hook as the framework does after a batch or step."""
    if hasattr(callback, "on_train_batch_end"):
        callback.on_train_batch_end(trainer, object(), outputs=None, batch=[], batch_idx=0)
    else:
        assert callback.on_step_end(object(), trainer, object(), model=None) is None


def reports_to(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Reporter:
    """Let callbacks report as in a new process with this environment."""
    reporter = Reporter(environ, {})
    monkeypatch.setattr("gputopo_steps.callbacks.report", reporter.report)
    return reporter


def test_callback_reports_the_count_of_the_trainer(
    callback: Any, agent: AgentSocket, monkeypatch: pytest.MonkeyPatch
) -> None:
    reporter = reports_to(agent.environ, monkeypatch)
    for batches in range(40, 52):  # four batches are one optimizer step
        call_hook(callback, types.SimpleNamespace(global_step=batches // 4))
    reporter.flush()
    assert agent.counts() == [10, 12]


def test_callback_without_the_variable_sends_nothing(
    callback: Any, agent: AgentSocket, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports_to({}, monkeypatch)
    call_hook(callback, types.SimpleNamespace(global_step=1))
    assert agent.counts() == []


def test_trainer_without_a_count_causes_no_error(
    callback: Any, agent: AgentSocket, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports_to(agent.environ, monkeypatch)
    call_hook(callback, object())
    assert agent.counts() == []


def test_callback_has_the_other_hooks_of_its_framework(callback: Any) -> None:
    assert isinstance(callback, Callback)
    callback.on_train_end()
