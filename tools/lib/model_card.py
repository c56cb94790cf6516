"""The README.md of an exported model: what is known of it, and the lines that load it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

__all__ = ["model_card"]

_FRONT = """---
library_name: transformers
license: {licence}
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

model = {loader}.from_pretrained("path/to/this/folder")
{tokenizer_line}```
"""


def model_card(
    title: str,
    loader: str,
    parameters: int,
    facts: Mapping[str, str],
    *,
    licence: str = "unknown",
    languages: Sequence[str] = (),
    tokenizer: bool = False,
) -> str:
    """Return the text of a model card.

    Args:
        title: name of the model.
        loader: class of transformers that loads it.
        parameters: number of parameters.
        facts: rows of the table.
        licence: as the owner gives it; nothing here guesses one.
        languages: codes of the training data's languages.
        tokenizer: the folder holds one.
    """
    listed = {"licence": licence, "languages": ", ".join(languages) or "unknown", **facts}
    rows = "\n".join(f"| {_cell(key)} | {_cell(value)} |" for key, value in listed.items())
    front = _FRONT.format(licence=json.dumps(licence), languages=json.dumps(list(languages)))
    return front + _BODY.format(
        title=_cell(title),
        parameters=parameters,
        rows=rows,
        loader=loader,
        tokenizer_import=", AutoTokenizer" if tokenizer else "",
        tokenizer_line='tokenizer = AutoTokenizer.from_pretrained("path/to/this/folder")\n' if tokenizer else "",
    )


def _cell(text: str) -> str:
    """Return a text that stays in its cell."""
    return " ".join(text.split()).replace("|", "\\|")
