"""One optimizer step under DeepSpeed ZeRO: micro-batches in, summed losses and a gradient norm out.

The loss of a head is one mean over the global batch: its sum divided by a count N over all ranks. ZeRO averages
gradients over ranks and sums them over micro-batches, so each micro-batch contributes `sum x weight x world / N`: the
result does not depend on how rows are spread over ranks and micro-batches.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import torch

from clozeline.model.build import Model
from clozeline.model.compilation.host_shapes import add_host_shapes
from clozeline.model.compilation.label_capacity import pad_labels
from clozeline.model.compilation.layer_calls import OnFailure, compile_heads, compile_layers, recompute_layers
from clozeline.model.loss import Loss
from clozeline.seeding import hash64
from clozeline.train.compression.distillation.teacher import Teacher
from clozeline.train.compression.pruning import Pruning, Trained
from clozeline.train.configuration.config import TrainConfig, check_world, zero_stage
from clozeline.train.configuration.engine_config import engine_checks_gradient, wrap_in_zero
from clozeline.train.data.device_copies import DeviceCopies, DeviceCopy
from clozeline.train.data.global_batch import MicroBatch
from clozeline.train.data.stream.labels import sample_words
from clozeline.train.distributed.process_group import World
from clozeline.train.distributed.step_clock import StepClock
from clozeline.train.optim.gradient_noise import MicroBatchSquares, Squares
from clozeline.train.optim.layer_statistics import LayerFigures, LayerStatistics
from clozeline.train.optim.weights.anchor_weights import Anchors
from clozeline.train.optim.weights.flat_buffers import gradient_bytes, iterate_flats, layout_of
from clozeline.train.optim.weights.freezing import frozen_modules
from clozeline.train.optim.weights.moving_average import MovingAverage
from clozeline.train.optim.weights.parameter_groups import parameter_groups
from clozeline.train.optim.weights.unfreezing import DepthFreezing, unfreeze_from_the_top

_LINEAR: Final = torch.nn.functional.linear
"""Function that ZeRO stage 3 replaces in torch when a model is built."""


@dataclass(frozen=True)
class StepResult:
    """Result of a step on this rank: sums are local, the norm is the same on every rank."""

    sums: dict[str, float]
    """head → summed loss of this rank's labels"""
    figures: dict[str, float]
    """"head/name" → further sums of the head over the same labels"""
    gradient_norm: float
    """gradient norm over all parameters before clipping; inf where the step was skipped"""
    skipped: bool
    """true if the gradient was not finite, so that nothing was updated"""
    clock: StepClock
    """seconds of its parts on this rank: forward, backward with its reductions, optimizer"""
    squares: Squares | None = None
    """sums of the micro-batches' squared norms on this rank, with `log.noise_scale`"""
    layers: LayerFigures | None = None
    """figures by layer and head on this rank, of an observed step with `log.layers`"""


