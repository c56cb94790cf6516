"""Write the README.md of an exported model: its metadata, and the lines that load it."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

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

model = {loader}.from_pretrained("path/to/this/folder"{options})
{tokenizer_line}```
"""
_LITERAL = """
The model was trained on text in which special tokens that a text spells out, such as `{mark}`, are ordinary letters.
Read text of unknown origin the same way: `tokenizer(text, split_special_tokens=True)`. Without it they become the
special tokens themselves, which a prompt with `{mark}` in it needs. A unigram model joins them in either case.
"""


def model_card(
    title: str, loader: str, parameters: int, facts: Mapping[str, str], *, licence: str = "unknown",
    languages: Sequence[str] = (), mark: str | None = None, options: Mapping[str, Any] | None = None,
) -> str:  # fmt: skip
    """Return the text of a model card.

    `mark` is a special token of the tokenizer in the folder, None without one; `options` are more arguments of
    `from_pretrained`.
    """
    listed = {"licence": licence, "languages": ", ".join(languages) or "unknown", **facts}
    rows = "\n".join(f"| {_cell(key)} | {_cell(value)} |" for key, value in listed.items())
    front = _FRONT.format(licence=json.dumps(licence), languages=json.dumps(list(languages)))
    lines = {"tokenizer_import": "", "tokenizer_line": ""} if mark is None else {
        "tokenizer_import": ", AutoTokenizer",
        "tokenizer_line": 'tokenizer = AutoTokenizer.from_pretrained("path/to/this/folder")\n',
    }  # fmt: skip
    more = "".join(f", {name}={value!r}" for name, value in (options or {}).items())
    body = _BODY.format(title=_cell(title), parameters=parameters, rows=rows, loader=loader, options=more, **lines)
    return front + body + ("" if mark is None else _LITERAL.format(mark=mark))


def _cell(text: str) -> str:
    """Return a text on one line, with escaped bars, for a table cell."""
    return " ".join(text.split()).replace("|", "\\|")
