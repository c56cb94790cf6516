import pytest
import torch

from clozeline.model.configuration.layer import ConnectorConfig
from clozeline.model.layers.connector import Connector
from tests.model.small_models import drawn, small_config


@pytest.mark.parametrize(("hidden", "count"), [(None, 24 * 16 + 16), (5, 24 * 5 + 5 + 5 * 16 + 16 + 16)])
def test_a_connector_has_the_parameters_of_its_maps(hidden, count):
    """And of a norm, which has a gain alone here."""
    options = ConnectorConfig(hidden_dim=hidden)
    config = small_config("encoder_decoder", decoder_dim=16, connector=options)
    module = drawn(Connector(config, options))
    assert sum(parameter.numel() for parameter in module.parameters()) == count
    assert module(torch.randn(2, 3, 24)).shape == (2, 3, 16)
