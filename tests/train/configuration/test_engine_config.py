from __future__ import annotations

import json

from clozeline.train.configuration.engine_config import engine_config
from tests.matrices import STAGES
from tests.train.synthetic import tiny


def test_settings_written_out_for_deepspeed() -> None:
    found = engine_config(tiny(zero__stage=2, zero__bucket=None, precision="bf16"), 2, 1000)
    assert found == json.loads("""{
        "train_batch_size": 8, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2,
        "gradient_clipping": 0.0, "steps_per_print": 1000000000, "wall_clock_breakdown": false,
        "zero_allow_untested_optimizer": true, "zero_force_ds_cpu_optimizer": false,
        "zero_optimization": {"stage": 2, "reduce_bucket_size": 2000, "allgather_bucket_size": 2000,
            "overlap_comm": true, "contiguous_gradients": true, "round_robin_gradients": false,
            "stage3_param_persistence_threshold": 100000, "stage3_prefetch_bucket_size": 2000,
            "compute_grad_norm": false},
        "bf16": {"enabled": true, "check_grad_overflow": false}, "data_types": {"grad_accum_dtype": "fp32"}}""")
    assert engine_config(tiny(zero__stage=0), 1, 1000)["gradient_clipping"] == 0.0
    assert not engine_config(tiny(zero__stage=1), 2, 1000)["zero_optimization"]["overlap_comm"]


def test_who_checks_and_clips_the_gradient() -> None:
    """DeepSpeed where its check cannot be switched off; it clips only where that needs no further wait."""
    found = {}
    for stage, precision in STAGES:
        settings = engine_config(tiny(zero__stage=stage, precision=precision), 2, 1000)
        checks = settings["zero_optimization"].get("compute_grad_norm", True)
        assert settings.get("bf16", {}).get("check_grad_overflow", checks) == checks
        found[stage, precision] = checks, settings["gradient_clipping"]
    own = dict.fromkeys([(1, "fp32"), (2, "fp32"), (2, "bf16")], (False, 0.0))
    third = dict.fromkeys([(3, "fp32"), (3, "bf16")], (True, 1.0))
    assert found == {(0, "fp32"): (True, 0.0), (1, "bf16"): (True, 0.0)} | own | third
    offloaded = engine_config(tiny(zero={"stage": 2, "offload": "optimizer"}, precision="bf16"), 1, 1000)
    assert offloaded["gradient_clipping"] == 1.0
    assert offloaded["bf16"]["check_grad_overflow"]
