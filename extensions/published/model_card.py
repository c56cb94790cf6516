"""Write the README.md of an exported model: its metadata, and the lines that load it."""

import json
from collections.abc import Sequence
from typing import Final

from clozeline.extensions.published.conversion.export import Export
from clozeline.hub import origin_of
from clozeline.pipeline.text.language_codes import base_language
from clozeline.train.checkpoint.trained_model import TrainedModel
from clozeline.train.registries import STATE_KEYS

_FRONT_MATTER = """---
library_name: transformers
license: {license_id}
language: {languages}
---
"""
_BODY = """
# {title}

A model of {parameters:,} parameters, exported by Clozeline.

| | |
|---|---|
{rows}

## Loading

```python
from transformers import {loader}{tokenizer_import}

model = {loader}.from_pretrained("path/to/this/folder"{options})
{tokenizer_line}```
"""
_SPELLED_SPECIAL_TOKENS = """
In the training text, special tokens that a text spells out, such as `{mark}`, are ordinary letters.
Read text of unknown origin the same way: `tokenizer(text, split_special_tokens=True)`. Without it
they become the special tokens themselves, which a prompt with `{mark}` in it needs. A unigram model
joins them in either case.
"""
_WORDS_AT_FIRST_TOKEN: Final = """
## Words

The model was trained on words joined by single blanks. The tag of a word is that of its first token
that is more than a blank, as with `aggregation_strategy="first"` in a pipeline. Words that are
encoded one by one, as with `is_split_into_words=True`, can have other tokens: join them.

```python
text = " ".join(words)
encoded = tokenizer(
    text, return_offsets_mapping=True, return_tensors="pt", truncation=True
)
ends = [end if end > start else 0 for start, end in encoded.pop("offset_mapping")[0].tolist()]
numbers = model(**encoded).logits[0].argmax(-1).tolist()
tags, start = [], 0
for word in words:
    first = next(place for place, end in enumerate(ends) if end > start)
    tags.append(model.config.id2label[numbers[first]])
    start += len(word) + 1
```
"""
_WORDS_AT_LAST_TOKEN: Final = """
## Words

The model was trained on words joined by single blanks. The tag of a word is that of its last token.
"""


def model_card(
    title: str,
    export: Export,
    parameters: int,
    trained: TrainedModel,
    *,
    license_id: str,
    languages: Sequence[str],
    has_words: bool,
) -> str:
    """Return the text of a model card; `has_words`: with the section of a tagger."""
    listed = {
        "license": license_id,
        "languages": ", ".join(languages) or "unknown",
        **_card_rows(trained),
    }

    rows = "\n".join(f"| {_cell(key)} | {_cell(value)} |" for key, value in listed.items())
    front = _FRONT_MATTER.format(
        license_id=json.dumps(license_id),
        languages=json.dumps(list(dict.fromkeys(map(base_language, languages)))),
    )
    lines = {"tokenizer_import": "", "tokenizer_line": ""}
    literal = ""

    if trained.tokenizer_folder is not None:
        lines["tokenizer_import"] = ", AutoTokenizer"
        lines["tokenizer_line"] = (
            'tokenizer = AutoTokenizer.from_pretrained("path/to/this/folder")\n'
        )
        specials = trained.tokenizer.vocabulary.specials  # the mask, or any other special token
        literal = _SPELLED_SPECIAL_TOKENS.format(
            mark=trained.tokenizer.piece(specials.get("mask", next(iter(specials.values()))))
        )

    more = "".join(f", {name}={value!r}" for name, value in export.loader_options.items())
    body = _BODY.format(
        title=_cell(title),
        parameters=parameters,
        rows=rows,
        loader=export.loader,
        options=more,
        **lines,
    )
    # a decoder has read a word at its last token
    words = (
        _WORDS_AT_LAST_TOKEN
        if trained.checkpoint.config.architecture == "decoder"
        else _WORDS_AT_FIRST_TOKEN
    )
    return front + body + (words if has_words else "") + literal


def _cell(text: str) -> str:
    """Return a text on one line, with escaped bars, for a table cell."""
    return " ".join(text.split()).replace("|", "\\|")


def _card_rows(trained: TrainedModel) -> dict[str, str]:
    """Return the rows of the model card."""
    if trained.config is None or trained.stored is None:
        return {
            "model type": str(trained.checkpoint.model_type),
            "imported from": origin_of(trained.folder),
        }

    trained_on = trained.sets[0]
    state = trained.stored.state
    rows = {
        "objective": trained_on.objective.label,
        "heads": ", ".join(trained.checkpoint.config.heads),
        "steps": f"{state.step:,}",
        "tokens seen": f"{state.tokens:,}",
        "training set": trained_on.name,
        "training set's digest": trained_on.checksum,
        "tokenizer's fingerprint": trained_on.tokenizer.fingerprint,
    }
    if trained.config.model.init_from is not None:
        rows["initial weights"] = origin_of(trained.config.model.init_from)
    if state.heldout_loss is not None:
        rows["held-out loss"] = f"{state.heldout_loss:.4f}"
    if languages := trained_on.objective.frame.language_tokens:
        pieces = ", ".join(map(trained.tokenizer.piece, languages.values()))
        rows["decoder_start_token_id"] = f"of the output's language: {pieces}"

    for name, value in state.added.items():
        rows |= STATE_KEYS.load_class(name).card_rows(value)

    return rows
