from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from clozeline import registry
from clozeline.configuration.config import validate
from clozeline.configuration.schema import describe
from clozeline.configuration.synonyms import SYNONYMS
from clozeline.errors import ConfigurationError
from clozeline.pipeline.recipe import Recipe


def check_synonyms(synonyms: Mapping[str, str], keys: set[str], elsewhere: str) -> None:
    """Check that every text names keys that exist, or says `elsewhere`, and that no name is a key itself."""
    for name, text in synonyms.items():
        named = re.findall(r"'([\w.]+)'", text)
        assert set(named) <= keys, name
        assert named or elsewhere in text
        assert name not in keys, f"{name} is a key itself"


def test_every_synonym_leads_to_a_key_that_exists() -> None:
    objectives = "clozeline.pipeline.corrupt.objectives"
    options = [registry.find(objectives, name).Options for name in registry.names(objectives)]
    keys = {key for key, *_ in describe(Recipe)} | {f"corrupt.{key}" for one in options for key, *_ in describe(one)}
    check_synonyms(SYNONYMS, keys, "`clozeline train`")


@pytest.mark.parametrize(
    ("plain", "expected"),
    [
        ({"max_length": 128}, "unknown key 'max_length'; use 'corrupt.max_length', tokens of a row"),
        ({"batch_size": 8}, "unknown key 'batch_size'; use it in `clozeline train`"),
        ({"output_dir": "x"}, "unknown key 'output_dir'; use 'output'"),
        ({"train_tokenizer": {"vocab_size": 1000}}, "use 'train_tokenizer.size'"),
        ({"corrupt": [{"name": "masked_lm", "max_length": 64, "mlm_probability": 0.1}]}, "use 'mask_rate'"),
    ],
)
def test_a_key_of_another_library_is_answered_with_ours(plain: dict[str, object], expected: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        validate(Recipe, {"corpus": "c", **plain}, "command line")
    assert expected in str(caught.value)
