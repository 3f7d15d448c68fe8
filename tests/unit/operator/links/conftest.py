"""A GPUJob that measures its links, as a fixture."""

import pytest

from support.operator.link_situation import LinkSituation


@pytest.fixture
def job() -> LinkSituation:
    situation = LinkSituation()
    situation.reconcile()
    return situation
