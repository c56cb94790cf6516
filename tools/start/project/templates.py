"""Compose the files of a new project.

They are a recipe for the user's texts, and a training for its shards.
"""

import difflib
import glob
import json
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from clozeline import HOME
from clozeline.configuration.config import adapter_of, read_composed
from clozeline.configuration.overrides import dump_yaml, parse_yaml
from clozeline.configuration.paths import as_url
from clozeline.configuration.words_elsewhere import words_of
from clozeline.errors import ConfigurationError
from clozeline.model.configuration.sizes import all_sizes, read_size
from clozeline.pipeline.recipe import InputEntry
from clozeline.pipeline.registries import LANGUAGES
from clozeline.pipeline.text.language_codes import LanguageTable, suggest_codes
from clozeline.pipeline.vocabulary import SENTINELS
from clozeline.tools.start.project.kinds import ANY, KINDS
from clozeline.train.configuration.config import TrainConfig

_LENGTH: Final = "max_length: 128"
"""Length of rows in all recipes of new projects."""
_MASKED_LM: Final = f"{{name: masked_lm, {_LENGTH}, mask_rate: 0.3}}"
_CAUSAL_LM: Final = f"{{name: causal_lm, {_LENGTH}}}"
_LEARNED_POSITIONS: Final = {"position": {"kind": "learned", "maximum": 128}}
"""Positions of BERT's relatives, which classes of transformers have.

The small variants of some recipes have rotary ones, with which 300 steps are enough.
"""
_RELATIVE_POSITIONS: Final = {
    "bias": {},
    "position": {
        "kind": "none",
        "maximum": 128,
        "disentangled": {
            "max_distance": 128,
            "buckets": 32,
            "shared_projections": True,
            "norm": True,
        },
    },
}
"""Relative positions of DeBERTa v2 and v3."""
_SLOW_HEAD: Final = {"adam_rate": 0.1}
"""AdamW's share of Muon's rate where a head has a matrix before the vocabulary.

That of the demo's recipe is too high for it (extensions/studies/README.md, hour).
"""
_MODERN: Final = "without a size in the layout of ModernBERT (the classic one: recipe:bert)"
"""Layout of the small variants of the recipe demo."""
_BART_STEPS: Final = "steps: [{name: sentence_reordering}, {name: text_infilling}]"
"""Steps that corrupt the texts of BART and mBART."""


class StarterFamily(NamedTuple):
    """A family of models, and how a small one of it is trained."""

    recipe: str
    """recipe whose small variant it is"""
    entry: str
    """objective, as in `corrupt` and `data.corrupt`"""
    use: str
    optimizer: Mapping[str, Any] | None = {}
    """keys that replace those of the demo's optimizer; None: optimizer and schedule are its own"""
    sentinels: int = 0
    """sentinels that its rows may hold"""
    keys: Mapping[str, Any] = {}
    """keys that replace the recipe's, so that a class of transformers computes the same"""


