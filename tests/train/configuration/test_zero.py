"""What cannot be kept in the memory of the host; the grid trains with what can."""

from __future__ import annotations

from typing import Any

import pytest

from clozeline.errors import ConfigurationError
from clozeline.train.configuration.config import frozen, zero_stage
from tests.train.synthetic import tiny


def test_one_rank_in_fp32_keeps_its_stage_where_masters_are_on_the_host() -> None:
    """It would run stages 1 and 2 as stage 0, where nothing is on the host; a resumed run may move its state."""
    host = tiny(zero__offload="optimizer")
    assert [zero_stage(tiny(), 1), zero_stage(host, 1), zero_stage(host, 2)] == [0, 1, 1]
    assert frozen(tiny(zero__stage=3, zero__offload="parameters")) == frozen(tiny())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"zero": {"stage": 0, "offload": "optimizer"}}, "zero.offload: optimizer needs zero.stage 1 or more, got 0"),
        ({"zero": {"stage": 2, "offload": "parameters"}}, "zero.offload: parameters needs zero.stage 3 or more, got 2"),
        ({"zero": {"stage": 1, "offload": "optimizer"}, "precision": "bf16"}, "set zero.stage=2"),
        ({"zero": {"stage": 2, "offload": "optimizer"}, "hooks": ["average"]}, "together with zero.offload"),
        *(
            (
                {"zero": {"stage": 2, "offload": "optimizer"}, "optimizer": {"name": name}, "evaluate": {"every": 2}},
                f"zero.offload: the update of {name} needs more",
            )
            for name in ("muon", "adafactor", "nt_asgd")
        ),
    ],
)
def test_what_the_host_cannot_do_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        tiny(**change)
