"""Build the models of the experiments on a GPU.

They are compiled, quantized, or students with the scores of a teacher.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from pydantic import TypeAdapter
from torch import Tensor, nn

from benchmarks.model import LABELS, VOCABULARY
from clozeline.extensions.compression.distillation.student import Student, Teacher
from clozeline.extensions.compression.distillation.teacher_scores import keep_best
from clozeline.extensions.compression.registries import DISTILLATION_LOSSES, METHODS
from clozeline.model.build import Model, build_model
from clozeline.model.checkpoints.checkpoint import Checkpoint, build_checkpoint
from clozeline.model.compilation.layer_calls import compile_heads, compile_layers, recompute_layers
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.configuration.sizes import read_size
from clozeline.train.optim.weights.parameter_groups import parameter_groups
from clozeline.train.registries import OPTIMIZERS

SMALL = {"dim": 48, "layers": 2, "attention_heads": 3, "ffn_dim": 96}
TINY_VOCABULARY = 30_000


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One measurement; `preset` names a size of `configs/models`, None: no model."""

    preset: str | None = None
    rows: int
    columns: int = 512
    targets: int = 0
    """Decoder positions of an encoder-decoder."""
    share: float = LABELS
    """Share of the positions that are labels; all in GPT-2 and T5."""
    layout: str = "full"
    """full, packed or padded"""
    compiled: bool = False
    recomputed: bool = False
    label_chunk: int | None = None
    label_capacity: int = 4096
    """Compiled models: labels of a batch are padded to a multiple."""
    deterministic: bool = False
    update: str | None = None
    """An update by this optimizer alone."""
    forward: bool = False
    """The forward pass alone."""
    number_format: str | None = None
    """Method of compression that stores the linear maps as integers."""
    scores: str | None = None
    """Scores of a teacher, BERT-base: stored or live."""
    stage: int | None = None
    """A run of the trainer at this ZeRO stage."""
    attention: str | None = None
    """Attention in documents compared with a mask: self, or cross from targets to sources."""
    goal: float | None = None
    """MFU."""


def build(experiment: Experiment, device: torch.device, tiny: bool) -> Model:
    """Return the model of an experiment on its device."""
    assert experiment.preset is not None

    plain = read_size(experiment.preset) | {"dropout": {}}
    plain |= SMALL if tiny else {}

    if experiment.label_chunk is not None:
        plain["heads"] = {
            name: {"weight": 1.0, "label_chunk": experiment.label_chunk} for name in plain["heads"]
        }

    vocabulary = TINY_VOCABULARY if tiny else VOCABULARY[experiment.preset]
    model = build_model(TypeAdapter(ModelConfig).validate_python(plain), vocabulary, {})

    if experiment.number_format is not None:
        tensors = {name: parameter.detach() for name, parameter in model.named_parameters()}
        dense = Checkpoint(model.config, vocabulary, tensors, {}, None, ())
        method = METHODS.resolve(experiment.number_format).build()
        model = build_checkpoint(method.compress(dense, ()).checkpoint)

    model.to(
        device=device,
        dtype=torch.float32 if tiny or experiment.update is not None else torch.bfloat16,
    )
    if experiment.compiled:
        compile_layers(model, "eager" if tiny else "inductor")
        compile_heads(model, "eager" if tiny else "inductor")

    if experiment.recomputed:
        recompute_layers(model)
    return model


def build_optimizer(name: str, model: nn.Module) -> torch.optim.Optimizer:
    """Return an optimizer over the weights of a model, after its first update.

    Muon iterates in bf16 on a GPU.
    """
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    on_gpu = next(model.parameters()).is_cuda
    options = {"name": name, **({"iterate_in": "fp32"} if name == "muon" and not on_gpu else {})}
    builder = OPTIMIZERS.resolve(options).build()
    optimizer: torch.optim.Optimizer = builder.build(
        parameter_groups(model, 0.01, separate_matrices=builder.separate_matrices)
    )
    optimizer.step()
    return optimizer


def give_scores(
    experiment: Experiment, model: Model, batch: dict[str, Tensor], device: torch.device, tiny: bool
) -> tuple[Student, Callable[[dict[str, Tensor]], Mapping[str, Tensor]], list[Model]]:
    """Return a student, what completes its batches, and the models that run for that.

    Stored are the scores of the 16 best classes, as a column set has them.
    """
    losses = [DISTILLATION_LOSSES.resolve("scores")]
    large = build(replace(experiment, preset="bert_base", scores=None), device, tiny)
    live = Student(model, losses, large.config)
    teacher = Teacher(large, live.teacher_tensors)
    if experiment.scores == "live":
        return live, lambda own: {**own, **teacher(own)}, [large]
    ids, weights = keep_best(teacher(batch)["teacher_logits_masked_lm"], 16, 1.0)
    return (
        Student(model, losses, None),
        lambda own: {**own, "teacher_ids": ids, "teacher_weights": weights},
        [],
    )
