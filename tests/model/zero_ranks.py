"""Trains a small model at ZeRO stages 0 and 3 and prints the losses as JSON: the rank of
test_zero_stages.py."""

import json

import deepspeed
import torch

from clozeline.model.build import build_model
from clozeline.model.configuration.layer import ShareConfig
from clozeline.model.configuration.position import DisentangledConfig, PositionConfig
from tests.model.small_models import SPELLINGS, batch_for, small_config

STEPS = 4
SHARED = {"layers": 3, "share": ShareConfig(groups=1, stacks=True)}
RELATIVE = PositionConfig(
    kind="none", disentangled=DisentangledConfig(max_distance=4, convolution=3, mask_decoder=2)
)
CASES = {
    "encoder": ("encoder", {}),
    "decoder": ("decoder", {}),
    "encoder_decoder": ("encoder_decoder", {}),
    "awd_lstm": ("awd_lstm", {}),
    "elmo": ("elmo", {}),
    "lstm_encoder_decoder": ("lstm_encoder_decoder", {}),
    "shared layers": ("encoder_decoder", SHARED),
    "relative places": ("encoder", {"position": RELATIVE}),
    "int8": ("encoder", {"quantization": "int8"}),
    "int8_dynamic": ("encoder", {"quantization": "int8_dynamic"}),
    "generator": ("replaced_tokens", {"embedding_sharing": "all"}),
    "disentangled": ("replaced_tokens", {"embedding_sharing": "disentangled"}),
}


def losses(family, stage, **changes):
    torch.manual_seed(1)
    config = small_config(family, **changes)
    model = build_model(config, 37, {"pad": 0}, SPELLINGS)
    zero = {"stage": stage, "reduce_bucket_size": 1000000, "stage3_param_persistence_threshold": 0}
    engine, *_ = deepspeed.initialize(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=1e-2),
        config={
            "train_batch_size": 4,
            "train_micro_batch_size_per_gpu": 4,
            "steps_per_print": 1000000000,
            "zero_allow_untested_optimizer": True,
            "zero_force_ds_cpu_optimizer": False,
            "zero_optimization": zero,
        },
    )

    seen = []

    for step in range(STEPS):
        # The third micro-batch has no labels at all: every parameter must still take part.
        tensors = batch_for(family, seed=step, labels=step != 2)
        loss = sum(head.total / max(head.count, 1) for head in engine(tensors).values())
        engine.backward(loss)
        engine.step()
        seen.append(float(loss.detach()))

    engine.destroy()
    return seen


def print_losses(case):
    """Print the losses of a case at both stages, the unsharded one first."""
    deepspeed.utils.logger.setLevel("WARNING")
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.init_distributed("gloo", verbose=False)
    family, changes = CASES[case]
    print(json.dumps([losses(family, stage, **changes) for stage in (0, 3)]))
    torch.distributed.destroy_process_group()
    return 0
