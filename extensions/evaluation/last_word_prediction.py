"""Predict the last word of passages (LAMBADA, arXiv 1606.06031).

The word can only be guessed from the entire passage.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from clozeline.errors import ConfigurationError
from clozeline.extensions.tasks.score_notes import note_few_items, note_if_worse
from clozeline.model.generation.decoding import Decoding
from clozeline.model.generation.generate import generate
from clozeline.model.scoring.causal import log_likelihoods
from clozeline.pipeline.ingest.readers import detect_reader
from clozeline.pipeline.tables import find_text_files, read_list, read_texts
from clozeline.pipeline.text.normal_form import NormalForm
from clozeline.tools.runs.inference.text_likelihoods import choose_score, ready_scores
from clozeline.train.checkpoint.trained_model import TrainedModel

_BATCH_PASSAGES: Final = 64
"""passages per batch; the prediction of a passage does not depend on the others in its batch"""
_LARGEST_SHOWN: Final = 10.0
"""Nats per word up to which the perplexity is shown, too: e ** 10 is 22,026."""


class _Row(NamedTuple):
    """Tokens of a passage, and how many of them are its last word.

    They are truncated to the model's positions.
    """

    ids: list[int]
    asked: int
    cut: bool


def read_passages(path: Path, form: NormalForm = "prose") -> list[str]:
    """Return the passages of a file or folder.

    They are the field `text` of rows, or lines of text as published.
    """
    passages: list[str] = []
    for file in find_text_files(path):
        is_text = detect_reader(file)[0] == "text"
        passages += [
            text.strip() for text in (read_list(file, form) if is_text else read_texts(file, form))
        ]
    if all(len(text.split()) < 2 for text in passages):
        raise ConfigurationError(f"{path}: expected passages of two words or more, got none")
    return passages


def score(trained: TrainedModel, path: Path, form: NormalForm = "prose") -> dict[str, Any]:
    """Return the share of last words that a causal model predicts, and their mean loss.

    Prediction is greedy; the loss is in nats.

    A word is correct if all of its tokens are; white space before it belongs to it. A passage
    longer than the position table loses its start, and is counted; a passage of one word is skipped
    and counted. The baseline is the most
    frequent last word.
    """
    ready = ready_scores(trained.objectives)
    choose_score(ready, trained, "causal")
    passages = read_passages(path, form)
    limit = trained.model.position_limit
    head = ready["causal"].before_text
    rows = []

    for text, encoding in zip(passages, trained.tokenizer.encode(passages), strict=True):
        # the last word's tokens start after the previous word; drop the start of long passages
        before = len("".join(text.rsplit(maxsplit=1)[:1]))
        ids = [*head, *encoding.ids.tolist()]
        truncated = ids if limit is None else ids[-limit:]
        rows.append(
            _Row(truncated, int((encoding.starts >= before).sum()), len(truncated) < len(ids))
        )

    chosen = [row for row in rows if 0 < row.asked < len(row.ids)]
    scores = log_likelihoods(trained.model, [row.ids for row in chosen])
    total = math.fsum(
        float(row_scores[-row.asked :].sum())
        for row_scores, row in zip(scores, chosen, strict=True)
    )
    # how many rows end with the tokens that the model would generate
    right = 0

    for batch in (
        chosen[begin : begin + _BATCH_PASSAGES] for begin in range(0, len(chosen), _BATCH_PASSAGES)
    ):
        decoding = Decoding(max_tokens=max(row.asked for row in batch))
        continuations = generate(trained.model, [row.ids[: -row.asked] for row in batch], decoding)
        pairs = zip(continuations, batch, strict=True)
        right += sum(
            generated.ids[: row.asked] == row.ids[-row.asked :] for generated, row in pairs
        )

    words = Counter(text.split()[-1] for text in passages if len(text.split()) > 1)
    return {
        "suite": "lambada",
        "n": len(chosen),
        "skipped": len(rows) - len(chosen),
        "truncated": sum(row.cut for row in chosen),
        "accuracy": right / max(1, len(chosen)),
        "nats": -total / max(1, len(chosen)),
        "baselines": {"majority": words.most_common(1)[0][1] / words.total()},
    }


def last_word_lines(scores: Mapping[str, Any]) -> Iterator[str]:
    """Yield readable lines."""
    notes = [f"{scores[name]:,} {name}" for name in ("truncated", "skipped") if scores[name]]
    counts = ", ".join((f"{scores['n']:,} passages", *notes))
    yield f"{scores['suite']}: {counts}; step {scores['step']:,}"
    majority = scores["baselines"]["majority"]
    yield (
        f"  accuracy of the last word {scores['accuracy']:.4f}, "
        f"{_describe_surprise(scores['nats'])}"
    )
    yield (
        "  the most frequent last word "
        f"{majority:.4f}{note_if_worse(scores['accuracy'], majority, 'higher')}"
    )
    if few := note_few_items(scores["n"], "passage"):
        yield f"  {few}"


def _describe_surprise(nats: float) -> str:
    """Return the mean loss of a last word; its exponential only where it can still be read."""
    exponential = f", perplexity {math.exp(nats):,.2f}" if nats < _LARGEST_SHOWN else ""
    return f"{nats:.2f} nats per word{exponential}"