_FAMILIES: Final = {
    "bert": StarterFamily(
        "demo",
        _MASKED_LM,
        f"an encoder that fills masks, for vectors, classes and tags; {_MODERN}",
        optimizer=_SLOW_HEAD,
    ),
    "gpt": StarterFamily("gpt", _CAUSAL_LM, "a decoder that continues text"),
    "llama": StarterFamily(
        "gpt", _CAUSAL_LM, "a decoder that continues text, with rotary positions"
    ),
    "t5": StarterFamily(
        "t5",
        "{name: span_corruption, input_length: 128}",
        "an encoder-decoder that fills spans, for translation and summaries",
        optimizer={"learning_rate": 2e-2},
        sentinels=SENTINELS,
    ),
    "bart": StarterFamily(
        "bart",
        f"{{name: composition, label: bart, {_LENGTH}, {_BART_STEPS}}}",
        "an encoder-decoder that restores sentences, for summaries",
    ),
    "mbart": StarterFamily(
        "mbart",
        f"{{name: composition, label: mbart, {_LENGTH}, source_head: none, language_tokens: "
        f"{{LANGUAGE: <reserved_0>}}, {_BART_STEPS}}}",
        "BART with a token for the language",
    ),
    "mass": StarterFamily(
        "mass", f"{{name: mass, {_LENGTH}}}", "an encoder-decoder that restores half of a text"
    ),
    "roberta": StarterFamily("roberta", _MASKED_LM, "BERT without sentence pairs", optimizer=None),
    "xlm_r": StarterFamily("roberta", _MASKED_LM, "RoBERTa for many languages", optimizer=None),
    "albert": StarterFamily(
        "albert",
        f"{{name: sentence_order_prediction, {_LENGTH}}}",
        "an encoder whose layers share their weights",
        optimizer=None,
        keys=_LEARNED_POSITIONS,
    ),
    "electra": StarterFamily(
        "demo",
        f"{{name: replaced_token_detection, {_LENGTH}, cross_documents: false}}",
        "an encoder that finds replaced tokens",
        keys={
            "family": "replaced_tokens",
            "generator": {"layers": 2, "dim": 128, "attention_heads": 4, "ffn_dim": 256},
            "embedding_sharing": "all",
            "heads": {"masked_lm": 1.0, "token": 5.0},
        },
    ),
    "deberta": StarterFamily(
        "deberta",
        _MASKED_LM,
        "an encoder with relative positions",
        keys={"position": {"kind": "none", "maximum": 128, "disentangled": {"max_distance": 128}}},
    ),
    "deberta_v2": StarterFamily(
        "deberta", _MASKED_LM, "DeBERTa with shared projections", keys=_RELATIVE_POSITIONS
    ),
    "deberta_v3": StarterFamily(
        "deberta", _MASKED_LM, "DeBERTa v3, on masks alone", keys=_RELATIVE_POSITIONS
    ),
    "modernbert": StarterFamily(
        "demo", _MASKED_LM, "an encoder with rotary positions, for long texts", optimizer=_SLOW_HEAD
    ),
    "mobilebert": StarterFamily(
        "mobilebert", _MASKED_LM, "an encoder of narrow layers, for small devices", optimizer=None
    ),
    "megatron_bert": StarterFamily(
        "demo", _MASKED_LM, f"a large BERT; {_MODERN}", optimizer=_SLOW_HEAD
    ),
    "rembert": StarterFamily(
        "demo",
        _MASKED_LM,
        f"an encoder for many languages, with a small token table; {_MODERN}",
        optimizer=_SLOW_HEAD,
    ),
    "unilm": StarterFamily(
        "unilm",
        "{name: mixture, label: unilm, parts: [{name: next_sentence_prediction, label: both, "
        f"weight: 2, {_LENGTH}}}, {{name: next_sentence_prediction, label: prefix, weight: 2, "
        f"attention: prefix, {_LENGTH}}}, {{name: masked_lm, attention: left_to_right, grouping: "
        f"sentence_pair, {_LENGTH}}}]}}",
        "an encoder that also continues text",
        optimizer=None,
        keys=_LEARNED_POSITIONS,
    ),
    "xlm": StarterFamily(
        "xlm",
        f"{{name: masked_lm, {_LENGTH}, grouping: document, mask_rate: 0.3, languages: true}}",
        "an encoder that knows the language of each text",
        optimizer=None,
        keys=_LEARNED_POSITIONS,
    ),
    "xlnet": StarterFamily(
        "xlnet",
        f"{{name: permuted_lm, {_LENGTH}, frame: xlnet}}",
        "an encoder that predicts tokens in any order",
    ),
    "elmo": StarterFamily(
        "elmo", _CAUSAL_LM, "two LSTMs that read from both sides", optimizer=None
    ),
    "awd_lstm": StarterFamily(
        "ulmfit", _CAUSAL_LM, "an LSTM that continues text (ULMFiT)", optimizer=None
    ),
}
"""Families of models that have a size in configs/models and need no teacher."""
_PUBLISHED: Final = {
    **dict.fromkeys(("nanogpt", "pythia", "tinyllama", "smollm2", "olmo2"), "gpt"),
    **dict.fromkeys(("neobert", "eurobert", "mosaicbert"), "bert"),
    "nanot5": "t5",
}
"""Published trainings of configs/recipes, and the family that learns the same objective."""
MODELS: Final[Mapping[str, StarterFamily]] = _FAMILIES | {
    name: _FAMILIES[family]._replace(
        recipe=name, use="a published training (docs/published-trainings.md)", optimizer=None
    )
    for name, family in _PUBLISHED.items()
}
_LLAMA_KEYS: Final = {
    "dim": 128,
    "layers": 2,
    "attention_heads": 4,
    "kv_heads": 2,
    "ffn_dim": 344,
    "init": {"scheme": "normal", "std": 0.05, "scale_residual": True},
}
"""Keys that make llama_tiny, which takes a processor half an hour, a small variant."""
_CONFIGS: Final = HOME / "configs"
_SMALL_CORPUS_BYTES: Final = 10_000_000
"""Bytes of text below which 1 % of the documents are too few for a held-out set."""
_ROWS_PER_EVALUATION: Final = 6400
"""Rows read between two evaluations, which then take about a tenth of the time."""

