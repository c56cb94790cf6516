"""Compose the files of a new project: a recipe for the user's texts, and a training for its shards."""

import glob
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from clozeline import HOME
from clozeline.configuration.overrides import parse_word
from clozeline.errors import ConfigurationError
from clozeline.pipeline.shards.store import as_url
from clozeline.registry import choose

MODELS: Final[Mapping[str, tuple[str, str, str]]] = {
    "bert": ("masked_lm", "{name: masked_lm, max_length: 128, variants: 2, mask_rate: 0.15}",
             "an encoder that fills masks, for vectors, classes and tags"),
    "gpt": ("causal_lm", "{name: causal_lm, max_length: 128}", "a decoder that continues text"),
    "t5": ("span_corruption", "{name: span_corruption, input_length: 128}",
           "an encoder-decoder that fills spans, for translation and summaries"),
    "bart": ("bart", "{name: composition, label: bart, max_length: 128, steps: [{name: sentence_reordering}, "
             "{name: text_infilling}]}", "an encoder-decoder that restores sentences, for summaries"),
}  # fmt: skip
"""Small models by name: the label of their example set, the entry of `corrupt` that makes it, and their use."""
ANY: Final = "any"
"""Keeps documents in every language."""
_SMALL: Final = 1_000_000
"""Bytes of text below which 5 % of the documents are too few for a held-out set."""

_PIPELINE: Final = """# From your texts to shards for a small {model}: {use}.
# 1. clozeline pipeline --config {folder}/pipeline.yaml
# 2. clozeline train --config {folder}/train.yaml
# `clozeline pipeline --help` explains every key. Any key can be changed on the command line: output=OTHER

# Part of the id of every document: do not change it after the first run.
corpus: {corpus}
seed: 1
# A file, a folder, a glob or a list. For tables and JSONL, name the text column: {{path: posts.jsonl, text_key: body}}
input: {input}
output: {output}
# Share of the documents on which the training measures its loss. A large corpus needs 0.01 or less.
heldout: {{fraction: {fraction}}}

clean:
{language}
  # The report shows these rejected texts; for a large corpus use 0.01.
  keep_text: 1
  filters:
    # Published: 50 to 100,000 words{stop_words}.
    - {{name: gopher_quality, words: [10, 100000]{no_stop_words}}}
    # Rejects texts that repeat lines or phrases.
    - gopher_repetition
    # For crawled pages, add c4_quality: it drops menus, and lines without punctuation at their end.

# The same text twice, and texts that share most of their word 5-grams.
dedup:
  exact: {{key: text}}
  near: {{ngram: 5, bands: 14, rows: 8, verify: 0.7}}

# 4,000 ids suit a few megabytes. For more than 100 MB use 32000, and a larger model.
train_tokenizer: {{name: byte_bpe, size: 4000}}

encode: {{sentences: regex}}

group: {{}}

# What the model learns from: `clozeline show {objective}` shows it on a sentence.
corrupt:
  - {entry}
"""
_LANGUAGE: Final = """  # Keeps documents in this language. If the report rejects good texts, lower the threshold.
  language: {{name: py3langid, keep: [{code}], threshold: 0.65}}"""
_ANY_LANGUAGE: Final = """  # Identifies languages for the report, and keeps all. To keep some: keep: [en, de]
  language: {name: py3langid, keep: []}"""
_TRAIN: Final = """# A small {model} on the shards of pipeline.yaml: {use}.
# `clozeline train --config {folder}/train.yaml`; add --dry-run to see its size, memory and time first.
# `clozeline train --help` explains every key.
output: {run}
"""


def absolute_input(text: str) -> Any:
    """Return the value of `input` with absolute local paths, so that the recipe works from every folder.

    Raises:
        ConfigurationError: nothing is at a path.
    """
    value = parse_word(str | list[Any] | dict[str, Any], text)
    entries = value if isinstance(value, list) else [value]
    found = [_absolute_entry(entry) for entry in entries]
    return found if isinstance(value, list) else found[0]


def _absolute_entry(entry: Any) -> Any:
    if isinstance(entry, Mapping) and "path" in entry:
        return {**entry, "path": absolute_input(json.dumps(entry["path"], ensure_ascii=False))}
    if not isinstance(entry, str):
        raise ConfigurationError(f"input: expected a path, or a mapping with 'path', got {entry!r}")
    if as_url(entry) is not None:
        return entry
    path = Path(entry).expanduser().absolute()
    if not _files(str(path)):
        raise ConfigurationError(f"input: nothing at {path}; give a file, a folder or a glob, such as 'texts/*.txt'")
    return str(path)


def _files(pattern: str) -> list[Path]:
    """Return the files at a path, in a folder, or of a glob."""
    paths = [Path(pattern)] if Path(pattern).exists() else map(Path, glob.glob(pattern, recursive=True))  # noqa: PTH207
    return [file for path in paths for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file()]


def check_language(code: str) -> str:
    """Return a language code; ConfigurationError if the identifier does not know it."""
    known = choose("clozeline.pipeline.clean.languages", "py3langid").build().languages()
    if code != ANY and code not in known:
        listed = ", ".join(sorted(known))
        raise ConfigurationError(f"language: expected a code such as en or de, or {ANY}, got {code!r}; known: {listed}")
    return code


def check_model(name: str) -> str:
    """Return the name of a model of `MODELS`, or raise ConfigurationError."""
    if name not in MODELS:
        raise ConfigurationError(f"model: expected one of {', '.join(MODELS)}, got {name!r}")
    return name


def pipeline_yaml(folder: Path, source: Any, language: str, model: str) -> str:
    """Return the recipe of a project in a folder."""
    _, entry, use = MODELS[model]
    own_words = language == "en"
    return _PIPELINE.format(
        model=model.upper(), use=use, folder=folder, entry=entry, input=json.dumps(source, ensure_ascii=False),
        corpus=json.dumps(re.sub(r"\W+", "-", folder.name) or "own"), output=json.dumps(str(folder / "data")),
        fraction=0.2 if 0 < _text_bytes(source) < _SMALL else 0.05,
        language=_ANY_LANGUAGE if language == ANY else _LANGUAGE.format(code=language),
        stop_words="" if own_words else ", and two stop words, which only some languages have a list of",
        no_stop_words="" if own_words else ", stop_words: 0",
        objective=re.sub(r"\{name: (\w+).*", r"\1", entry),
    )  # fmt: skip


def _text_bytes(source: Any) -> int:
    """Return the size of the local files of an input."""
    if isinstance(source, list):
        return sum(map(_text_bytes, source))
    if isinstance(source, Mapping):
        return _text_bytes(source["path"])
    return 0 if as_url(source) is not None else sum(file.stat().st_size for file in _files(source))


def train_yaml(folder: Path, model: str) -> str:
    """Return the training of a project: the small variant of the model's recipe, for the project's shards."""
    label, _, use = MODELS[model]
    recipe = (HOME / "configs" / "recipes" / model / "train_tiny.yaml").read_text(encoding="utf-8")
    settings = re.sub(r"\A(#.*\n)+", "", recipe)
    shards = folder / "data" / "corrupt" / label / "train" / "manifest.json"
    settings = settings.replace("\ndata:\n", f"\ndata:\n  shards: {json.dumps(str(shards))}\n", 1)
    head = _TRAIN.format(model=model.upper(), use=use, folder=folder, run=json.dumps(str(folder / "run")))
    return head + settings
