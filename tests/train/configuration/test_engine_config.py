from __future__ import annotations

import json

from clozeline.train.configuration.engine_config import engine_config
from tests.train.synthetic import tiny


def test_settings_written_out_for_deepspeed() -> None:
    found = engine_config(tiny(zero__stage=2, zero__bucket=None, precision="bf16"), 2, 1000)
    assert found == json.loads("""{
        "train_batch_size": 8, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2,
        "gradient_clipping": 1.0, "steps_per_print": 1000000000, "wall_clock_breakdown": false,
        "zero_allow_untested_optimizer": true, "zero_force_ds_cpu_optimizer": false,
        "zero_optimization": {"stage": 2, "reduce_bucket_size": 2000, "allgather_bucket_size": 2000,
            "overlap_comm": true, "contiguous_gradients": true, "round_robin_gradients": false,
            "stage3_param_persistence_threshold": 100000, "stage3_prefetch_bucket_size": 2000},
        "bf16": {"enabled": true, "check_grad_overflow": true}, "data_types": {"grad_accum_dtype": "fp32"}}""")
    assert engine_config(tiny(zero__stage=0), 1, 1000)["gradient_clipping"] == 0.0
    assert not engine_config(tiny(zero__stage=1), 2, 1000)["zero_optimization"]["overlap_comm"]
