"""Write the README.md of an exported model: its metadata, and the lines that load it."""

import json
from collections.abc import Sequence
from typing import Final

from clozeline.extensions.published.conversion.export import Export
from clozeline.pipeline.text.language_codes import base_language
from clozeline.train.checkpoint.trained_model import TrainedModel

_FRONT_MATTER = """---
library_name: transformers
license: {license_id}
language: {languages}
---
"""
_BODY = """
# {title}

A model of {parameters:,} parameters, exported by Clozeline.

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
        title=" ".join(title.split()),
        parameters=parameters,
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
