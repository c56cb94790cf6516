"""Write docs/objectives.md, which compares all objectives, and their sections in docs/objectives/.

The glossary, the words of other programs, the claims of lectures, the table of what goes together,
and the schemas of manifests and checkpoints are written, too:
`python -m docs.generate.page`
"""

import dataclasses
import inspect
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from clozeline.configuration.described_keys import describe
from clozeline.extensions.preview.corrupted_text import corrupt_first_row
from clozeline.files import publish_text
from clozeline.pipeline.corrupt.objectives import Objective, build_objective
from clozeline.pipeline.corrupt.preview.words import WordCodec
from clozeline.pipeline.registries import OBJECTIVES
from clozeline.registry import Component
from docs.generate.claims import claims_page
from docs.generate.combinations import combinations_page
from docs.generate.filled_keys import filled_keys_page
from docs.generate.objective_cases import EVERY_WORD, Case, cases_of, texts_for
from docs.generate.other_words import words_page
from docs.generate.published import published_page
from docs.generate.schemas import write_schemas
from docs.generate.training import training_table

_LONG = 80
_DOCS: Final = Path(__file__).resolve().parents[1]
_GROUPINGS: Final = Path(__file__).with_name("groupings.txt")
_LECTURE_WORDS: Final = _DOCS.parent / "configs" / "labs" / "glossary.md"
_CLOZELINE_WORDS: Final = Path(__file__).with_name("glossary.txt")
_HEAD: Final = """# Objectives

`clozeline show NAME 'Your text.'` shows what an [objective](glossary.md#objective) does to a text:
which [tokens](glossary.md#token) it hides or moves, and which [labels](glossary.md#label) a model
learns. The model is an [encoder](glossary.md#encoder), a [decoder](glossary.md#decoder) or an
[encoder-decoder](glossary.md#encoder-decoder). Each objective has a section with an example, its
features and all its options. The sections are on five pages:

"""
_HOW_TO_READ: Final = """\
`make docs` writes these pages from the code of the objectives. A test checks that they are current.

- Every random choice follows from [seed](glossary.md#seed), label, variant and sample. Another
  variant of a sample is another [corruption](glossary.md#corruption).
- You can undo every objective: `restore` returns the original tokens from the example alone."""
_GLOSSARY_HEAD: Final = """# Glossary

The words of these pages, screens and configurations: first those of any lecture on pretraining,
then those of Clozeline."""
_SECTION_HEAD: Final = """

In the examples, the tokens are words. `__` marks a position without loss. Lines of numbers are
stored features. [Objectives](../objectives.md) compares all objectives. The
[glossary](../glossary.md) explains the words."""


class Group(NamedTuple):
    """A page of docs/objectives/ with the objectives that a reader compares."""

    title: str
    summary: str
    names: tuple[str, ...]


GROUPS: Final = {
    "masked": Group(
        "Masked tokens",
        "A model sees both sides of a text, and predicts hidden or replaced tokens.",
        (
            "masked_lm",
            "whole_word_masking",
            "span_boundary",
            "replaced_token_detection",
            "corrective_lm",
            "masked_encoder_decoder",
        ),
    ),
    "causal": Group(
        "Causal, prefix and permuted",
        "A model predicts tokens one after another, in the order of the text or in a random order.",
        ("causal_lm", "prefix_lm", "permuted_lm"),
    ),
    "denoising": Group(
        "Denoising",
        "An encoder-decoder restores a damaged text, or the parts that are missing in it.",
        (
            "span_corruption",
            "text_infilling",
            "token_deletion",
            "token_reordering",
            "sentence_reordering",
            "document_rotation",
            "denoising_autoencoding",
            "mass",
        ),
    ),
    "pairs": Group(
        "Pairs",
        "A row has two texts: two sentences, a text and its translation, or a task and its answer.",
        (
            "next_sentence_prediction",
            "sentence_order_prediction",
            "sentence_comparison",
            "translation_lm",
            "text_to_text",
        ),
    ),
    "mixtures": Group(
        "Mixtures",
        "Several objectives work together: one of them for each sample, or one after another.",
        ("mixture", "composition"),
    ),
}


