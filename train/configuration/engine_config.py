"""Configure DeepSpeed for a run, and the placement of parameters while the model is built."""

from dataclasses import replace
from functools import partial
from typing import Any

import torch

from clozeline.model.parameters.sharding import UNSHARDED, Placement
from clozeline.train.configuration.config import TrainConfig, check_world, zero_stage
from clozeline.train.distributed.process_group import World, load_deepspeed


def engine_config(config: TrainConfig, world_size: int, parameters: int) -> dict[str, Any]:
    """Return DeepSpeed's configuration of a run; keys with a surprising default are written out."""
    # bucket size in elements
    stage = zero_stage(config, world_size)
    # at stage 3, the bucket takes memory in addition to the gradients
    default_bucket = parameters // 4 if stage == 3 else 2 * parameters
    bucket = config.zero.bucket or min(500_000_000, max(default_bucket, 1))
    bucket += bucket % 2  # DeepSpeed aligns to two elements, and refuses an uneven number

    # at other stages `Zero` clips, without a wait for the device
    clips = stage == 3 or config.zero.offload != "none"
    settings: dict[str, Any] = {
        "train_batch_size": config.data.global_batch,
        "train_micro_batch_size_per_gpu": config.data.micro_batch,
        "gradient_accumulation_steps": check_world(config, world_size),
        "gradient_clipping": config.gradient_clipping if clips else 0.0,
        "steps_per_print": 1_000_000_000,
        "wall_clock_breakdown": False,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "zero_optimization": {
            "stage": stage,
            "reduce_bucket_size": bucket,
            "allgather_bucket_size": bucket,
            # at stage 1 only the last backward pass sends: not worth a second bucket
            "overlap_comm": stage > 1,
            "contiguous_gradients": True,
            "round_robin_gradients": False,
            "stage3_param_persistence_threshold": config.zero.persistent,
            "stage3_prefetch_bucket_size": min(50_000_000, bucket),
        },
    }

    # whether DeepSpeed checks that a gradient is finite, and not `Zero`: it cannot be switched off
    # at stage 1 in bf16, at stage 3 and with `zero.offload`
    check = clips or not (stage == 2 or (stage == 1 and config.precision != "bf16"))
    if not check:
        settings["zero_optimization"]["compute_grad_norm"] = False
    if config.zero.offload != "none":
        settings["zero_optimization"]["offload_optimizer"] = {
            "device": "cpu",
            "pin_memory": torch.cuda.is_available(),
        }

    if config.zero.offload == "parameters":
        settings["zero_optimization"]["offload_param"] = {
            "device": "cpu",
            "pin_memory": torch.cuda.is_available(),
        }

    if config.precision == "bf16":
        settings["bf16"] = {"enabled": True, "check_grad_overflow": check}
        settings["data_types"] = {"grad_accum_dtype": "fp32"}

    return settings


def placement_of(config: TrainConfig, world: World) -> Placement:
    """Return the placement of parameters while the model is built: sharded at ZeRO stage 3."""
    if config.zero.stage < 3:
        return UNSHARDED
    zero = load_deepspeed().zero
    # says the type, too: `dtype` is not obeyed on processors; `Zero` rounds to bf16
    settings = engine_config(replace(config, precision="fp32"), world.size, 1)
    gather = partial(zero.GatheredParameters, modifier_rank=0)
    return Placement(partial(zero.Init, config_dict_or_path=settings), gather)
