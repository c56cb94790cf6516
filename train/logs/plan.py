"""Say what a run will do, in the same words in a dry run, at a start and in the report."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

from clozeline.errors import plural
from clozeline.model.parameters.freezing import frozen_count
from clozeline.registry import Component
from clozeline.report.charts import short
from clozeline.terminal import duration_text
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.data.stream.phases import distinct_sets
from clozeline.train.logs.cost_estimate import CostEstimate, estimate_memory

_MIN_UNFALLEN: Final = 0.01
"""Share of the peak by which a rate must end above its last value, to be worth a line."""


def describe_plan(cost: CostEstimate) -> dict[str, str]:
    """Return what a run will do, by topic: optimizer, rate, schedule, batch, and so on."""
    config = cost.config
    held_out = "none: no evaluation"
    if cost.heldout_rows:
        when = _describe_pace(config.evaluate.every)
        held_out = f"{plural(cost.heldout_rows, 'row')}, {when}: "
        held_out += plural(cost.evaluations, "evaluation")
    trained = {shards.digest for shards in distinct_sets(cost.datasets.phases)}
    for name, shards in cost.datasets.heldout.items():
        if shards.digest in trained:
            held_out += f"; {name} is also trained on: its loss says nothing about new text"

    return {
        "optimizer": _list_options(config.optimizer),
        "rate": _describe_rate(cost),
        "schedule": _describe_schedule(config),
        "batch": "; then ".join(_describe_batches(cost)),
        "length": _describe_length(cost),
        "precision": config.precision + ", compiled" * (config.compile is True),
        "held-out": held_out,
        "saves": _describe_pace(config.checkpoint.every),
    }


def _describe_pace(every: int | Literal["auto"] | None) -> str:
    if every == "auto":
        return "by time, once a minute at most, and at the end"
    return "at the end" if every is None else f"every {every:,} steps and at the end"


def _describe_rate(cost: CostEstimate) -> str:
    """Return the learning rate at the first and last step, and its peak."""
    config = cost.config
    last = config.last_step
    schedule = config.schedule.build(config.schedule.options.steps)
    rates: list[float] = []
    samples = 0
    for phase in cost.phases:
        peak = config.data.learning_rate_at(samples) or config.optimizer.options.peak_rate
        steps = range(len(rates) + 1, len(rates) + phase.steps + 1)
        rates += (peak * schedule(step) for step in steps)
        samples += phase.rows

    highest = rates.index(max(rates)) + 1
    named = {1: "at step 1", highest: f"at step {highest:,}, its peak", last: f"at step {last:,}"}
    return "; ".join(f"{rates[step - 1]:.3g} {when}" for step, when in named.items())


def _describe_schedule(config: TrainConfig) -> str:
    schedule = config.schedule.build(config.schedule.options.steps)
    falls = (config.schedule.type.__doc__ or "").partition("\n")[0]
    warmup = f"Warm-up of {schedule.warmup:,} steps." if schedule.warmup else "No warm-up."
    limit = config.gradient_clipping
    clipped = f"Gradients are clipped at norm {limit:g}." if limit else "Gradients are not clipped."
    options = _list_options(config.schedule)
    return f"{options}: {falls} {warmup} Ends at step {schedule.steps:,}. {clipped}"


def _list_options(component: Component[Any]) -> str:
    options = component.as_dict().items()
    listed = ", ".join(f"{key} {value}" for key, value in options if value is not None)
    return listed.removeprefix("name ")


def _describe_batches(cost: CostEstimate) -> Iterator[str]:
    """Yield the rows and tokens of a step of each phase, with accumulation."""
    config = cost.config
    fewest = config.data.batch_tokens
    at_least = "" if fewest is None else f"at least {fewest:,} tokens per step, about "
    ranks = f"{cost.world_size} ranks x " if cost.world_size > 1 else ""
    for phase in cost.phases:
        count = phase.rows_per_step // cost.world_size // config.data.micro_batch
        steps = f", for {phase.steps:,} steps" if len(cost.phases) > 1 else ""
        yield (
            f"{at_least}{phase.rows_per_step:,} rows per step: {ranks}{count} micro-batches x "
            f"{config.data.micro_batch} rows, about {phase.tokens_of_step:,.0f} tokens{steps}"
        )


def _describe_length(cost: CostEstimate) -> str:
    """Return the steps, tokens and passes over the texts; filler rows count for nothing."""
    config = cost.config
    sets = distinct_sets(cost.datasets.phases)
    passes = cost.rows_by_set.total() / sum(len(shards) for shards in sets)
    reads = (
        f"the model reads every text {short(round(passes, 1))} times"
        if passes >= 1
        else f"the model reads {passes:.0%} of the texts"
    )
    average = " on average" if len(sets) > 1 else ""
    early = config.early_stop
    ends = "" if early is None else f"; early_stop on {early.metric} may end it sooner"
    tokens = f"about {short(cost.tokens)} tokens"
    return f"{plural(config.last_step, 'step')}, {tokens}: {reads}{average}{ends}"


def describe_unfallen_rate(config: TrainConfig) -> str:
    """Return that a run ends while its learning rate is still high; empty if it does not."""
    steps = config.last_step
    horizon = config.schedule.options.steps
    schedule = config.schedule.build(horizon)
    if schedule.warmup > steps or schedule(steps) - schedule(horizon) < _MIN_UNFALLEN:
        return ""
    return (
        f"step {steps:,} is before the end of the schedule ({horizon:,}): the learning rate is "
        f"then {schedule(steps):.0%} of its peak"
    )


def describe_cost(cost: CostEstimate, operations: float, plan: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of a new run: its model, what it will do, time and memory.

    `operations`: FLOPs per second of one rank, from which the least time follows; `plan`: what
    `describe_plan` returns.
    """
    config = cost.config
    size = cost.world_size
    parts = cost.model.parameters_by_part
    counts = ", ".join(f"{part} {count:,}" for part, count in parts.items())
    yield f"model      {sum(parts.values()):,} parameters: {counts}"
    length = cost.tokens / cost.rows_by_set.total()
    yield f"data       {cost.datasets.rows:,} rows of about {short(length)} tokens"
    yield from plan_lines(plan)

    # FLOPs and time
    training = cost.training_flops
    flops = training + cost.evaluations * cost.heldout_flops
    machines = f"{size} ranks of this machine" if size > 1 else "this machine"
    seconds = flops / (operations * size)
    daily = int(config.last_step * 86_400 / seconds)
    yield (
        f"arithmetic about {flops:.3g} operations, {training / cost.tokens:.3g} per token: at "
        f"least {duration_text(seconds)} on {machines}, at most {daily:,} steps a day; lines of "
        "steps tell the time that is left"
    )

    # memory per rank
    memory = estimate_memory(config, sum(parts.values()), size, frozen=frozen_count(cost.model))
    on_host = {"none": "", "optimizer": " on the host", "parameters": ", all on the host"}[
        config.zero.offload
    ]
    yield (
        f"memory     {_mebibytes(memory.total)} per rank: weights "
        f"{_mebibytes(memory.weights)}, gradients {_mebibytes(memory.gradients)}, optimizer "
        f"{_mebibytes(memory.optimizer)}{on_host}; activations come on top"
    )


def plan_lines(plan: Mapping[str, str]) -> list[str]:
    """Return what a run will do as lines."""
    return [f"{topic:<10} {text}" for topic, text in plan.items()]


def _mebibytes(size: float) -> str:
    return f"{size / 2**20:,.1f} MiB"