def write_pages() -> dict[str, str]:
    """Return the text of each page by its path in docs/."""
    missing = set(OBJECTIVES.available()) - {
        name for group in GROUPS.values() for name in group.names
    }
    if missing:
        raise SystemExit(f"add to a group of docs/generate/page.py: {', '.join(sorted(missing))}")

    pages = {"objectives.md": _write_overview(), "glossary.md": _write_glossary()}
    pages["combinations.md"] = combinations_page()
    pages["claims.md"] = claims_page()
    pages["filled-keys.md"] = filled_keys_page()
    pages["published-trainings.md"] = published_page()
    pages["words.md"] = words_page()
    for page, group in GROUPS.items():
        head = f"# {group.title}\n\n{group.summary}{_SECTION_HEAD}"
        table = _overview_table(group.names, {})
        sections = map(_objective_section, group.names)
        pages[f"objectives/{page}.md"] = "\n\n".join([head, table, *sections]) + "\n"
    return pages


def _write_overview() -> str:
    """Return the page that compares all objectives."""
    groups = "\n".join(
        f"- **[{group.title}](objectives/{page}.md)**: {group.summary}"
        for page, group in GROUPS.items()
    )

    names = [name for group in GROUPS.values() for name in group.names]
    links = {
        name: f"objectives/{page}.md" for page, group in GROUPS.items() for name in group.names
    }
    parts = [
        _HEAD + groups,
        _overview_table(names, links),
        _HOW_TO_READ,
        training_table(names),
        _GROUPINGS.read_text(encoding="utf-8").strip(),
    ]
    return "\n\n".join(parts) + "\n"


def _write_glossary() -> str:
    """Return the words of lectures, which labs have too, and the words of Clozeline."""
    words = _LECTURE_WORDS.read_text(encoding="utf-8")
    deeper = re.sub("^#", "##", words, flags=re.MULTILINE)
    parts = [_GLOSSARY_HEAD, deeper.strip(), _CLOZELINE_WORDS.read_text(encoding="utf-8").strip()]
    return "\n\n".join(parts) + "\n"


def _build_default(name: str) -> Objective:
    return build_objective(name, WordCodec(EVERY_WORD).vocabulary)


def _overview_table(names: Iterable[str], pages: Mapping[str, str]) -> str:
    """Return a row for each objective with a link to its section."""
    rows = [
        "| objective | architectures | heads | grouping (separator) | min. tokens, sentences |",
        "|---|---|---|---|---|",
    ]
    for name in names:
        objective = _build_default(name)
        link = f"[{name}]({pages.get(name, '')}#{name})"
        architectures = ", ".join(type(objective).architectures)
        heads = ", ".join(type(objective).heads)

        spec = objective.grouping
        separator = "" if spec.separator == "none" else f" ({spec.separator})"
        minimum = objective.minimum
        rows.append(
            f"| {link} | {architectures} | {heads} | {spec.name}{separator} | {minimum.tokens}, "
            f"{minimum.sentences} |"
        )
    return "\n".join(rows)


def _objective_section(name: str) -> str:
    """Return the docstring, properties, examples, features and options of an objective."""
    objective_type = OBJECTIVES.load_class(name)
    docstring = inspect.cleandoc(objective_type.__doc__ or "")
    architectures = ", ".join(objective_type.architectures)
    heads = ", ".join(objective_type.heads)
    papers = ", ".join(dict.fromkeys(re.findall(r"\d{4}\.\d{5}", docstring)))

    # the docstring up to its example, with < as an entity where Markdown would read HTML
    text = re.split(r"^Example", docstring, flags=re.MULTILINE)[0].strip()
    pieces = [
        piece if piece.startswith("`") else piece.replace("<", "&lt;")
        for piece in re.split(r"(`[^`]*`)", text)
    ]
    parts = [
        f"## {name}",
        "".join(pieces),
        f"*Papers:* arXiv {papers} · *models:* {architectures} · *heads:* {heads}",
        *(_example_block(name, case) for case in cases_of(name)),
        _feature_table(name),
        _configuration_block(name),
    ]
    return "\n\n".join(parts)


