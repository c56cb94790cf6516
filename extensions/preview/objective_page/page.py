"""Write the page: one file with the script of the objectives, and with what a command has drawn."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np

from clozeline.extensions.preview import CorruptedText
from clozeline.extensions.preview.corrupted_text import OTHERS
from clozeline.pipeline.corrupt.objectives import Objective, build_objective
from clozeline.pipeline.corrupt.preview.row_view import has_values, prefix_length
from clozeline.pipeline.corrupt.preview.words import WordCodec
from clozeline.pipeline.text.sentences._language_rules import find_rules
from clozeline.report.html_page import page
from clozeline.report.views import Part, Picture, Section

_FOLDER: Final = Path(__file__).parent
_MASK: Final = "[MASK]"
OPTIONS: Final[dict[str, dict[str, object]]] = {
    "causal_lm": {"grouping": "document"},
    "prefix_lm": {"grouping": "document"},
    "masked_lm": {"grouping": "document"},
    "replaced_token_detection": {"grouping": "document"},
    "permuted_lm": {"grouping": "document"},
    "next_sentence_prediction": {},
    "mass": {},
    "span_corruption": {"input_length": 128},
    "text_infilling": {},
    "denoising_autoencoding": {},
    "token_deletion": {},
    "token_reordering": {},
    "sentence_reordering": {},
    "document_rotation": {},
}
"""the objectives of the page, with options for a text of one row"""
_CONTROLS: Final = Picture(
    "<p><label>objective <select id=objective></select></label></p>"
    "<p><label>text<br><textarea id=text rows=2></textarea></label></p>"
    "<div id=pair><p><label>other document<br><textarea id=partner rows=2></textarea></label></p>"
    "<p><label><input type=checkbox id=other> the second sentence is from the other document"
    "</label></p></div>"
    "<p id=hint></p><div id=words></div>"
    "<p><label>other word <input id=word size=12></label></p>"
)
_DIFFERS: Final = Picture(
    "<p id=differs hidden>The objective, options, tokenizer or sentences of the command are not on "
    "this page. The example of the command is at the end.</p>"
)
_SUM: Final = (
    "A model reads at each position the sum e = x + pos + seg of three vectors: of the token, of "
    "the position and of the segment. Models with rotary or relative positions add no pos, and "
    "models without segments (–) add no seg. __ marks a position without a label."
)
_STYLE: Final = """
textarea{width:100%;max-width:44rem;font:inherit}select,input,button{font:inherit}
#words button{margin:.1rem;padding:.15rem .5rem;border:1px solid var(--line);border-radius:.3rem;
background:var(--panel);color:var(--ink);cursor:pointer}
#words button[aria-pressed=true]{background:var(--c0);color:var(--paper)}
#words .gap{padding:.15rem .2rem;border-color:transparent;background:none}
#words .gap[aria-pressed=true]{background:var(--c1)}
.row th{white-space:nowrap}.row td{padding:.2rem .5rem;text-align:center;white-space:nowrap}
.attention{border-collapse:separate;border-spacing:1px;font-size:.8rem}
.attention th{padding:0 .3rem;text-align:right;border:0;font-weight:400;white-space:nowrap}
.attention th span{writing-mode:vertical-rl;transform:rotate(180deg)}
.attention td{min-width:1.3rem;height:1.3rem;padding:0;border:1px solid var(--line)}
.attention td.read{background:var(--c0)}
"""


@dataclass
class PageChoice:
    """What was drawn for a text; positions count its tokens from 0."""

    marks: dict[int, str] = field(default_factory=dict)
    """labels, masks or tokens that are deleted -> the token in their place"""
    gaps: list[int] = field(default_factory=list)
    """positions in front of which an empty span lies"""
    order: list[int] = field(default_factory=list)
    """order of prediction, of tokens or of sentences"""
    cut: int = 0
    """first position of the second part"""
    other: bool = False
    """whether the second segment is from the other document"""


def choice_of(shown: CorruptedText) -> PageChoice:
    """Return what an objective of the page has drawn, read off its example."""
    example = shown.example
    head = int(shown.objective.first_token is not None)
    inputs = shown.codec.words(example["input_ids"].tolist())

    def values(name: str) -> list[int]:
        found: list[int] = example[name].tolist() if has_values(example, name) else []
        return found

    # labels and masks, by their position in the row
    marked = values("label_positions")
    marked += [position + head for position in values("noise_positions")]
    if start := values("target_start"):
        marked += range(start[0], start[0] + len(example["target_ids"]))
    choice = PageChoice({position - head: inputs[position] for position in marked})

    # tokens that are gone, and spans
    if kept := values("kept_positions"):
        gone = sorted(set(range(len(shown.sample["ids"]))) - set(kept))
        choice.marks |= dict.fromkeys(gone, _MASK)
    drawn = zip(values("span_starts"), values("span_lengths"), strict=True)
    for first, length in [*drawn, *_spans_of_sentinels(shown)]:
        choice.marks |= dict.fromkeys(range(first, first + length), _MASK)
        choice.gaps += [first] * (length == 0)

    # orders and cuts
    choice.order = [position - head for position in values("prediction_order")]
    choice.order += values("token_order") + values("sentence_order")
    choice.cut = max([prefix_length(example), *values("rotation")])
    if segments := values("segment_starts"):
        choice.cut = segments[1] - 2
        choice.other = bool(values("sentence_label")[0])
    return choice


def _spans_of_sentinels(shown: CorruptedText) -> Iterator[tuple[int, int]]:
    """Yield start and length of each span that a sentinel of the input replaces."""
    sentinels = shown.objective.vocabulary.sentinels
    target = shown.example.columns.get("target_ids", np.zeros(0)).tolist()
    bounds = [*(at for at, token in enumerate(target) if token in sentinels), len(target) - 1]
    lengths = iter(end - start - 1 for start, end in pairwise(bounds))
    position = 0
    for token in shown.example["input_ids"].tolist():
        length = 1
        if token in sentinels:
            length = next(lengths)
            yield position, length
        position += length


def objective_page(shown: CorruptedText, text: str) -> str:
    """Return the page of a text that was corrupted; every string is escaped."""
    codec = WordCodec(())
    objectives = {
        name: build_objective({"name": name, **options}, codec.vocabulary)
        for name, options in OPTIONS.items()
    }
    # the example of the command, if the page has its objective and its words
    name = shown.objective.name
    choice = None
    example: dict[str, list[str]] = {}
    partner = OTHERS[0]
    if name in OPTIONS and isinstance(shown.codec, WordCodec):
        objectives[name] = shown.objective
        choice = asdict(choice_of(shown))
        if not has_values(shown.example, "attention"):
            example = {"input": _words(shown, "input_ids"), "target": _words(shown, "target_ids")}
        if has_values(shown.sample, "partner_ids"):
            partner = " ".join(_words(shown, "partner_ids"))

    data = {
        "objectives": {name: _setup(each, codec) for name, each in objectives.items()},
        "abbreviations": sorted(find_rules("en").never),
        "name": name if name in OPTIONS else "masked_lm",
        "text": text,
        "partner": partner,
        "choice": choice,
        "example": example,
    }
    # a `<` could end the script
    hidden = json.dumps(data).replace("<", "\\u003c")
    scripts = [(_FOLDER / file).read_text(encoding="utf-8") for file in ("kernels.js", "page.js")]
    programs = "".join(f"<script>{script}</script>" for script in scripts)
    parts: list[Part] = [
        "Type a text, choose an objective, and click words.",
        _CONTROLS,
        _DIFFERS,
        Section("Input and labels", [Picture("<div id=rows></div>"), _SUM]),
        Section("What each position reads", [Picture("<div id=grids class=grid></div>")]),
        Section("The example of the command", [shown.view()]),
        Picture(f"<script id=data type=application/json>{hidden}</script>{programs}"),
    ]
    return page(Section("What an objective makes of a text", parts), _STYLE)


def _words(shown: CorruptedText, column: str) -> list[str]:
    columns = {**shown.sample.columns, **shown.example.columns}
    return shown.codec.words(columns.get(column, np.zeros(0, np.int64)).tolist())


def _setup(objective: Objective, codec: WordCodec) -> dict[str, str | None]:
    """Return the special tokens of an objective's rows: first, last, and the decoder's first."""
    start = objective.form.decoder_start
    tokens = {"first": objective.first_token, "last": objective.last_token, "start": start}
    return {
        name: codec.piece(token) if isinstance(token, int) else None
        for name, token in tokens.items()
    }
