from dataclasses import replace

from clozeline.model.configuration.head import HeadConfig
from clozeline.model.configuration.key_types import non_default_keys


def test_only_values_that_are_no_defaults_are_changed():
    assert non_default_keys(HeadConfig()) == {}
    assert non_default_keys(replace(HeadConfig(), group_size=4, weight=2.0)) == {"group_size": 4, "weight": 2.0}