def _example_block(name: str, case: Case) -> str:
    words = WordCodec(EVERY_WORD)
    objective = build_objective({"name": name, **case.options}, words.vocabulary)
    shown = corrupt_first_row(objective, words, case.texts or texts_for(objective), case.variant)
    options_text = ", ".join(f"{key}: {as_yaml(value)}" for key, value in case.options.items())
    title = (
        f"With `{options_text}`, variant {case.variant}:"
        if options_text
        else f"With the defaults, variant {case.variant}:"
    )
    return "\n".join([title, "", "```text", str(shown), "```"])


def _feature_table(name: str) -> str:
    words = WordCodec(EVERY_WORD)
    chosen = (
        build_objective({"name": name, **case.options}, words.vocabulary) for case in cases_of(name)
    )
    shown = [_build_default(name), *chosen]
    features_by_name = {
        feature.name: feature for objective in reversed(shown) for feature in objective.features
    }
    order = dict.fromkeys(feature.name for objective in shown for feature in objective.features)
    rows = ["| feature | type | role | meaning |", "|---|---|---|---|"]
    for feature in (features_by_name[name] for name in order):
        meaning = feature.description.replace("<", "&lt;").replace("|", "\\|")
        rows.append(f"| `{feature.name}` | {feature.dtype} | {feature.role} | {meaning} |")
    return "\n".join(rows)


def _configuration_block(name: str) -> str:
    """Return a `corrupt` entry of a recipe with all options and their meanings."""
    objective_type = OBJECTIVES.load_class(name)
    defaults = objective_type.Options()
    short = [(f"- name: {name}", "")]
    long = []

    for key, _, _, meaning in describe(objective_type.Options):
        if key not in objective_type.Options.__pydantic_fields__:
            continue
        value = getattr(defaults, key)
        line = f"  {key}: {as_yaml(value)}"
        if len(line) > _LONG and isinstance(value, list):
            long += [f"  # {meaning}", f"  {key}:", *(f"    - {as_yaml(item)}" for item in value)]
        else:
            short.append((line, meaning))

    width = max(len(line) for line, _ in short)
    shown = [f"{line.ljust(width)}  # {meaning}" if meaning else line for line, meaning in short]
    return "\n".join(["```yaml", *shown, *long, "```"])


def as_yaml(value: Any) -> str:
    """Return a value on one line of YAML; algorithms show only options that are not defaults."""
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(as_yaml, value)) + "]"
    if isinstance(value, Component):
        return as_yaml({"name": value.name, **_non_default_options(value.options)})
    if dataclasses.is_dataclass(value):
        items = _non_default_options(value)
        chosen = items.pop("objective", None)
        inner = (
            {} if chosen is None else {"name": chosen.name, **_non_default_options(chosen.options)}
        )
        return as_yaml({**inner, **items})
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {as_yaml(item)}" for key, item in value.items()) + "}"
    needs_no_quotes = isinstance(value, str) and not re.search(r"[:{}\[\],#]|^$", value)
    return value if needs_no_quotes else json.dumps(value, ensure_ascii=False)


def _non_default_options(options: Any) -> dict[str, Any]:
    return {
        key: getattr(options, key)
        for key, field in type(options).__pydantic_fields__.items()
        if field.is_required()
        or getattr(options, key) != field.get_default(call_default_factory=True)
    }


if __name__ == "__main__":
    for path, text in write_pages().items():
        (_DOCS / path).parent.mkdir(exist_ok=True)
        publish_text(_DOCS / path, text)
    for path, text in write_schemas().items():
        publish_text(_DOCS.parent / path, text)
