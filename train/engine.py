"""One optimizer step under DeepSpeed ZeRO: micro-batches in, summed losses and a gradient norm out.

The loss of a head is one mean over the global batch: its sum divided by a count N over all ranks.
ZeRO averages gradients over ranks and sums them over micro-batches, so each micro-batch contributes
`sum x weight x world / N`: the result does not depend on how rows are spread over ranks and
micro-batches.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import torch

from clozeline.columns import SAMPLE_WORDS
from clozeline.model.build import Model
from clozeline.model.compilation.host_shapes import add_host_shapes, pad_labels
from clozeline.model.compilation.layer_calls import (
    OnFailure,
    compile_heads,
    compile_layers,
    recompute_layers,
)
from clozeline.model.loss import Loss
from clozeline.model.parameters.freezing import frozen_modules
from clozeline.seeding import hash64
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.data.global_batch import DeviceCopies, DeviceCopy, MicroBatch
from clozeline.train.data.stream.labels import draw_sample_bits
from clozeline.train.distributed.process_group import World
from clozeline.train.hooks import Hook, HookContext, StepInfo
from clozeline.train.optim.optimizers._optimizer import WholeParameterOptimizer
from clozeline.train.optim.weights.parameter_groups import parameter_groups
from clozeline.train.zero import Zero


@dataclass(frozen=True)
class StepResult:
    """Result of a step: sums of this rank alone, and a norm that is the same on every rank."""

    sums: dict[str, float]
    """head → summed loss of this rank's labels"""
    figures: dict[str, float]
    """"head/name" → further sums of the head over the same labels"""
    gradient_norm: float
    """gradient norm over all parameters before clipping; inf where the step was skipped"""
    skipped: bool
    """true if the gradient was not finite, and nothing was updated"""
    record: Mapping[str, Any] = field(default_factory=dict)
    """entries of hooks for the record of an observed step, the same on every rank"""


