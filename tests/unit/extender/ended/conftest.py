"""A ledger with one node, as a fixture."""

import pytest

from support.extender.ended_pods import World


@pytest.fixture
def world() -> World:
    return World()
