"""Training in plain torch: one process, no ZeRO, float64 masters, every formula written out.

The model computes the losses of heads, the stream the batches; `deepspeed_rounding` rounds in bf16
as a run does. All else is here a second time: counts, gradients, clipping, learning rates, decay,
optimizers, freezing, pulls to anchors, averages, losses of distillation.
"""

import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tests.grid.deepspeed_rounding import add_module_by_module, add_over_ranks, linear_maps
from tests.grid.plain_optimizers import adafactor, adamw, muon, muon_adamw, sgd

IGNORED = -100


@dataclass
class Outcome:
    """What a run leaves behind, by step and by parameter."""

    losses: list[dict[str, float]] = field(default_factory=list)
    norms: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    initial: dict[str, Any] = field(default_factory=dict)
    weights: dict[str, Any] = field(default_factory=dict)
    averages: dict[str, Any] = field(default_factory=dict)


def plain_loop(_, plain, ranks):
    """Train as a configuration says.

    In bf16 by the micro-batches of each rank, else by one batch a step.
    """
    wide = plain["precision"] == "fp32"
    ranks = 1 if plain["precision"] == "fp32" else ranks
    # the model computes in the precision of the run, from float64 masters of what is trained
    model, fresh = starting_model(plain)
    if plain["zero"]["stage"] == 3:
        add_module_by_module(model)
    current = {name: p for name, p in model.named_parameters() if p.requires_grad}
    masters = {name: p.detach().double().clone() for name, p in current.items()}
    initial = {name: p.detach().clone() for name, p in model.named_parameters()}
    average = {name: master.clone() for name, master in masters.items()}
    teacher = None if "distil" not in plain else teacher_of(plain)
    for module in (model, *([] if teacher is None else [teacher])):
        module.to(torch.float32 if wide else torch.bfloat16)
    trainer = Trainer(plain, masters, fresh)
    data = plain["data"]
    batches = global_batches(data, ranks, data["global_batch"] if wide else data["micro_batch"])
    outcome = Outcome()

    for step in range(1, plain["steps"] + 1):
        with linear_maps(plain["zero"]["stage"]):
            losses, gradients = gradients_of(model, teacher, plain, next(batches))
        # update, and copy the masters into the model
        rate = plain["optimizer"]["learning_rate"] * multiplier(plain["schedule"], step)
        norm = trainer.update(gradients, step, rate)
        with torch.no_grad():
            for name, p in current.items():
                p.copy_(masters[name])

        if decay := option(plain, "average", "decay"):
            share = 1 - min(decay, (1 + step) / (10 + step))
            for name, master in masters.items():
                average[name] += share * (master - average[name])

        outcome.losses.append(losses)
        outcome.norms.append(norm)
        outcome.rates.append(rate)

    outcome.initial = {name: tensor.double().numpy() for name, tensor in initial.items()}
    # a run with an adapter saves what it trains
    frozen = [] if "adapter" in plain["model"] else model.named_parameters()
    kept = {name: p.detach().double() for name, p in frozen}
    outcome.weights = {name: tensor.numpy() for name, tensor in {**kept, **masters}.items()}
    if option(plain, "average", "decay"):
        outcome.averages = {name: tensor.numpy() for name, tensor in average.items()}
    return outcome


# ---- model and data ----


def starting_model(plain):
    """Return the model at its start, and the names that the model it is initialized from does not
    have."""
    from clozeline.model.build import build_model
    from clozeline.seeding import hash64

    seed = hash64("weights", plain["seed"])
    model = build_model(model_config(plain["model"]), plain["vocabulary"], {}, seed=seed)
    named = dict(model.named_parameters())
    fresh = set[str]()

    if (source := plain["model"].get("init_from")) is not None:
        weights = saved_weights(source)
        fresh = named.keys() - weights.keys()
        with torch.no_grad():
            for name in named.keys() & weights.keys():
                named[name].copy_(weights[name])

    if model.adapters.active is not None:  # some start from the weights of the model
        model.adapters[model.adapters.active].initialize_from(
            model.family, plain["vocabulary"], seed
        )
        for name, p in named.items():
            p.requires_grad_(name in fresh)

    for name, p in named.items():
        if "embeddings" in plain.get("freeze", ()) and is_embedding(name):
            p.requires_grad_(False)

    return model, fresh


def model_config(plain):
    from clozeline.configuration.config import validate
    from clozeline.model.configuration.model_config import ModelConfig

    return validate(
        ModelConfig, {key: value for key, value in plain.items() if key != "init_from"}, "model"
    )


def option(plain, hook, key):
    """Return an option of a hook; None if the run does not have it."""
    return next((own[key] for own in plain["hooks"] if own["name"] == hook), None)


def saved_weights(run, key="weight"):
    """Return the masters of a run's checkpoint, or their averages."""
    from clozeline.train.checkpoint.stored_checkpoint import CheckpointReader, StoredCheckpoint

    found = StoredCheckpoint.find(Path(run))
    index = found.index
    reader = CheckpointReader(found.folder, index)
    return {
        name: reader.parameter(key, name)
        for name, record in index.parameters.items()
        if key in record.keys
    }


