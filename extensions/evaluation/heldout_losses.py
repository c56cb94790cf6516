"""Compute the loss and the perplexity of a run on its held-out sets, as its own evaluations do."""

import math
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from clozeline.errors import ConfigurationError, IntegrityError, write_note
from clozeline.extensions.tasks.readers import is_task
from clozeline.tools.runs.data.run_sets import SetPaths, explain_missing_sets, locate_sets
from clozeline.train.checkpoint.trained_model import TrainedModel
from clozeline.train.data.sets.datasets import Datasets, open_datasets, open_stream
from clozeline.train.data.sets.recorded_sets import SETS_FILE, read_sets
from clozeline.train.evaluate import batches_of_pass, count_predictions, unit_of
from clozeline.train.logs.display import heldout_title


def is_trained_on_texts(run: Path) -> bool:
    """Return whether a folder is a run that was not trained on a task."""
    if (run / SETS_FILE).is_file():
        with suppress(IntegrityError):
            return not any(is_task(recorded.objective) for recorded in read_sets(run))
    return False


def heldout_losses(trained: TrainedModel, set_paths: SetPaths | None = None) -> dict[str, object]:
    """Return the losses of each held-out set in nats, by head, and a perplexity.

    With the number of predictions of each head, and their unit. One head whose loss is a mean over
    labels also has a perplexity.

    Raises:
        ConfigurationError: the run has no held-out set.
    """
    config = trained.require_config("name texts by perplexity=TEXTS, or give a run")
    data = locate_sets(trained.folder, config.data, set_paths or SetPaths())
    with explain_missing_sets(trained.folder, data):
        datasets = open_datasets(replace(config, data=data))
    if not datasets.heldout:
        raise ConfigurationError(
            f"{trained.folder}: has no held-out set: name one by data.heldout=MANIFEST, or texts "
            "by perplexity=TEXTS"
        )

    for shards in datasets.heldout.values():
        trained.refuse_other_meanings(shards)

    sets = {} if trained.stored is None else trained.stored.state.heldout_sets
    if sets not in ({}, datasets.heldout_digests):
        write_note("the held-out sets are not those that the checkpoint was evaluated on")

    return {
        "step": trained.step,
        "sets": {name: _losses(trained, datasets, name) for name in datasets.heldout},
    }


def _losses(trained: TrainedModel, datasets: Datasets, name: str) -> dict[str, object]:
    """Return the losses on one held-out set, over the rows that the training evaluates."""
    config = trained.require_config()
    model = trained.model
    batches = batches_of_pass(
        len(datasets.heldout[name]), config.data.global_batch, config.evaluate.max_rows
    )
    sums = dict.fromkeys(model.heads, 0.0)
    counts = dict.fromkeys(model.heads, 0)
    labels = dict.fromkeys(model.heads, 0)

    with (
        closing(open_stream(config.data, [datasets.heldout_phase(name)], 0, 1)) as stream,
        torch.no_grad(),
    ):
        for micro_batches in stream.one_pass(config.data.global_batch, batches or None):
            for micro_batch in micro_batches:
                for head, loss in model(micro_batch.tensors).items():
                    if head in sums:
                        sums[head] += float(loss.total)
                        counts[head] += int(loss.count)
                        labels[head] += count_predictions(model.heads[head], micro_batch.tensors)

    losses = {head: sums[head] / max(1, counts[head]) for head in sums}
    loss = sum(weight * losses[head] for head, weight in config.model.head_weights.items())
    scores = {
        "loss": loss,
        "losses": losses,
        "labels": labels,
        "unit": unit_of(model.heads.values()),
    }
    (alone, *others) = model.heads.values()
    if not others and alone.target in ("masked_lm", "lm") and scores["unit"] == "labels":
        scores["perplexity"] = math.exp(min(losses[alone.key()], 700.0))
    return scores


def heldout_lines(scores: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each held-out set."""
    for name, result in scores["sets"].items():
        perplexity = f", perplexity {result['perplexity']:.2f}" if "perplexity" in result else ""
        labels = f"{sum(result['labels'].values()):,} {result['unit']}"
        loss = f"loss {result['loss']:.4f} nats{perplexity}, over {labels}"
        yield f"{heldout_title(name)} at step {scores['step']:,}: {loss}"
        if len(result["losses"]) > 1:
            yield "  " + ", ".join(f"{head} {loss:.4f}" for head, loss in result["losses"].items())
