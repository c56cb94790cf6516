"""Say what a model sees of an example, what it predicts, and what is not scored."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from clozeline.pipeline.corrupt.objectives import Objective
from clozeline.pipeline.rows import Row

_READS: Final = {
    0: "any position",
    1: "itself and the positions before it",
    2: "itself and the positions after it",
    3: "itself, the positions before it, and the prefix",
}
"""Meaning of the column `attention`."""
_EVERYWHERE: Final = {
    "token": "at every position, whether its token was replaced",
    "corrective": "at every position, the original token",
}
"""Predictions of heads at all positions."""


@dataclass(frozen=True, slots=True)
class Predictions:
    """Predictions that the loss of an example scores.

    Args:
        form: `labels` and `order` (of prediction) predict tokens of the input, `next` each token from those before it,
            `target` a second sequence; `pair` compares two sequences, and no token is predicted.
        positions: of the scored predictions, in `input_ids`, in the order of the labels; for `target` in `target_ids`.
    """

    form: Literal["labels", "order", "next", "target", "pair"]
    positions: Sequence[int]


def predictions_of(row: Row) -> Predictions:
    """Return what an example lets a model predict, as its columns say."""
    columns = row.columns
    if "input_ids_b" in columns:
        return Predictions("pair", ())
    if "target_ids" in columns:
        return Predictions("target", range(len(row["target_ids"])))
    if "label_positions" in columns:
        return Predictions("labels", row["label_positions"].tolist())
    if "prediction_order" in columns:
        return Predictions("order", row["prediction_order"].tolist())
    first = max(1, prefix_length(row))
    return Predictions("next", range(first - 1, max(first, len(row["input_ids"])) - 1))


def describe_predictions(objective: Objective, row: Row) -> dict[str, str]:
    """Return `sees`, `predicts` and `not scored` of an example, each as a sentence."""
    found, length = predictions_of(row), len(row["input_ids"])
    sees, scored = _describe_input(objective, row, found.form), len(found.positions)
    if found.form == "pair":
        predicts = "which of all texts of a batch belongs to which"
        rest = "single tokens: the loss compares one vector for each text"
    elif found.form == "target":
        predicts = f"the {_count(scored, 'token')} of the target, one after another"
        rest = f"the {_count(length, 'token')} of the input"
    elif found.form == "next":
        predicts = f"at {_count(scored, 'position')}, the token that follows"
        unscored = length - scored - 1
        inside = f", and the {_count(unscored, 'position')} inside the prefix" if unscored > 0 else ""
        rest = f"the last position, as nothing follows it{inside}"
    else:
        predicts = (f"{_count(scored, 'token')}, each in its turn" if found.form == "order"
                    else f"the original tokens at {_count(scored, 'position')}, listed under labels")  # fmt: skip
        rest = f"the other {_count(length - scored, 'position')} of the input"
        if _EVERYWHERE.keys() & {*objective.heads}:
            rest = f"for the original tokens, {rest}"
    others = _describe_other_losses(objective, row)
    return {"sees": sees, "predicts": "; ".join([predicts, *others]), "not scored": rest}


def _describe_input(objective: Objective, row: Row, form: str) -> str:
    """Return what the model reads before it predicts."""
    tokens = _count(len(row["input_ids"]), "token")
    if form == "pair":
        return f"one text of {tokens} and one of {_count(len(row['input_ids_b']), 'token')}, without each other"
    if form == "order":
        context = len(row["input_ids"]) - len(row["prediction_order"])
        return f"{context} of {tokens} from the start; each predicted token from its turn on"
    if form == "next":
        return f"each position reads {_READS[3 if prefix_length(row) else _attention(row, 1)]}"
    if objective.architecture == "encoder_decoder":
        return f"the encoder reads all {tokens} of the input; the decoder also the tokens before the one it predicts"
    attention = _attention(row, 0)
    return f"each position reads {_READS[attention]}" if attention else f"all {tokens} of the input, on both sides"


def _describe_other_losses(objective: Objective, row: Row) -> list[str]:
    """Return what further heads predict, as far as this example has what they need."""
    more = []
    if has_values(row, "sentence_label"):
        more.append("whether the second segment follows the first")
    if has_values(row, "span_starts") and "span_boundary" in objective.heads:
        more.append("the tokens of each span once more, from the two tokens at its boundaries")
    more += [text for head, text in _EVERYWHERE.items() if head in objective.heads]
    if has_values(row, "crop_start"):
        more.append("which second view is of the same text")
    return more


def read_by_attention(row: Row) -> str | None:
    """Return which positions a position reads, where the row restricts it; None where it does not."""
    return _READS.get(int(row["attention"][0]), "?") if has_values(row, "attention") else None


def prefix_length(row: Row) -> int:
    """Return the number of tokens of the prefix; 0 without one."""
    return int(row["prefix_length"][0]) if has_values(row, "prefix_length") else 0


def has_values(row: Row, name: str) -> bool:
    """Return whether a row has values in a column."""
    return len(row.columns.get(name, ())) > 0


def _attention(row: Row, otherwise: int) -> int:
    values: Any = row.columns.get("attention", ())
    return int(values[0]) if len(values) else otherwise


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
