"""Write the README.md of an exported model: its metadata, and the lines that load it."""

import json
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Final

from clozeline.errors import ConfigurationError
from clozeline.tools.models.export.quiet_transformers import import_transformers

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
_WORDS: Final = """
## Words

The model was trained on words joined by single blanks. The tag of a word is that of its first token that is more than a
blank, as with `aggregation_strategy="first"` in a pipeline. Words that are encoded one by one, as with
`is_split_into_words=True`, can have other tokens: join them.

```python
encoded = tokenizer(" ".join(words), return_offsets_mapping=True, return_tensors="pt", truncation=True)
ends = [end if end > start else 0 for start, end in encoded.pop("offset_mapping")[0].tolist()]
numbers = model(**encoded).logits[0].argmax(-1).tolist()
tags, start = [], 0
for word in words:
    first = next(place for place, end in enumerate(ends) if end > start)
    tags.append(model.config.id2label[numbers[first]])
    start += len(word) + 1
```
"""
_LAST: Final = """
## Words

The model was trained on words joined by single blanks. The tag of a word is that of its last token.
"""


def words_section(architecture: str) -> str:
    """Return what the card of a tagger says of words; a decoder has read a word at its last token."""
    return _LAST if architecture == "decoder" else _WORDS


def model_card(
    title: str, loader: str, parameters: int, facts: Mapping[str, str], *, licence: str = "unknown",
    languages: Sequence[str] = (), mark: str | None = None, options: Mapping[str, object] | None = None,
    words: str = "",
) -> str:  # fmt: skip
    """Return the text of a model card.

    `mark` is a special token of the tokenizer in the folder, None without one; `options` are more arguments of
    `from_pretrained`; `words` is the section of a tagger.
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
    return front + body + words + ("" if mark is None else _LITERAL.format(mark=mark))


def _cell(text: str) -> str:
    """Return a text on one line, with escaped bars, for a table cell."""
    return " ".join(text.split()).replace("|", "\\|")


def load_and_call(folder: Path, loader: str, options: Mapping[str, object]) -> str:
    """Return how the folder loads, for people; without transformers it is not tried.

    Args:
        folder: a complete export.
        loader: class of transformers that loads it.
        options: arguments of `from_pretrained`.

    Raises:
        ConfigurationError: the class refuses the folder, lacks tensors of it, or fails at its first call.
    """
    try:
        transformers = import_transformers("export-model")
    except ConfigurationError:
        return f"for {loader}, not tried: transformers is not installed"
    import torch

    level = transformers.utils.logging.get_verbosity()
    transformers.utils.logging.set_verbosity_error()
    try:
        with redirect_stderr(StringIO()):  # torchao's import prints lines about kernels of other machines
            model, report = getattr(transformers, loader).from_pretrained(
                folder, local_files_only=True, trust_remote_code=False, output_loading_info=True, **options
            )
        if differing := {key: sorted(map(str, names)) for key, names in report.items() if names}:
            raise ValueError(f"tensors differ: {differing}")
        # a row ends with the end token, whose state the classifiers of encoder-decoders read
        end = getattr(model.config, "eos_token_id", None) or 1
        ids = torch.tensor([[1, end[0] if isinstance(end, list) else end]])
        rows = {"input_ids": ids[None] if loader.endswith("ForMultipleChoice") else ids}
        reads_two = model.config.is_encoder_decoder and "Encoder" not in loader
        with torch.no_grad():
            model.eval()(**rows, **({"decoder_input_ids": ids} if reads_two else {}))
    except Exception as error:  # whatever the class raises, the export is none
        why = " ".join(str(error).split()) or type(error).__name__
        raise ConfigurationError(
            f"{folder}: {loader} of transformers cannot run this model: {why}; nothing was written: choose another "
            "type=, or keep the model in our format"
        ) from error
    finally:
        transformers.utils.logging.set_verbosity(level)
    return f"loaded by {loader}"
