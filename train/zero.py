"""Wrap a model and its optimizer in DeepSpeed ZeRO: the only file that reads DeepSpeed's internals.

It reads private attributes of DeepSpeed (0.19.8, an exact pin). ZeRO gives the torch optimizer flat
parameter buffers (*flats*), see `train.optim.weights.flat_buffers`:

| stage | a flat is |
|---|---|
| 0 | a parameter |
| 1, 2 | this rank's share of a parameter group, end to end, with padding |
| 3 | an equal share of every parameter of a group |
"""

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, cast

import torch
from torch import Tensor, nn

from clozeline.errors import CheckpointError
from clozeline.model.parameters.sharding import full_shape
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.configuration.engine_config import engine_config
from clozeline.train.distributed.process_group import World, load_deepspeed
from clozeline.train.optim.weights.flat_buffers import Layout, Segment

_LINEAR: Final = nn.functional.linear
"""Function that ZeRO stage 3 replaces in torch when a model is built."""


class Zero:
    """Accumulates the gradients of micro-batches under ZeRO, then clips and updates."""

    def __init__(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, config: TrainConfig, world: World
    ) -> None:
        """Wrap a model with fp32 weights on its device, and its optimizer; a collective call."""
        self.config = config
        self.world = world
        settings = engine_config(
            config, world.size, sum(full_shape(p).numel() for p in model.parameters())
        )
        self._stage = settings["zero_optimization"]["stage"]
        self._checks_gradient = settings["zero_optimization"].get("compute_grad_norm") is False
        self._accumulation = settings["gradient_accumulation_steps"]
        self.engine: Any = _initialize(model, optimizer, settings, world.size)
        self._model = model
        # a list: walking through the modules takes longer than a small update
        self._parameters = list(model.parameters())
        self.gradient_bytes = 0
        """bytes of gradients between the last backward pass and the update, after the first step"""
        # stage 1 in bf16: DeepSpeed clears the gradients of the previous micro-batch by a hook on
        # tensors that a forward pass returns; our forward pass returns losses
        self._clear_gradients: Callable[[], None] | None = getattr(
            self.engine.optimizer, "clear_lp_grads", None
        )

        # clipping, and the single wait for the device in each step
        if self._stage < 3:  # a start at stage 3 that was refused leaves DeepSpeed's
            nn.functional.linear = _LINEAR
        self._norm: Tensor | None = None
        self._sums: Sequence[Tensor] = ()
        self._reading: Callable[[], list[float]] | None = None
        self._hook = self.optimizer.register_step_pre_hook(self._before_update)
        # now: within a step, DeepSpeed leaves one group in the optimizer
        self._flats = list(self._named_flats())
        self.layout = self._lay_out()

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """The torch optimizer inside DeepSpeed's."""
        return cast(torch.optim.Optimizer, self.engine.basic_optimizer)

    def accumulate(self, micro_batches: int, step: int) -> None:
        """Expect this many micro-batches in a step."""
        if micro_batches != self._accumulation:
            self._accumulation = micro_batches
            self.engine.set_train_batch_size(
                micro_batches * self.config.data.micro_batch * self.world.size
            )
            self.engine.micro_steps = (step - 1) * micro_batches

    def backward(self, loss: Tensor, last: bool) -> None:
        """Run the backward pass of a micro-batch; ZeRO reduces gradients while it runs."""
        self.engine.set_gradient_accumulation_boundary(last)
        if self._clear_gradients is not None:
            self._clear_gradients()
        self.engine.backward(loss, scale_wrt_gas=False)

    def update(self, sums: Sequence[Tensor], last: bool) -> None:
        """Clip and update after the last micro-batch; `read` returns the scalars `sums`."""
        if last:
            self._finish_gradient(sums)
        self.engine.step()

    def read(self) -> tuple[float, list[float]]:
        """Wait for the device; return the gradient norm before clipping, and the sums.

        The norm is inf if the update was skipped.
        """
        norm, *sums = (
            self._reading or start_to_read([self.engine.get_global_grad_norm(), *self._sums])
        )()
        if norm < torch.inf:
            return norm, sums
        if self.config.zero.offload != "none":  # DeepSpeed would add the next gradients to these
            zero = self.engine.optimizer
            zero.averaged_gradients = dict.fromkeys(zero.averaged_gradients)
        return torch.inf, sums  # also where it is not a number

    def continue_from(self, step: int, samples: int, skipped: int) -> None:
        """Set the counters of a resumed run."""
        self.engine.global_steps = step
        self.engine.global_samples = samples
        self.engine.skipped_steps = skipped
        self.engine.micro_steps = step * self._accumulation

    def close(self) -> None:
        """Release DeepSpeed's hooks and restore the torch function that stage 3 replaces."""
        self._hook.remove()  # it would keep this object alive as long as DeepSpeed's
        self.engine.destroy()
        nn.functional.linear = _LINEAR

    def _finish_gradient(self, sums: Sequence[Tensor]) -> None:
        """Skip a gradient that is not finite, if DeepSpeed does not check it.

        At stage 0, also clip: DeepSpeed does neither.
        """
        if not self.gradient_bytes:
            self.gradient_bytes = self._measure_gradients()
        self._sums = sums
        self._reading = None

        if self._checks_gradient:
            zero = self.engine.optimizer
            self._norm = zero.scaled_global_norm()
            self._reading = start_to_read([self._norm, *sums])
            # have DeepSpeed check only a gradient that is not finite: it then skips the update
            zero.check_grad_overflow = zero.compute_grad_norm = not math.isfinite(
                self._reading()[0]
            )

        if self._stage > 0:
            return

        # stage 0: give unused parameters a gradient of 0, as DeepSpeed does where it reduces
        if self.world.size == 1:
            for parameter in self._parameters:
                if parameter.requires_grad and parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)

        parameters = [parameter for parameter in self._parameters if parameter.grad is not None]
        norm = nn.utils.get_total_norm(
            [parameter.grad for parameter in parameters if parameter.grad is not None]
        )
        self._reading = start_to_read([norm, *sums])
        # skip the update, or clip; with all gradients None, DeepSpeed's step updates nothing
        if not math.isfinite(self._reading()[0]):
            for parameter in parameters:
                parameter.grad = None
        elif self.config.gradient_clipping > 0:
            nn.utils.clip_grads_with_norm_(parameters, self.config.gradient_clipping, norm)

    def _before_update(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """Clip at stages 1 and 2 by DeepSpeed's formulas, without its wait for the norm.

        If DeepSpeed has just waited for the norm, start to read it before the device runs the
        update.
        """
        if self._stage == 0 or self.config.zero.offload != "none":
            return
        norm: Any = self._norm if self._checks_gradient else self.engine.optimizer._global_grad_norm
        self._reading = self._reading or start_to_read([norm, *self._sums])
        limit = self.config.gradient_clipping
        if self._stage == 3 or limit == 0:
            return
        norm = norm + 1e-6
        scale = (
            1.0 / (norm / limit).clamp(min=1.0)
            if self._checks_gradient
            else (limit / norm).clamp(max=1.0)
        )
        for group in optimizer.param_groups:
            for flat in group["params"]:
                flat.grad.mul_(scale)

    # the flats, and the parameters in them

    def flats(self) -> Sequence[tuple[Tensor, str]]:
        """Return (flat, group name) of every flat, also of those with only padding."""
        return self._flats

    def _named_flats(self) -> Iterator[tuple[Tensor, str]]:
        zero = self.engine.optimizer
        groups = self.optimizer.param_groups
        if zero is self.optimizer:
            yield from ((p, group["name"]) for group in groups for p in group["params"])
            return
        owners = getattr(zero, "sub_group_to_group_id", None)
        for index, flat in enumerate(_flats_of(zero)):
            yield flat, groups[index if owners is None else owners[index]]["name"]

    def segments(self) -> Iterator[Segment]:
        """Yield the segments on this rank in the order of the parameters; some may be empty."""
        yield from _segments_of(self._model, self.engine)

    def _lay_out(self) -> Layout:
        """Return the layout of the flats; a collective call."""
        flats = [flat for flat, _ in self.flats()]
        segments: dict[Tensor, list[Segment]] = {flat: [] for flat in flats}
        for segment in self.segments():
            if segment.count:
                segments[segment.flat].append(segment)

        here = list(segments.values())
        if self.engine.optimizer is self.optimizer:
            return Layout(flats, [here], 0)

        # gather the segments of all ranks, without their buffers
        rank = self.world.rank
        without_flat = partial(replace, flat=torch.empty(0))
        by_rank = self.world.gather([list(map(without_flat, of_flat)) for of_flat in here])
        return Layout(flats, [*by_rank[:rank], here, *by_rank[rank + 1 :]], rank)

    def share_of(self, parameter: Any) -> tuple[int, Tensor]:
        """Return this rank's elements of a frozen parameter, after the index of the first one."""
        if self.config.zero.stage < 3:
            return 0, parameter.data.view(-1)
        width = parameter.ds_tensor.ds_numel
        start = self.world.rank * width
        return start, parameter.ds_tensor.data.view(-1)[
            : max(0, min(width, parameter.ds_numel - start))
        ]

    @torch.no_grad()
    def has_finite_weights(self) -> bool:
        """Return whether all trained weights of all ranks are finite; a collective call."""
        largest = (flat.norm(torch.inf) for flat, _ in self.flats() if flat.numel())
        return all(self.world.gather(all(map(math.isfinite, largest))))

    def weights(self) -> list[Tensor]:
        """Return the tensors of the model's parameters on this rank."""
        shares = [getattr(parameter, "ds_tensor", None) for parameter in self._parameters]
        complete = [parameter.data for parameter in self._parameters if parameter.data.numel()]
        return [*(share for share in shares if share is not None), *complete]

    def refresh_model(self) -> None:
        """Copy the flats into the model; DeepSpeed does so only after a step. A collective call."""
        zero = self.engine.optimizer
        if zero is self.optimizer:
            return
        if type(zero).__name__ != "DeepSpeedZeroOptimizer_Stage3":
            zero.update_lp_params()
            return
        # parameters that a forward pass has gathered would keep their old values
        zero.empty_partition_cache()
        for index in range(len(zero.fp16_groups)):
            zero._reassign_or_swap_out_partitioned_parameters(index)
        if persistent := zero.persistent_parameters:
            persistent[0].partition(persistent)  # otherwise the gather does nothing
            persistent[0].all_gather(persistent)

    def _measure_gradients(self) -> int:
        gradients = [parameter.grad for parameter in self._parameters]
        zero = self.engine.optimizer
        averaged = getattr(zero, "averaged_gradients", None) or {}
        gradients += [
            gradient for group in averaged.values() if group is not None for gradient in group
        ]
        gradients += list(getattr(zero, "fp32_groups_gradients_flat", None) or [])
        gradients.append(getattr(zero, "grad_partitions_flat_buffer", None))
        gradients += [flat.grad for flat, _ in self.flats()]  # with zero.offload, on the host
        return sum(storage_sizes(gradients).values())


def storage_sizes(tensors: Sequence[Tensor | None]) -> dict[int, int]:
    """Return the bytes of the storages of tensors, each storage once, by address."""
    stores = [tensor.untyped_storage() for tensor in tensors if tensor is not None]
    return {store.data_ptr(): store.nbytes() for store in stores if store.nbytes()}


def start_to_read(scalars: Sequence[Tensor | float]) -> Callable[[], list[float]]:
    """Start to copy scalars to the host in one copy.

    Returns:
        a function that returns them as numbers; it waits for the copy, but not for later work of
        the device.
    """
    device = next(scalar.device for scalar in scalars if isinstance(scalar, Tensor))
    wide = [torch.as_tensor(scalar, dtype=torch.float64, device=device) for scalar in scalars]
    numbers = torch.stack(wide).to("cpu", non_blocking=True)
    copied = torch.get_device_module(device).Event()
    copied.record()

    def read() -> list[float]:
        copied.synchronize()
        return cast(list[float], numbers.tolist())

    return read


def _flats_of(zero: Any) -> list[Tensor]:
    """Return the master tensors of DeepSpeed's optimizer in the order of the torch optimizer."""
    for name in (
        "single_partition_of_fp32_groups",
        "fp32_groups_flat_partition",
        "fp32_partitioned_groups_flat",
    ):
        if (flats := getattr(zero, name, None)) is not None:
            return list(flats)
    return [parameter for group in zero.param_groups for parameter in group["params"]]


def _segments_of(model: nn.Module, engine: Any) -> Iterator[Segment]:
    zero = engine.optimizer
    groups = engine.basic_optimizer.param_groups
    optimizer_class = type(zero).__name__
    named: list[tuple[str, Any]] = [
        (name, p) for name, p in model.named_parameters() if p.requires_grad
    ]
    # stage 0: each parameter is a flat
    if zero is engine.basic_optimizer:
        group_of = {id(p): group["name"] for group in groups for p in group["params"]}
        for name, p in named:
            yield Segment(name, tuple(p.shape), p, group_of[id(p)], 0, 0, p.numel())
    # stages 1 and 2: a fragment of a parameter in this rank's partition, if any
    elif optimizer_class in ("DeepSpeedZeroOptimizer", "BF16_Optimizer"):
        flats = _flats_of(zero)
        for name, p in named:
            mapping = p._hp_mapping
            if mapping is not None:
                index = mapping.param_group_index
                here = mapping.hp_fragment_address
                there = mapping.lp_fragment_address
                group = groups[index]["name"]
                yield Segment(
                    name, tuple(p.shape), flats[index], group, here.start, there.start, there.numel
                )
    # stage 3: an equal share of every parameter on each rank
    elif optimizer_class == "DeepSpeedZeroOptimizer_Stage3":
        for name, p in named:
            index, offset, width = zero.grad_position[zero.get_param_id(p)]
            flat = zero.fp32_partitioned_groups_flat[index]
            group = groups[zero.sub_group_to_group_id[index]]["name"]
            start = width * zero._get_param_partition_rank(p)
            count = max(0, min(width, p.ds_numel - start))
            yield Segment(name, tuple(full_shape(p)), flat, group, offset, start, count)
    else:
        raise CheckpointError(
            f"DeepSpeed chose {optimizer_class}, whose state no checkpoint can store; this is a bug"
        )


def _initialize(
    model: nn.Module, optimizer: torch.optim.Optimizer, settings: Mapping[str, Any], world_size: int
) -> Any:
    """Return DeepSpeed's engine; in bf16, the fp32 masters keep the exact weights."""
    exact = _round_weights(model) if "bf16" in settings else {}
    parts = {"model": model, "optimizer": optimizer, "config": settings}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        engine, *_ = load_deepspeed().initialize(**parts, dist_init_required=False)

    # DeepSpeed copies rounded weights into the masters
    for segment in _segments_of(model, engine) if exact else ():
        values, is_share = exact[segment.name]
        first = 0 if is_share else segment.start
        segment.of(segment.flat.data).copy_(values.reshape(-1)[first : first + segment.count])
    # one rank at stage 0 has nothing to reduce: flattening, dividing by 1 and copying back would
    # change no bit
    if world_size == 1 and settings["zero_optimization"]["stage"] == 0:
        engine.enable_backward_allreduce = False
    return engine


def _round_weights(model: nn.Module) -> dict[str, tuple[Tensor, bool]]:
    """Round weights to bf16; DeepSpeed would not round weights that are sharded already.

    Returns:
        name of each trainable parameter → its exact weights, and whether they are a rank's share.
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
