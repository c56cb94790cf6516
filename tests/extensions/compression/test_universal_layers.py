"""Layers that stop by token have no states of all tokens, which parts of compression read."""

import pytest

from clozeline.extensions.compression.distillation.losses.states import StatesLoss
from clozeline.extensions.compression.token_pruning import TokenPruning
from clozeline.extensions.compression.token_rules import TopTokens
from tests.model.layers.test_universal import STEPS, model_of
from tests.model.small_models import built
from tests.refusals import refused


@pytest.mark.parametrize(
    "read",
    [
        lambda model: TokenPruning(model, TopTokens((1.0,) * STEPS)),
        lambda model: StatesLoss(StatesLoss.Options(), model.config, built("encoder").config),
    ],
)
def test_layers_that_stop_by_token_are_refused(read):
    with refused(r"share\.universal"):
        read(model_of(heads={"classification": {"classes": 3}}))
