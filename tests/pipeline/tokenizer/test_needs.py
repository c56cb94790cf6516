from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline.registry import choose
from pipeline.tokenizer.needs import needed_roles
from pipeline.tokenizers._pieces import foreseen_vocabulary

WHOLE = foreseen_vocabulary(1024, 0)


@pytest.mark.parametrize(
    ("entry", "has", "needed"),
    [
        ({"name": "masked_lm", "max_length": 64}, {"eos"}, ["cls", "sep", "mask"]),
        ({"name": "masked_lm", "max_length": 64}, {"cls", "sep", "mask"}, []),
        ({"name": "span_corruption", "input_length": 64}, {"pad"}, ["eos", "sentinels"]),
        ({"name": "span_corruption", "input_length": 64, "mode": "R"}, {"pad", "eos"}, ["sentinels", "modes"]),
    ],
)  # fmt: skip
def test_an_objective_needs_what_it_refuses_to_be_without(entry, has, needed):
    poor = replace(WHOLE, specials={name: WHOLE.specials[name] for name in has}, sentinels=(), modes={})
    found = list(needed_roles([choose("pipeline.objectives", entry)], poor))
    assert [role for role in found if role != "pad"] == needed
