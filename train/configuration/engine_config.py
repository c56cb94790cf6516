"""Configure DeepSpeed for a run: its settings, its engine, and where parameters are placed while the model is built."""

import warnings
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from clozeline.model.parameters.sharding import WHOLE, Placement, full_shape
from clozeline.train.configuration.config import TrainConfig, check_world, zero_stage
from clozeline.train.distributed.process_group import World, load_deepspeed
from clozeline.train.optim.weights.flat_buffers import segments_of


def engine_config(config: TrainConfig, world_size: int, parameters: int) -> dict[str, Any]:
    """Return DeepSpeed's configuration of a run; keys with a surprising default are written out."""
    # bucket size in elements
    stage = zero_stage(config, world_size)
    usual = parameters // 4 if stage == 3 else 2 * parameters  # at stage 3 it takes memory on top of the gradients
    bucket = config.zero.bucket or min(500_000_000, max(usual, 1))
    bucket += bucket % 2  # DeepSpeed aligns to two elements, and stops at an odd number
    # at other stages the engine clips, without a wait for the device
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
            "overlap_comm": stage > 1,  # at stage 1 only the last backward pass sends: not worth a second bucket
            "contiguous_gradients": True,
            "round_robin_gradients": False,
            "stage3_param_persistence_threshold": config.zero.persistent,
            "stage3_prefetch_bucket_size": min(50_000_000, bucket),
        },
    }
    # check of the gradient, offload and bf16
    check = not engine_checks_gradient(config, world_size)
    if not check:
        settings["zero_optimization"]["compute_grad_norm"] = False
    if config.zero.offload != "none":
        settings["zero_optimization"]["offload_optimizer"] = {"device": "cpu", "pin_memory": torch.cuda.is_available()}
    if config.zero.offload == "parameters":
        settings["zero_optimization"]["offload_param"] = {"device": "cpu", "pin_memory": torch.cuda.is_available()}
    if config.precision == "bf16":
        settings["bf16"] = {"enabled": True, "check_grad_overflow": check}
        settings["data_types"] = {"grad_accum_dtype": "fp32"}
    return settings


def engine_checks_gradient(config: TrainConfig, world_size: int) -> bool:
    """Return whether the engine checks that a gradient is finite, and DeepSpeed does not.

    DeepSpeed's check cannot be switched off at stage 1 in bf16, at stage 3 and with `zero.offload`.
    """
    stage = zero_stage(config, world_size)
    return config.zero.offload == "none" and (stage == 2 or (stage == 1 and config.precision != "bf16"))


def wrap_in_zero(model: nn.Module, optimizer: torch.optim.Optimizer, config: TrainConfig, world: World) -> Any:
    """Return DeepSpeed's engine around a model with fp32 weights and its optimizer; in bf16, the masters keep them."""
    exact = _round_weights(model) if config.precision == "bf16" else {}
    count = sum(full_shape(parameter).numel() for parameter in model.parameters())
    parts = {"model": model, "optimizer": optimizer, "config": engine_config(config, world.size, count)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        engine, *_ = load_deepspeed().initialize(**parts, dist_init_required=False)
    # DeepSpeed makes the masters from rounded weights
    for segment in segments_of(model, engine) if exact else ():
        values, is_share = exact[segment.name]
        first = 0 if is_share else segment.start
        segment.of(segment.flat.data).copy_(values.reshape(-1)[first : first + segment.count])
    # one rank at stage 0 has nothing to reduce: flattening, dividing by 1 and copying back would change no bit
    if world.size == 1 and zero_stage(config, 1) == 0:
        engine.enable_backward_allreduce = False
    return engine


def _round_weights(model: nn.Module) -> dict[str, tuple[Tensor, bool]]:
    """Round weights to bf16; return the exact ones of what is trained by name, each with whether it is a rank's share.

    DeepSpeed would round all but those that are sharded already.
    """
    exact = {}
    named: list[tuple[str, Any]] = [*model.named_parameters()]
    for name, parameter in named:
        share = getattr(parameter, "ds_tensor", None)
        if parameter.requires_grad:
            exact[name] = (parameter if share is None else share).data, share is not None
        parameter.data = parameter.data.bfloat16()
        if share is not None:
            share.data = share.data.bfloat16()
    return exact


def placement_of(config: TrainConfig, world: World) -> Placement:
    """Return how the parameters are placed while the model is built: sharded module by module at ZeRO stage 3."""
    if config.zero.stage < 3:
        return WHOLE
    zero = load_deepspeed().zero
    # says the type, too: `dtype` is not obeyed on processors; `wrap_in_zero` rounds to bf16
    settings = engine_config(replace(config, precision="fp32"), world.size, 1)
    gather = partial(zero.GatheredParameters, modifier_rank=0)
    return Placement(partial(zero.Init, config_dict_or_path=settings), gather)