_PIPELINE: Final = """# From your texts to shards for {model}:
# {use}.
# kind={kind}: {kind_use}.
#   clozeline pipeline --config {folder}/pipeline.yaml
#   clozeline train --config {folder}/train.yaml
# `clozeline pipeline --help` explains every key. Any key can be changed on the command line:
#   clozeline pipeline --config {folder}/pipeline.yaml output=OTHER

# Part of the id of every document: do not change it after the first run.
corpus: {corpus}
seed: 1
# A file, a folder, a glob or a list. For tables and JSONL, name the text column:
# {{path: posts.jsonl, text_key: body}}
input: {input}
output: {output}
# Share of the documents on which the training measures its loss. A large corpus needs 0.01 or less.
heldout: {{fraction: {fraction}}}

clean:
{language}
  # Stored form: `prose` drops outer blanks and repeated empty lines, `code` keeps all that a
  # compiler or a diff sees.
  normalize: {normalize}
  # The report shows these rejected texts; for a large corpus use 0.01.
  keep_text: 1
{filters}

{dedup}

{tokenizer}

encode: {{sentences: {sentences}}}

group: {{}}

# What the model learns from. The training makes these examples anew in each of its passes
# (`data.corrupt`); these show you what it reads.
corrupt:
  - {entry}
"""
_TRAIN: Final = """# {model}, {size}, on the samples of pipeline.yaml:
# {use}.
# `clozeline train --help` explains every key. See its size, memory and time, then train:
#   clozeline train --config {folder}/train.yaml --dry-run
#   clozeline train --config {folder}/train.yaml
output: {run}
"""
_OPTIMIZER: Final = """\
# A small variant has the optimizer that learned most in the first minutes on a processor.
"""
_TRAIN_END: Final = """
# by the tokens of the corpus; a start prints the number
steps: auto
evaluate: {{every: {every}, max_rows: 2048}}
# the last state, and the one with the lowest held-out loss
checkpoint: {{every: {every}, keep_last: 1, keep_best: true}}
"""


def with_absolute_paths(entry: InputEntry) -> InputEntry:
    """Return an input with absolute local paths, so that the recipe works from every folder.

    Raises:
        ConfigurationError: nothing is at a path, or it has none.
    """
    if not entry.path:
        raise ConfigurationError(f"input: expected a path, got the reader {entry.reader}")
    first, *others = map(_absolute_path, entry.paths)
    return replace(entry, path=[first, *others] if others else first)


def _absolute_path(text: str) -> str:
    if as_url(text) is not None:
        return text
    path = str(Path(text).absolute())
    if not any(_files(path)):
        raise ConfigurationError(
            f"input: nothing at {path}; give a file, a folder or a glob, such as 'texts/*.txt'"
        )

    return path


def _files(pattern: str) -> Iterator[Path]:
    """Yield the files at a path, in a folder, or of a glob."""
    found = [pattern] if Path(pattern).exists() else glob.glob(pattern, recursive=True)  # noqa: PTH207
    return (
        file
        for path in map(Path, found)
        for file in (path.rglob("*") if path.is_dir() else [path])
        if file.is_file()
    )


def check_language(code: str) -> str:
    """Return the identifier's code of a language; ConfigurationError if it does not know it."""
    if code == ANY:
        return code
    known = LANGUAGES.resolve("py3langid").build().languages()
    own_code = LanguageTable(dict.fromkeys(known)).find_key(code)
    if own_code is None:
        raise ConfigurationError(
            f"language: expected one code such as en or de, or {ANY}, got {code!r}; "
            f"for several, language={ANY}, and for the pipeline clean.language.keep='[en, de]'; "
            f"{suggest_codes(code, known)}"
        )
    return own_code


def find_name(word: str, known: Collection[str]) -> str | None:
    """Return the longest of our names with which a name of a hub begins; None without one.

    `google/t5-v1_1-small` begins with `t5_v1_1_small`, and `bert-base-uncased` with `bert`.
    `words_elsewhere.yaml` has what is spelled in other words.
    """
    plain = re.sub(r"\W", "_", word.rpartition("/")[2].lower())
    names = dict(zip(known, known, strict=True))
    for theirs, entry in words_of("models").items():
        names.update((theirs, ours) for ours in entry["write"] if ours in known)
    starts = [name for name in names if re.match(rf"{name}(_|\d|$)", plain)]
    return names[max(starts, key=len)] if starts else None


def sizes_of(model: str) -> list[str]:
    """Return the sizes of a model in configs/models: gpt2_small of gpt, xlm_r_base of xlm_r."""
    return sorted(size for size in all_sizes() if find_name(size, MODELS) == model)