def teacher_of(plain):
    from clozeline.model.build import build_model

    config = {**plain["model"], "layers": plain["teacher_layers"], "heads": {"masked_lm": 1.0}}
    model: nn.Module = build_model(model_config(config), plain["vocabulary"], {}, seed=0)
    weights = saved_weights(plain["distil"]["teacher"])
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(weights[name])

    return model.eval().requires_grad_(False)


def global_batches(data, ranks, micro_batch):
    """Yield the micro-batches of each step, by rank.

    Several global batches until there are enough tokens.
    """
    from clozeline.pipeline.shards import open_shards
    from clozeline.train.data.stream.stream import Stream

    shared = {
        "seed": data["seed"],
        "global_batch": data["global_batch"],
        "lanes": data["lanes"],
        "io_threads": 0,
    }

    shards = open_shards(Path(data["shards"]))
    streams = [
        Stream(shards, rank=rank, world_size=ranks, micro_batch=micro_batch, **shared)
        for rank in range(ranks)
    ]

    while True:
        step = []
        least = data.get("batch_tokens") or 0
        while (
            not step or sum(real_tokens(batch) for of_ranks in step for batch in of_ranks) < least
        ):
            of_ranks = zip(*(stream.next_step() for stream in streams), strict=True)
            step += [[batch.tensors for batch in batches] for batches in of_ranks]

        yield step


# ---- losses and their counts ----


def real(batch):
    """Return which positions [B, T] hold tokens of rows that count."""
    positions = torch.arange(batch["input_ids"].shape[1])
    return (positions < batch["lengths"][:, None]) & (batch["row_weight"] > 0)[:, None]


def real_tokens(batch):
    return int(real(batch).sum())


def labels_by_row(batch):
    rows = batch["label_index"] // batch["input_ids"].shape[1]
    counted = (batch["label_ids"] != IGNORED) & (batch["row_weight"][rows] > 0)
    return torch.zeros(len(batch["row_weight"])).index_add(0, rows, counted.float())


def counters(plain):
    """Return what a batch adds to the divisor of each loss."""

    def labels(batch):
        found = labels_by_row(batch)
        return int((found > 0).sum() if by_row(plain) else found.sum())

    def pairs(batch):
        return int(((batch["sentence_label"] != IGNORED) & (batch["row_weight"] > 0)).sum())

    found = {
        "masked_lm": labels,
        "sentence": pairs,
        "distil/scores": labels,
        "distil/states": real_tokens,
    }

    return {name: found[name] for name in loss_weights(plain)}


def by_row(plain):
    head = plain["model"]["heads"]["masked_lm"]
    return isinstance(head, dict) and head.get("normalize") == "row"


def loss_weights(plain):
    heads = plain["model"]["heads"].items()
    found = {
        name: float(head["weight"] if isinstance(head, dict) else head) for name, head in heads
    }
    losses = plain["distil"]["losses"] if "distil" in plain else []
    return {**found, **{f"distil/{loss['name']}": loss["weight"] for loss in losses}}


def all_losses(model, teacher, plain, batch):
    """Return the sum of each loss over a batch."""
    batch = {**batch, "input_ids": batch["input_ids"].long()}
    with recorded_states(model, model.heads["masked_lm"].projection) as states:
        found = {name: loss.total for name, loss in model(batch).items()}
    if teacher is None:
        return found
    with torch.no_grad(), recorded_states(teacher) as theirs:
        teacher.family(batch)
    # states of the student's layers and the teacher's that are twice as high, a mean over features
    mask = real(batch).float()
    squares = [
        (states[layer].float() - theirs[2 * layer].float()).square().mean(-1) for layer in (1, 2)
    ]
    # Kullback-Leibler divergence at the labels
    options = plain["distil"]["losses"][0]
    index = batch["label_index"]
    temperature = options["temperature"]
    scores = teacher.heads["masked_lm"].logits(theirs[-1].flatten(0, 1)[index])
    ours, wanted = (
        (logits.float() / temperature).log_softmax(-1) for logits in (states[3], scores)
    )
    rows = index // batch["input_ids"].shape[1]
    weights = ((batch["label_ids"] != IGNORED) & (batch["row_weight"][rows] > 0)).float()
    weights = weights / labels_by_row(batch)[rows].clamp(min=1) if by_row(plain) else weights
    divergence = (wanted.exp() * (wanted - ours)).sum(-1)
    return {
        **found,
        "distil/scores": temperature**2 * (weights * divergence).sum(),
        "distil/states": sum(((of * mask).sum() for of in squares), torch.zeros(())),
    }


