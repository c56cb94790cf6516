"""Show the model's guesses on held-out rows as text, for the page of a run."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from clozeline.pipeline.corrupt.preview.row_view import Pieces
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer
from clozeline.report.html_page import escape, grid
from clozeline.train.logs.display import heldout_title

STYLE: Final = """
ins{text-decoration:none;font-weight:600;color:var(--c2)}del{color:var(--c1)}
del+ins{color:var(--muted);font-weight:400}
"""
"""Rules of the page: right guesses, wrong ones, and the labels after them."""
_LEGEND: Final = (
    "<p class=muted>Green and bold: the label, guessed right. Struck out: a wrong guess, with its label after it. "
    "Point at one to read its probability.</p>"
)


def draw_guesses(events: Sequence[Mapping[str, Any]], tokenizer: Path) -> str:
    """Return the rows of the latest `guesses` event, "" where there is none; `tokenizer` is the folder of the run's."""
    latest = next((event for event in reversed(events) if event.get("event") == "guesses"), None)
    if latest is None or not any(latest["sets"].values()):
        return ""
    pieces = Pieces(load_tokenizer(tokenizer))
    blocks = [
        _draw_row(pieces, row, f"{heldout_title(name)}, row {number}")
        for name, rows in latest["sets"].items()
        for number, row in enumerate(rows, 1)
    ]
    return f"<p>At step {latest['step']:,}.</p>{grid(*blocks)}{_LEGEND}"


def _draw_row(pieces: Pieces, row: Mapping[str, Any], title: str) -> str:
    labels = {position: guess for position, *guess in row["labels"]}
    right = sum(label == guess for label, guess, _ in labels.values())
    counted = f"{right} of {len(labels)} guesses are right"
    tokens = row["tokens"]
    if row["form"] == "masked":
        parts = ["".join(_draw_masked(pieces, tokens, labels))]
    else:
        first = min(labels)
        read = tokens if row["form"] == "target" else tokens[: first + 1]
        marked = "".join(_mark(pieces, *guess) for _, guess in sorted(labels.items()))
        parts = [escape(pieces.text(read)), "<br>" if row["form"] == "target" else "", marked]
    if row.get("continued"):
        begun = escape(pieces.text(tokens[: row["prompt"]]))
        parts.append(f"<footer>Continued by the model: {begun}<b>{escape(pieces.text(row['continued']))}</b></footer>")
    return f"<blockquote dir=auto>{''.join(parts)}<footer>{escape(title)}: {counted}</footer></blockquote>"


def _draw_masked(pieces: Pieces, tokens: Sequence[int], labels: Mapping[int, Sequence[Any]]) -> Iterator[str]:
    """Yield the text of a row; tokens without a label in between are decoded together."""
    plain: list[int] = []
    for position, token in enumerate(tokens):
        if position not in labels:
            plain.append(token)
            continue
        yield escape(pieces.text(plain))
        yield _mark(pieces, *labels[position])
        plain = []
    yield escape(pieces.text(plain))


def _mark(pieces: Pieces, label: int, guess: int, share: float) -> str:
    # a line break is told by its sign alone: a break at each wrong guess would tear the text apart
    right, guessed = (escape(pieces.piece(token).replace("\n", "")) for token in (label, guess))
    tip = f' title="{share:.1%}"'
    return f"<ins{tip}>{right}</ins>" if label == guess else f"<del{tip}>{guessed}</del><ins>{right}</ins>"
