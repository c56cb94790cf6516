import pytest

from clozeline.errors import ConfigurationError
from clozeline.train.configuration.config import frozen, zero_stage
from clozeline.train.configuration.engine_config import engine_config
from tests.matrices import STAGES
from tests.train.synthetic import tiny


def test_batches_and_buckets_fit_the_model():
    """An even bucket of twice the elements, a quarter of them at stage 3.

    Overlap where each backward pass sends.
    """
    found = engine_config(tiny(zero__stage=2, zero__bucket=None, precision="bf16"), 2, 1001)
    batch = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")

    assert [found[key] for key in batch] == [8, 2, 2]

    for stage, given, bucket in ((2, None, 2002), (3, None, 250), (1, 7, 8), (0, None, 2002)):
        zero = engine_config(tiny(zero__stage=stage, zero__bucket=given), 2, 1001)[
            "zero_optimization"
        ]
        assert (zero["reduce_bucket_size"], zero["overlap_comm"]) == (bucket, stage > 1)

    assert found["data_types"] == {"grad_accum_dtype": "fp32"}


def test_who_checks_and_clips_the_gradient():
    """DeepSpeed where its check cannot be switched off.

    It clips only where that needs no further wait.
    """
    found = {}

    for stage, precision in STAGES:
        settings = engine_config(tiny(zero__stage=stage, precision=precision), 2, 1000)
        checks = settings["zero_optimization"].get("compute_grad_norm", True)
        assert settings.get("bf16", {}).get("check_grad_overflow", checks) == checks
        found[stage, precision] = checks, settings["gradient_clipping"]

    own = dict.fromkeys([(1, "fp32"), (2, "fp32"), (2, "bf16")], (False, 0.0))
    third = dict.fromkeys([(3, "fp32"), (3, "bf16")], (True, 1.0))

    assert (
        found
        == {
            (0, "fp32"): (True, 0.0),
            (1, "bf16"): (True, 0.0),
        }
        | own
        | third
    )

    offloaded = engine_config(
        tiny(zero={"stage": 2, "offload": "optimizer"}, precision="bf16"), 1, 1000
    )

    assert offloaded["gradient_clipping"] == 1.0
    assert offloaded["bf16"]["check_grad_overflow"]


def test_one_rank_in_fp32_keeps_its_stage_where_masters_are_on_the_host():
    """It would run stages 1 and 2 as stage 0, where nothing is on the host.

    A resumed run may move its state.
    """
    host = tiny(zero__offload="optimizer")
    assert [
        zero_stage(tiny(), 1),
        zero_stage(host, 1),
        zero_stage(host, 2),
    ] == [0, 1, 1]
    assert frozen(tiny(zero__stage=3, zero__offload="parameters")) == frozen(tiny())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"zero": {"stage": 0, "offload": "optimizer"}},
            "zero.offload: optimizer needs zero.stage 1 or more, got 0",
        ),
        (
            {"zero": {"stage": 2, "offload": "parameters"}},
            "zero.offload: parameters needs zero.stage 3 or more, got 2",
        ),
        ({"zero": {"stage": 1, "offload": "optimizer"}, "precision": "bf16"}, "set zero.stage=2"),
    ],
)
def test_what_the_host_cannot_do_is_refused(change, message):
    with pytest.raises(ConfigurationError, match=message):
        tiny(**change)