class Engine:
    """A model, its optimizer and DeepSpeed's engine around them.

    Nothing else seeds torch: dropout depends on (seed, step, first lane of the rank, micro-batch), so no generator
    state has to be saved.
    """

    def __init__(
        self,
        model: Model,
        config: TrainConfig,
        world: World,
        teacher: Teacher | None = None,
        on_failed_compile: OnFailure | None = None,
    ) -> None:
        """Build everything; `on_failed_compile` is that of `compile_layers`."""
        self.config = config
        self.world = world
        self.skipped = 0
        self.gradient_bytes = 0
        self.pruning: Pruning | None = None if config.prune is None else config.prune.build()
        model = model if self.pruning is None else self.pruning.wrap(model)
        self._accumulation = check_world(config, world.size)
        self._weights = model.loss_weights
        self._teacher = None if teacher is None else teacher.to(world.device, config.precision)
        self._copies = None if world.device.type == "cpu" else DeviceCopies(world.device)
        # compile and recompute layers before ZeRO wraps them
        model.to(world.device)
        if config.compile is True:
            torch.compiler.reset()  # graphs of an earlier model would be taken for this one, with wrong gradients
            compile_layers(model, on_failure=on_failed_compile)
            if config.data.label_capacity is not None:
                compile_heads(model, on_failure=on_failed_compile)
        if config.activation_checkpointing:
            recompute_layers(model)
        self.model = model
        self._parameters = list(model.parameters())  # walking through the modules takes longer than a small update
        # frozen weights under an adapter keep their dropout
        self._frozen = [] if config.model.adapter is not None else list(frozen_modules(model))
        # build the optimizer over groups of parameters, and wrap both in ZeRO
        options = config.optimizer.options
        self._progressive: Any = getattr(model, "progressive", None)  # of a student that learns layer by layer
        every, stages = config.unfreeze_every, self._progressive
        by_depth = options.layer_decay is not None or every is not None or stages is not None
        self._builder = config.optimizer.build()
        apart = self._builder.matrices_apart
        apart = apart or (config.prune is not None and config.prune.type.masks)
        groups = parameter_groups(model, options.weight_decay, by_depth=by_depth, matrices_apart=apart)
        self.deepspeed = wrap_in_zero(model, self._builder.build(groups), config, world)
        layout = layout_of(model, self.deepspeed, world)
        self._builder.bind(self.optimizer, layout)
        # at stage 1 in bf16, gradients of the micro-batch before, which DeepSpeed has added to its own: it would clear
        # them by a hook on tensors that a forward pass returns, and ours returns losses
        self._clear_gradients: Callable[[], None] | None = getattr(self.deepspeed.optimizer, "clear_lp_grads", None)
        # clipping, and the one wait for the device in each step
        self._zero_stage = zero_stage(config, world.size)
        self._checks_gradient = engine_checks_gradient(config, world.size)
        self._sums: Sequence[torch.Tensor] = ()
        self._norm: torch.Tensor | None = None
        self._reading: Callable[[], list[float]] | None = None
        self._hook = self.optimizer.register_step_pre_hook(self._before_update)
        # statistics by layer, before anything else changes gradients
        self._layers: LayerStatistics | None = None
        if config.log.layers:
            self._layers = LayerStatistics(model, self.optimizer, layout, world.size)
        # regularizer, moving average, freezing by step, gradient noise, pruning
        regularizer = config.regularizer
        self.anchors = None if regularizer is None else Anchors(self.optimizer, regularizer.build())
        self.average = None if config.average is None else MovingAverage(config.average)
        self._freezing: DepthFreezing | None = None
        if every is not None:
            self._freezing = DepthFreezing(model, self.optimizer, unfreeze_from_the_top(self.optimizer, every))
        elif stages is not None:
            self._freezing = DepthFreezing(model, self.optimizer, lambda _: stages.trained_depths())
        self._squares = MicroBatchSquares(model, world.size) if config.log.noise_scale else None
        if self.pruning is not None:
            horizon = config.schedule.options.steps or config.steps
            self.pruning.attach(Trained(model, self.deepspeed, layout, config.seed, horizon, config.zero.stage))
        self.train(True)

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """The torch optimizer inside DeepSpeed's."""
        return cast(torch.optim.Optimizer, self.deepspeed.basic_optimizer)

    @property
    def heads(self) -> Mapping[str, Any]:
        """The model's heads by name."""
        return cast(Mapping[str, Any], self.model.heads)

    @property
    def counted(self) -> Mapping[str, Any]:
        """The object that counts the divisor of each loss, by the name of the loss."""
        return self.model.counted

    def step(
        self,
        batches: Sequence[MicroBatch],
        counts: Mapping[str, float],
        step: int,
        learning_rate: float,
        *,
        observe: bool = False,
    ) -> StepResult:
        """Do one optimizer step: forward and backward per micro-batch, then clip and update.

        Args:
            batches: this rank's micro-batches of the global batch.
            counts: head → divisor of its loss in the global batch, over all ranks.
            step: index of this step, from 1; seeds dropout.
            learning_rate: of this step.
            observe: return the figures of `log.layers`.
        """
        # set accumulation, learning rates, stages, the moving average and pruning for this step
        if len(batches) != self._accumulation:
            self._accumulate(len(batches), step)
        layer_decay = self.config.optimizer.options.layer_decay or 1.0
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate * layer_decay ** group["depth"] * group.get("rate", 1.0)
        self._begin_stage(step)
        if self.average is not None:
            self.average.begin(flat for flat, _ in iterate_flats(self.deepspeed))
        if self.pruning is not None:
            self.pruning.begin(step, learning_rate / self.config.optimizer.options.learning_rate)
        if self._layers is not None:
            self._layers.begin(observe)
        # scale each head's sum so that ZeRO's average over ranks is the mean over the global batch
        scales = {
            head: weight * self.world.size / counts[head] if counts[head] else 0.0
            for head, weight in self._weights.items()
        }
        sums = {head: torch.zeros((), dtype=torch.float64, device=self.world.device) for head in scales}
        figures: dict[str, torch.Tensor] = {}
        clock = StepClock(self.world.device)
        inputs = self.inputs(batches[0], step)
        for index, batch in enumerate(batches):
            # forward: one loss per head
            lane = self.world.rank * (self.config.data.lane_count // self.world.size)
            seed_dropout(hash64("dropout", self.config.seed, step, lane, index) - (1 << 63), self.world.device)
            losses = self.losses(inputs)
            scaled = torch.stack([losses[head].total * scale for head, scale in scales.items()]).sum()
            clock.end("forward")
            # copy the next micro-batch while the device computes
            if index + 1 < len(batches):
                inputs = self.inputs(batches[index + 1], step)
            # backward: ZeRO reduces gradients while it runs, so it must know now whether this is the last micro-batch
            self.deepspeed.set_gradient_accumulation_boundary(index + 1 == len(batches))
            if self._clear_gradients is not None:
                self._clear_gradients()
            self.deepspeed.backward(scaled, scale_wrt_gas=False)
            # add up losses and metrics on the device
            add_sums(losses, sums, figures)
            if self._squares is not None:
                self._squares.end(self._label_share(batch, counts))
            clock.end("backward")
            # clip and update after the last micro-batch
            if index + 1 == len(batches):
                self._finish_gradient([*sums.values(), *figures.values()])
            self.deepspeed.step()
            clock.end("optimizer")
        # a step whose gradient is not finite was skipped by DeepSpeed; average the weights, prune
        reading = self._reading or _start_to_read([self.deepspeed.get_global_grad_norm(), *self._sums])
        read = reading()
        norm = read[0] if read[0] < torch.inf else torch.inf  # also where it is not a number
        totals = dict(zip(sums, read[1:], strict=False)), dict(zip(figures, read[1 + len(sums) :], strict=True))
        self.skipped += norm == torch.inf
        if norm == torch.inf and self.config.zero.offload != "none":  # DeepSpeed would add the next gradients to these
            zero = self.deepspeed.optimizer
            zero.averaged_gradients = dict.fromkeys(zero.averaged_gradients)
        if self.average is not None and norm < torch.inf:
            self.average.update(step - self.skipped)
        if self.pruning is not None:
            self.pruning.end(step)
        squares = None if self._squares is None else self._squares.take()
        layers = self._layers.take(norm, self.config.gradient_clipping) if self._layers and observe else None
        return StepResult(*totals, norm, skipped=norm == torch.inf, clock=clock, squares=squares, layers=layers)

    def inputs(self, batch: MicroBatch, step: int) -> Mapping[str, torch.Tensor] | DeviceCopy:
        """Return the model's inputs, on their way to its device: the batch, and random bits where a generator samples.

        `step` 0 is an evaluation.
        """
        tensors = dict(batch.tensors)
        if "sample_words" in getattr(self.model, "needs", ()):
            tensors["sample_words"] = sample_words(self.config.seed, step, batch.origin, tensors)
        if (capacity := self.config.data.label_capacity) is not None:
            tensors = pad_labels(tensors, capacity)
        if self._copies is None:
            return tensors
        added: frozenset[str] = getattr(self.model, "host_tensors", frozenset())  # on the host the model adds them
        return self._copies.start(add_host_shapes(tensors, self.config.model.position_limit, added))

    def losses(self, inputs: Mapping[str, torch.Tensor] | DeviceCopy) -> dict[str, Loss]:
        """Run the model through DeepSpeed, whose hooks gather parameters at stage 3."""
        tensors = inputs.wait() if isinstance(inputs, DeviceCopy) else dict(inputs)
        tensors["input_ids"] = wide_ids(tensors["input_ids"])
        if self._teacher is not None:
            tensors |= self._teacher(tensors)
        return cast(dict[str, Loss], self.deepspeed(tensors))

    def total_loss(self, means: Mapping[str, float]) -> float:
        """Return what steps minimize, from mean losses: of heads, of distillation, and the ponder cost."""
        return sum(weight * means[name] for name, weight in self._weights.items())

    def train(self, mode: bool) -> None:
        """Switch dropout on or off; frozen modules never have dropout."""
        self.deepspeed.train(mode)
        for module in self._frozen:
            module.eval()

    def follow(self, heldout_losses: Sequence[float]) -> bool:
        """Pass the held-out losses so far to the optimizer; return whether its update changes from now on."""
        return bool(self._builder.follow(self.optimizer, heldout_losses))

    def continue_from(self, step: int, samples: int, skipped: int) -> None:
        """Set the counters of a resumed run."""
        self._begin_stage(max(step, 1))  # an evaluation may come before the next step
        self.skipped = skipped
        self.deepspeed.global_steps = step
        self.deepspeed.global_samples = samples
        self.deepspeed.skipped_steps = skipped
        self.deepspeed.micro_steps = step * self._accumulation

    def close(self) -> None:
        """Release DeepSpeed's hooks and restore the torch function that stage 3 replaces."""
        self._hook.remove()  # it would keep this object alive as long as DeepSpeed's
        self.deepspeed.destroy()
        torch.nn.functional.linear = _LINEAR
        if self.config.compile is True:
            torch.compiler.reset()

    def _begin_stage(self, step: int) -> None:
        """Set what counts and what is trained, where that depends on the step."""
        if self._progressive is not None:
            self._progressive.begin(step)
            self._weights = self.model.loss_weights
        if self._freezing is not None:
            self._freezing.begin(step)

    def _accumulate(self, micro_batches: int, step: int) -> None:
        self._accumulation = micro_batches
        self.deepspeed.set_train_batch_size(micro_batches * self.config.data.micro_batch * self.world.size)
        self.deepspeed.micro_steps = (step - 1) * micro_batches

    def _label_share(self, batch: MicroBatch, counts: Mapping[str, float]) -> float:
        weights = {head: weight for head, weight in self._weights.items() if counts[head]}
        parts = [weight * self.counted[head].count(batch.tensors) / counts[head] for head, weight in weights.items()]
        return float(sum(parts) / sum(weights.values())) if parts else 0.0

    def _finish_gradient(self, sums: Sequence[torch.Tensor]) -> None:
        """Wait for the norm and the sums, and skip a gradient that is not finite, where DeepSpeed does not check it.

        At stage 0, also clip: DeepSpeed does neither.
        """
        if not self.gradient_bytes:
            self.gradient_bytes = gradient_bytes(self.deepspeed)
        self._sums, self._reading = sums, None
        if self._checks_gradient:
            zero = self.deepspeed.optimizer
            self._norm = zero.scaled_global_norm()
            self._reading = _start_to_read([self._norm, *sums])
            # have DeepSpeed check only a gradient that is not finite: it then skips the update
            zero.check_grad_overflow = zero.compute_grad_norm = not math.isfinite(self._reading()[0])
        if self._zero_stage > 0:
            return
        if self.world.size == 1:  # of a parameter that took no part; DeepSpeed adds it where it reduces
            for parameter in self._parameters:
                if parameter.requires_grad and parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
        parameters = [parameter for parameter in self._parameters if parameter.grad is not None]
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)
        self._reading = _start_to_read([norm, *sums])
        if not math.isfinite(self._reading()[0]):  # with all gradients None, DeepSpeed's step updates nothing
            for parameter in parameters:
                parameter.grad = None
        elif self.config.gradient_clipping > 0:
            torch.nn.utils.clip_grads_with_norm_(parameters, self.config.gradient_clipping, norm)

    def _before_update(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """Clip at stages 1 and 2, where DeepSpeed would read the norm to do so; its formulas give the same bits.

        Where DeepSpeed has just waited for the norm, start to read it before the device is given the update to do.
        """
        if self._zero_stage == 0 or self.config.zero.offload != "none":
            return
        norm: Any = self._norm if self._checks_gradient else self.deepspeed.optimizer._global_grad_norm
        self._reading = self._reading or _start_to_read([norm, *self._sums])
        limit = self.config.gradient_clipping
        if self._zero_stage == 3 or limit == 0:
            return
        norm = norm + 1e-6
        scale = 1.0 / (norm / limit).clamp(min=1.0) if self._checks_gradient else (limit / norm).clamp(max=1.0)
        for group in optimizer.param_groups:
            for flat in group["params"]:
                flat.grad.mul_(scale)


def _start_to_read(scalars: Sequence[torch.Tensor | float]) -> Callable[[], list[float]]:
    """Start to copy scalars to the host in one copy.

    Returns:
        a function that returns them as numbers; it waits for the copy, but not for work given to the device after it.
    """
    device = next(scalar.device for scalar in scalars if isinstance(scalar, torch.Tensor))
    wide = [torch.as_tensor(scalar, dtype=torch.float64, device=device) for scalar in scalars]
    numbers = torch.stack(wide).to("cpu", non_blocking=True)
    copied = torch.get_device_module(device).Event()
    copied.record()

    def read() -> list[float]:
        copied.synchronize()
        return cast(list[float], numbers.tolist())

    return read


def seed_dropout(seed: int, device: torch.device) -> None:
    """Seed dropout; the same bits as by torch, which takes 100 times longer: it asks every device library."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index].manual_seed(seed)


def add_sums(losses: Mapping[str, Loss], sums: dict[str, torch.Tensor], figures: dict[str, torch.Tensor]) -> None:
    """Add the sums of a micro-batch to `sums` by head, and to `figures` by "head/name"."""
    for head, loss in losses.items():
        sums[head] += loss.total.detach()
        for name, total in loss.figures.items():
            figures[f"{head}/{name}"] = figures.get(f"{head}/{name}", 0) + total


def wide_ids(ids: torch.Tensor) -> torch.Tensor:
    """Return int64 ids from uint16 or int32."""
    if ids.dtype == torch.uint16:  # few kernels know unsigned integers
        return ids.view(torch.int16).to(torch.int64).bitwise_and_(0xFFFF)
    return ids.to(torch.int64)