def check_name(key: str, word: str, known: Collection[str]) -> str:
    """Return the name that a word of the user means, or raise ConfigurationError."""
    if (found := find_name(word, known)) is None:
        near = difflib.get_close_matches(word.lower(), known, n=1)
        meant = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigurationError(f"{key}: expected one of {', '.join(known)}, got {word!r}{meant}")
    return found


def entry_of(model: str, language: str) -> str:
    """Return the objective of a model for texts in a language."""
    entry = MODELS[model].entry
    if "LANGUAGE" in entry and language == ANY:
        raise ConfigurationError(
            f"model: {model} has a token for each language: name it, such as language=en"
        )
    return entry.replace("LANGUAGE", language)


def pipeline_yaml(
    folder: Path, source: Sequence[InputEntry], language: str, model: str, kind: str = "pages"
) -> str:
    """Return the recipe of a project in a folder."""
    entry = entry_of(model, language)
    needs = KINDS[kind]
    dump = partial(adapter_of(InputEntry).dump_python, mode="json", exclude_defaults=True)
    return _PIPELINE.format(
        model=model.upper(),
        use=MODELS[model].use,
        folder=_word_of(folder),
        entry=entry,
        kind=kind,
        kind_use=needs.use,
        input=json.dumps([*map(dump, source)], ensure_ascii=False),
        corpus=json.dumps(re.sub(r"\W+", "-", folder.name) or "own"),
        output=json.dumps(str(folder / "data")),
        fraction=0.15 if 0 < sum(text_sizes(source)) < _SMALL_CORPUS_BYTES else 0.01,
        language=needs.language_block(language),
        filters=needs.filters_block(language),
        normalize=needs.normalize,
        dedup=needs.dedup,
        tokenizer=needs.tokenizer_block(MODELS[model].sentinels),
        sentences=needs.sentences,
    )


def _word_of(folder: Path) -> str:
    """Return a folder as a word of a command in a comment, which is one line."""
    return " ".join(shlex.quote(str(folder)).splitlines())


def text_sizes(entries: Iterable[InputEntry]) -> Iterator[int]:
    """Yield the bytes of each local file of an input."""
    patterns = (pattern for entry in entries for pattern in entry.paths)
    return (file.stat().st_size for pattern in patterns for file in _files(pattern))


def train_yaml(
    folder: Path, language: str, model: str, grouping: str, size: str | None = None
) -> str:
    """Return the training of a project.

    It is the small variant of the model's recipe, or one of its sizes.

    `grouping` labels the sample set that the objective reads.
    """
    family = MODELS[model]
    entry = entry_of(model, language)
    recipe = "bert" if size and family.recipe == "demo" else family.recipe
    words = [] if recipe == "demo" else ["variant=tiny"]
    training = read_composed(TrainConfig, _CONFIGS / "recipes" / recipe / "train.yaml", words)

    if not size:  # from a small corpus, many noisy steps learn more than few smooth ones
        demo = read_composed(TrainConfig, _CONFIGS / "recipes" / "demo" / "train.yaml")
        training["data"] = demo["data"]
        if family.optimizer is not None:
            training |= {key: demo[key] for key in ("optimizer", "schedule")}
            training["optimizer"] |= family.optimizer

    training["model"] |= family.keys
    small = training["model"]

    if size or model == "llama":
        training["model"] = {"size": size} if size else {"size": "llama_tiny", **_LLAMA_KEYS}
        body = read_size(training["model"]["size"])
        heads = {head: body["heads"].get(head, options) for head, options in small["heads"].items()}
        training["model"]["heads"] = heads
        if "languages" in small:
            training["model"].setdefault("languages", body.get("languages", small["languages"]))

    if size:  # a learning rate for its width
        rate = training["optimizer"]["learning_rate"] * small["dim"] / body["dim"]
        training["optimizer"]["learning_rate"] = float(f"{rate:.2g}")

    data = {
        "shards": str(folder / "data" / "group" / grouping / "train" / "manifest.json"),
        # corrupted anew in each pass
        "corrupt": parse_yaml(entry),
        **training["data"],
    }

    head = _TRAIN.format(
        model=model.upper(),
        size=size or "a small variant",
        use=family.use,
        folder=_word_of(folder),
        run=json.dumps(str(folder / "run")),
    )

    keys = ("optimizer", "schedule", "gradient_clipping", "precision", "zero")
    rest = {key: training[key] for key in keys}
    every = _ROWS_PER_EVALUATION // data["global_batch"]
    parts = map(dump_yaml, ({"model": training["model"]}, {"data": data}))
    return "\n".join([head, *parts, _OPTIMIZER + dump_yaml(rest)]) + _TRAIN_END.format(every=every)
