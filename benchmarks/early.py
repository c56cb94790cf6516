"""Measure the accuracy of a classifier by mean depth and by tokens kept."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from clozeline.extensions.compression.early_exit import EarlyExit, Entropy
from clozeline.extensions.compression.token_pruning import TokenPruning
from clozeline.extensions.compression.token_rules import TopTokens
from clozeline.extensions.tasks.task_run import TaskRun, open_task_run, set_rows
from clozeline.model.build import build_model
from clozeline.pipeline.shards import ShardSet
from clozeline.train.data.stream.collate import Collate

ENTROPIES: Final = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.65, 0.7)
"""Thresholds in nats; two classes have at most ln 2 = 0.693."""
SHARES: Final = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
"""Share of the tokens that each layer passes on, of those that it read."""
EPOCHS = 10
BATCH = 32


def iterate_batches(
    shards: ShardSet, order: np.ndarray | None = None
) -> Iterator[dict[str, Tensor]]:
    """Yield batches of a set, in its order or in another one."""
    rows = set_rows(shards)
    collate = Collate.from_manifest(shards.manifest)
    order = np.arange(len(rows)) if order is None else order
    for start in range(0, len(order), BATCH):
        chosen = order[start : start + BATCH]
        columns = {name: rows.columns[name].take(chosen) for name in collate.columns}
        yield collate(columns, np.ones(len(chosen), np.float32))


def measure_exits(run: Path) -> list[tuple[str, float, float]]:
    """Train off-ramps of a run with a frozen body.

    Return (rule, mean depth, accuracy) by entropy.
    """
    opened = open_task_run(run, "dev")
    tuned = opened.trained.model
    options: Any = tuned.config.heads[opened.head]
    heads = {opened.head: replace(options, exits="after")}
    model = build_model(replace(tuned.config, heads=heads), tuned.vocab_size, {}, seed=0)
    model.load_state_dict(tuned.state_dict(), strict=False)
    ramps: Any = model.heads[opened.head].off_ramps
    optimizer = torch.optim.AdamW(ramps.parameters(), lr=2e-3)
    generator = np.random.default_rng(0)
    model.eval()
    ramps.train()

    for _ in range(EPOCHS):
        for batch in iterate_batches(opened.train, generator.permutation(len(opened.train))):
            loss = model(batch)[opened.head]
            (loss.total / loss.count).backward()
            optimizer.step()
            optimizer.zero_grad()

    early = EarlyExit(model, opened.head).eval()

    def pass_rows(rule: Entropy) -> tuple[str, float, float]:
        exits = [early(batch, rule) for batch in iterate_batches(opened.shards)]
        depths = torch.cat([part.depths for part in exits]).double()
        accuracy = _accuracy(opened, [part.scores for part in exits])
        return f"entropy below {rule.threshold}", float(depths.mean()), accuracy

    return [pass_rows(Entropy(threshold)) for threshold in ENTROPIES]


def measure_tokens(run: Path) -> list[tuple[str, float, float]]:
    """Return (rule, mean share of the tokens that a layer's feed-forward block reads, accuracy)."""
    opened = open_task_run(run, "dev")
    model = opened.trained.model

    def pass_rows(share: float) -> tuple[str, float, float]:
        kept = tuple(share ** (layer + 1) for layer in range(model.config.layers))
        pruning = TokenPruning(model, TopTokens(kept))
        pruned: list[Any] = [pruning.prune(batch) for batch in iterate_batches(opened.shards)]
        scores = [pruning.logits(batch)[opened.head] for batch in iterate_batches(opened.shards)]
        lengths = [batch["lengths"] for batch in iterate_batches(opened.shards)]
        tokens = sum(float(part.kept.sum()) for part in pruned)
        total = sum(float(length.sum()) for length in lengths) * model.config.layers
        return f"each layer keeps {share}", tokens / total, _accuracy(opened, scores)

    with torch.no_grad():
        return [pass_rows(share) for share in SHARES]


def _accuracy(opened: TaskRun, scores: list[Tensor]) -> float:
    head: Any = opened.answer
    answers = torch.from_numpy(head.answers(set_rows(opened.shards)))
    return float((torch.cat(scores).argmax(-1) == answers).double().mean())
