from __future__ import annotations

import pytest

from clozeline.errors import ConfigurationError
from clozeline.train.distillation.layer_map import check_layers, describe_layers, spread_layers


@pytest.mark.parametrize(
    ("student", "teacher", "expected"),
    [
        (4, 12, [0, 3, 6, 9, 12]),  # TinyBERT with four layers
        (6, 12, [0, 2, 4, 6, 8, 10, 12]),
        (3, 6, [0, 2, 4, 6]),
        (5, 12, [0, 2, 4, 7, 9, 12]),
        (4, 4, [0, 1, 2, 3, 4]),
    ],
)
def test_layers_are_spread_from_the_embeddings_to_the_last(student: int, teacher: int, expected: list[int]) -> None:
    assert list(spread_layers(student, teacher, first=0).values()) == expected
    assert spread_layers(student, teacher) == dict(enumerate(expected[1:], start=1))


def test_a_map_keeps_its_layers_in_order_and_refuses_others() -> None:
    assert list(check_layers({2: 4, 1: 2}, 2, 4, "key").items()) == [(1, 2), (2, 4)]
    assert check_layers({}, 2, 4, "key") == {1: 2, 2: 4}
    for layers, first, message in (
        ({0: 1}, 1, "key: the student has the layers 1 to 2, got 0"),
        ({3: 1}, 0, "key: the student has the layers 0 to 2, got 3"),
        ({1: 5}, 0, "key: the teacher has the layers 0 to 4, got 5"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            check_layers(layers, 2, 4, "key", first)
    assert describe_layers({1: 2, 2: 4}) == "1→2 2→4"