class recorded_states:
    """Record the output of the embeddings, of each layer but the last, of the body, and of further
    modules."""

    def __init__(self, model, *more):
        stack = model.family.stack
        self.states = []
        self.modules = [
            stack.embeddings,
            *list(stack.layers)[:-1],
            model.family,
            *more,
        ]

    def __enter__(self):
        self.hooks = [
            module.register_forward_hook(
                lambda _module, _inputs, output: self.states.append(output)
            )
            for module in self.modules
        ]

        return self.states

    def __exit__(self, *_):
        for hook in self.hooks:
            hook.remove()


# ---- gradients ----


def gradients_of(model, teacher, plain, micro_batches):
    """Return the mean losses of a global batch, and the gradients of their weighted sum."""
    every = [batch for of_ranks in micro_batches for batch in of_ranks]
    counts = {name: sum(map(count, every)) for name, count in counters(plain).items()}
    # fewer real rows than half a batch weigh no more than twice as much as in a full one
    real = [weight > 0 for batch in every for weight in batch["row_weight"].tolist()]
    share = min(1.0, 2 * sum(real) / len(real))
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    parts = {name: [] for name in trained}
    means = dict.fromkeys(counts, 0.0)

    for batch in every:
        losses = all_losses(model, teacher, plain, batch)
        weighted = [
            share * weight * losses[name] / counts[name]
            for name, weight in loss_weights(plain).items()
        ]
        torch.stack(weighted).sum().backward()  # type: ignore[no-untyped-call]
        for name, p in trained.items():
            parts[name].append(torch.zeros_like(p) if p.grad is None else p.grad)
            p.grad = None

        for name, loss in losses.items():
            means[name] += float(loss.detach()) / counts[name]

    by_rank = {
        name: torch.stack(own).unflatten(0, (len(micro_batches), -1)) for name, own in parts.items()
    }
    return means, {
        name: add_over_ranks(own, plain["zero"]["stage"]) for name, own in by_rank.items()
    }


# ---- the update ----


def multiplier(schedule, step):
    """Return the factor of the peak learning rate: a linear rise, then a line or half a cosine down
    to `final`."""
    warmup = schedule["warmup"]
    end = schedule["steps"]
    final = schedule["final"]
    if step <= warmup:
        return float(step / warmup)
    left = (end - step) / (end - warmup)
    return float(
        final
        + (1 - final)
        * (left if schedule["name"] == "linear" else (1 - math.cos(math.pi * left)) / 2)
    )


def is_embedding(name):
    return name.startswith(("family.tokens.", "family.stack.embeddings.", "family.stack.position."))


def depth_of(name, layers):
    """Return the distance from the heads: 0 for these, 1 for the last layer, layers + 1 for
    embeddings."""
    found = re.search(r"\.layers\.(\d+)\.", name)
    if found:
        return layers - int(found[1])
    return 0 if name.startswith("heads.") or ".stack.norm." in name else layers + 1


class Trainer:
    """Updates masters in place."""

    def __init__(self, plain, masters, fresh):
        self.plain = plain
        self.masters = masters
        self.fresh = fresh
        self.options = plain["optimizer"]
        self.regularizer = plain.get("regularizer")
        self.anchors = {
            name: master.clone() * (name not in fresh) for name, master in masters.items()
        }
        self.states = {name: {} for name in masters}
        self.depths = {name: depth_of(name, plain["model"]["layers"]) for name in masters}

    def update(self, gradients, step, rate):
        """Do one step; return the norm of the gradient before clipping."""
        every = option(self.plain, "unfreezing", "every")
        stages = sorted({*self.depths.values()})
        trained = stages if every is None else stages[: (step - 1) // every + 1]
        gradients = {name: own * (self.depths[name] in trained) for name, own in gradients.items()}
        # one norm over all parameters
        norm = math.sqrt(sum(float(own.square().sum()) for own in gradients.values()))
        clipping = self.plain["gradient_clipping"]
        factor = min(1.0, clipping / (norm + 1e-6)) if clipping else 1.0

        for name, master in self.masters.items():
            own = rate * (self.options["layer_decay"] or 1.0) ** self.depths[name]
            if name.startswith("adapters.lora.") and name.endswith(".b"):
                own *= self.plain["model"]["adapter"]["rate_ratio"]
            strength = self.strength(name)
            gradient = gradients[name] * factor
            if self.depths[name] in trained:
                decay = self.options["weight_decay"] if master.dim() > 1 else 0.0
                self.rule(name)(self.options, self.states[name], master, gradient, own, decay)

            if self.regularizer is not None:
                # the minimum over v of strength/2 (v - anchor)² + (v - master)² / (2 rate)
                master.copy_((master + own * strength * self.anchors[name]) / (1 + own * strength))

        return norm

    def strength(self, name):
        return (
            0.0
            if self.regularizer is None
            else self.regularizer["beta" if name in self.fresh else "alpha"]
        )

    def rule(self, name):
        matrix = self.masters[name].dim() == 2 and ".layers." in name and not name.endswith(".rows")
        if self.options["name"] == "muon":
            return muon if matrix else muon_adamw
        return {"adamw": adamw, "adafactor": adafactor, "nt_asgd": sgd}[self.options["name"]]