class Engine:
    """A model, its optimizer and DeepSpeed's engine around them.

    Nothing else seeds torch: dropout depends on (seed, step, first lane of the rank, micro-batch),
    so no generator state has to be saved.
    """

    def __init__(
        self,
        model: Model,
        config: TrainConfig,
        world: World,
        hooks: Sequence[Hook] = (),
        on_failed_compile: OnFailure | None = None,
    ) -> None:
        """Build everything around a model that `hooks` have wrapped.

        `on_failed_compile` is called as by `compile_layers`.
        """
        self.config = config
        self.world = world
        self.skipped = 0
        self.hooks = hooks
        self.model = model
        self._copies = None if world.device.type == "cpu" else DeviceCopies(world.device)

        # compile and recompute layers before ZeRO wraps them
        model.to(world.device)

        if config.compile is True:
            # graphs of an earlier model would be taken for this one, with wrong gradients
            torch.compiler.reset()
            compile_layers(model, on_failure=on_failed_compile)
            if config.data.label_capacity is not None:
                compile_heads(model, on_failure=on_failed_compile)

        if config.activation_checkpointing:
            recompute_layers(model)
        # frozen weights under an adapter keep their dropout
        self._frozen = [] if config.model.adapter is not None else list(frozen_modules(model))

        # build the optimizer over groups of parameters, and wrap both in ZeRO
        options = config.optimizer.options
        self._builder = config.optimizer.build()
        by_depth = options.layer_decay is not None or any(hook.by_depth for hook in self.hooks)
        separate_matrices = self._builder.separate_matrices or any(
            hook.separate_matrices for hook in self.hooks
        )
        groups = parameter_groups(
            model,
            options.weight_decay,
            options.decays,
            by_depth=by_depth,
            separate_matrices=separate_matrices,
        )
        self.zero = Zero(model, self._builder.create(groups), config, world)
        if isinstance(self.optimizer, WholeParameterOptimizer):
            self.optimizer.layout = self.zero.layout

        # attach hooks last: they see clipped gradients
        trained = HookContext(
            model,
            self.optimizer,
            self.zero.flats(),
            self.zero.layout,
            self.zero.refresh_model,
            world,
            seed=config.seed,
            horizon=config.schedule.options.steps or config.last_step,
            stage=config.zero.stage,
            clipping=config.gradient_clipping,
        )
        for hook in self.hooks:
            hook.attach(trained)
        self.train(True)

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """The torch optimizer inside DeepSpeed's."""
        return self.zero.optimizer

    @property
    def heads(self) -> Mapping[str, Any]:
        """The model's heads by name."""
        return cast(Mapping[str, Any], self.model.heads)

    @property
    def divisors(self) -> Mapping[str, Any]:
        """Loss → the object that counts its divisor in a batch."""
        return self.model.divisors

    def step(
        self,
        batches: Sequence[MicroBatch],
        counts: Mapping[str, float],
        step: int,
        learning_rate: float,
        *,
        weight: float = 1.0,
        observe: bool = False,
    ) -> StepResult:
        """Do one optimizer step: forward and backward per micro-batch, then clip and update.

        Args:
            batches: the micro-batches of this rank.
            counts: head → divisor of its loss in the global batch, over all ranks.
            step: index of the step, from 1; seeds dropout.
            learning_rate: learning rate of the step.
            weight: factor of the gradient, below 1 for a batch of few rows.
            observe: also return what hooks add to the record of the step.
        """
        # set accumulation and learning rates, begin hooks
        info = self._begin(len(batches), counts, step, learning_rate, recorded=observe)
        scales = self._scales(counts, weight)
        sums = {
            head: torch.zeros((), dtype=torch.float64, device=self.world.device) for head in scales
        }
        figures: dict[str, torch.Tensor] = {}
        inputs = self.inputs(batches[0], step)

        for index in range(len(batches)):
            is_last = index + 1 == len(batches)

            # forward: one loss per head
            self._seed_dropout(step, index)
            losses = self.losses(inputs)
            scaled = torch.stack(
                [losses[head].total * scale for head, scale in scales.items()]
            ).sum()

            # copy the next micro-batch while the device computes
            if not is_last:
                inputs = self.inputs(batches[index + 1], step)

            # backward; add up losses and metrics on the device
            self.zero.backward(scaled, is_last)
            add_sums(losses, sums, figures)

            # clip and update after the last micro-batch
            self.zero.update([*sums.values(), *figures.values()], is_last)

        return self._end(info, sums, figures)

    def _begin(
        self,
        micro_batches: int,
        counts: Mapping[str, float],
        step: int,
        learning_rate: float,
        *,
        recorded: bool,
    ) -> StepInfo:
        """Prepare optimizer, ZeRO and hooks for a step."""
        self.zero.accumulate(micro_batches, step)
        options = self.config.optimizer.options

        for group in self.optimizer.param_groups:
            group["lr"] = (
                learning_rate * (options.layer_decay or 1.0) ** group["depth"] * group["rate"]
            )

        rows = micro_batches * self.config.data.micro_batch * self.world.size
        relative_rate = learning_rate / options.learning_rate
        info = StepInfo(step, self.skipped, rows, counts, relative_rate, recorded)
        for hook in self.hooks:
            hook.begin(info)
        return info

    def _scales(self, counts: Mapping[str, float], weight: float) -> dict[str, float]:
        """Return factors of sums, by which ZeRO's average over ranks is a mean over the batch."""
        return {
            head: weight * loss_weight * self.world.size / counts[head] if counts[head] else 0.0
            for head, loss_weight in self.model.loss_weights.items()
        }

    def _seed_dropout(self, step: int, micro_batch: int) -> None:
        first_lane = self.world.rank * (self.config.data.lane_count // self.world.size)
        seed = hash64("dropout", self.config.seed, step, first_lane, micro_batch) - (1 << 63)
        seed_dropout(seed, self.world.device)

    def _end(
        self,
        info: StepInfo,
        sums: Mapping[str, torch.Tensor],
        figures: Mapping[str, torch.Tensor],
    ) -> StepResult:
        """Wait for the device, once, and end hooks."""
        norm, totals = self.zero.read()
        is_skipped = norm == torch.inf
        self.skipped += is_skipped
        record: dict[str, object] = {}
        for hook in self.hooks:
            record |= hook.end(info, norm)
        return StepResult(
            dict(zip(sums, totals, strict=False)),
            dict(zip(figures, totals[len(sums) :], strict=True)),
            norm,
            skipped=is_skipped,
            record=record,
        )

    def inputs(self, batch: MicroBatch, step: int) -> Mapping[str, torch.Tensor] | DeviceCopy:
        """Start to copy a batch to the device, with random bits for a generator that samples.

        `step` 0 is an evaluation.
        """
        tensors = dict(batch.tensors)

        if SAMPLE_WORDS.name in self.model.reads:
            tensors[SAMPLE_WORDS.name] = draw_sample_bits(
                self.config.seed, step, batch.origin, tensors
            )

        if (capacity := self.config.data.label_capacity) is not None:
            tensors = pad_labels(tensors, capacity, self.model.reads)
        if self._copies is None:
            return tensors
        # of tensors on the host, the model adds the shapes
        return self._copies.start(
            add_host_shapes(tensors, self.config.model.position_limit, self.model.host_tensors)
        )

    def losses(self, inputs: Mapping[str, torch.Tensor] | DeviceCopy) -> dict[str, Loss]:
        """Run the model through DeepSpeed, whose hooks gather parameters at stage 3."""
        tensors = inputs.wait() if isinstance(inputs, DeviceCopy) else dict(inputs)
        return cast(dict[str, Loss], self.zero.engine(tensors))

    def total_loss(self, means: Mapping[str, float]) -> float:
        """Return the weighted sum of mean losses that steps minimize.

        They are the losses of heads, and those of modules and hooks.
        """
        return sum(weight * means[name] for name, weight in self.model.loss_weights.items())

    def train(self, mode: bool) -> None:
        """Switch dropout on or off; frozen modules never have dropout."""
        self.zero.engine.train(mode)
        for module in self._frozen:
            module.eval()

    def observe_eval_losses(self, heldout_losses: Sequence[float]) -> bool:
        """Pass all held-out losses to the optimizer; return whether its update changes now."""
        return bool(self._builder.observe_eval_losses(self.optimizer, heldout_losses))

    def continue_from(self, step: int, samples: int, skipped: int) -> None:
        """Set the counters of a resumed run."""
        self.skipped = skipped
        self.zero.continue_from(step, samples, skipped)
        for hook in self.hooks:
            hook.resume(step)

    def close(self) -> None:
        """Release what DeepSpeed and torch.compile hold for this engine."""
        self.zero.close()
        if self.config.compile is True:
            torch.compiler.reset()


def hooks_of_run(config: TrainConfig) -> list[Hook]:
    """Return the hooks of a configuration, sorted by their `priority`.

    Hooks of equal priority: the regularizer, those of keys of extensions, then `hooks` in their
    order.
    """
    hooks: list[Hook] = [] if config.regularizer is None else [config.regularizer.build()]
    hooks += [chosen.build() for chosen in config.all_hooks]
    return sorted(hooks, key=lambda hook: hook.priority)


def seed_dropout(seed: int, device: torch.device) -> None:
    """Seed dropout as `torch.manual_seed` does, without its calls to every device library.

    Those take 100 times longer.
    """
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index].manual_seed(seed)


def add_sums(
    losses: Mapping[str, Loss], sums: dict[str, torch.Tensor], figures: dict[str, torch.Tensor]
) -> None:
    """Add the sums of a micro-batch to `sums` by head, and to `figures` by "head/name"."""
    for head, loss in losses.items():
        sums[head] += loss.total.detach()
        for name, total in loss.metrics.items():
            figures[f"{head}/{name}"] = figures.get(f"{head}/{name}", 0) + total
