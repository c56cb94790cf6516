from __future__ import annotations

import pytest

from clozeline.command import keys_of
from clozeline.configuration.config import validate
from clozeline.configuration.training_synonyms import SYNONYMS
from clozeline.errors import ConfigurationError
from clozeline.registry import choose
from clozeline.train.command import _ALGORITHMS
from clozeline.train.configuration.config import TrainConfig
from tests.clozeline.configuration.test_synonyms import check_synonyms
from tests.train.synthetic import plain_config


def test_every_synonym_leads_to_a_key_that_exists() -> None:
    keys = {key.partition(" ")[0] for key, *_ in keys_of(TrainConfig, _ALGORITHMS)} | {
        "optimizer.name",
        "schedule.name",
    }
    check_synonyms(SYNONYMS, keys, "no key")


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("batch_size", "unknown key 'batch_size'; use 'data.global_batch', rows of one optimizer step over all ranks"),
        ("lr", "unknown key 'lr'; use 'optimizer.learning_rate'"),
        ("num_epochs", "use 'steps': an epoch is rows of the set / data.global_batch steps"),
        ("data.gradient_accumulation_steps", "use 'data.global_batch' and 'data.micro_batch'"),
        ("model.hidden_size", "unknown key 'model.hidden_size'; use 'model.dim'"),
        ("max_length", "give corrupt.max_length to `clozeline pipeline`"),
    ],
)
def test_a_key_of_another_library_is_answered_with_ours(key: str, expected: str) -> None:
    plain = plain_config()
    *above, last = key.split(".")
    inner = plain
    for part in above:
        inner = inner[part]
    inner[last] = 1
    with pytest.raises(ConfigurationError) as caught:
        validate(TrainConfig, plain, "command line")
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("package", "entry", "expected"),
    [
        ("clozeline.train.optim.optimizers", {"name": "adamw", "lr": 0.1}, "use 'optimizer.learning_rate'"),
        ("clozeline.train.optim.schedules", {"name": "linear", "warmup_steps": 10}, "use 'schedule.warmup', in steps"),
    ],
)
def test_options_of_algorithms_have_synonyms(package: str, entry: dict[str, object], expected: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        choose(package, entry)
    assert expected in str(caught.value)
