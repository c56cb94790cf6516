"""Write docs/objectives.md, a table of all objectives, then each with its examples, features and options.

python -m docs.generate.page
"""

import dataclasses
import inspect
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clozeline.configuration.described_keys import describe
from clozeline.files import publish_text
from clozeline.pipeline.corrupt.objectives import Objective, build_objective
from clozeline.pipeline.corrupt.preview.corrupted_text import corrupt_first_row
from clozeline.pipeline.corrupt.preview.words import Words
from clozeline.pipeline.registries import OBJECTIVES
from clozeline.registry import Component
from docs.generate.objective_cases import EVERY_WORD, Case, cases_of, texts_for
from docs.generate.training import training_table

_LONG = 80
_REMAINDERS = Path(__file__).with_name("remainders.txt")
_HEAD = """# Objectives

Every objective of `pipeline/corrupt/objectives/`, corrupting sentences whose tokens are words. This page is made by
`make docs` from the objectives themselves; a test holds it current.

In the examples `__` marks a position without loss, and rows of numbers are features as they are stored. Every draw
follows from seed, label, variant and sample: another variant of the same sample is another corruption. Every objective
can be undone: `uncorrupt` gives back the original from the example alone."""


def gallery() -> str:
    """Return the page as Markdown."""
    names = OBJECTIVES.available()
    remainders = _REMAINDERS.read_text(encoding="utf-8").strip()
    parts = [
        _HEAD,
        _overview_table(names),
        training_table(names),
        remainders,
        *map(_objective_section, names),
    ]
    return "\n\n".join(parts) + "\n"


def _build_default(name: str) -> Objective:
    return build_objective(name, Words(EVERY_WORD).vocabulary)


def _overview_table(names: list[str]) -> str:
    rows = [
        "| objective | architectures | heads | grouping (separator) | least tokens, sentences |",
        "|---|---|---|---|---|",
    ]
    for name in names:
        objective = _build_default(name)
        kind = type(objective)
        spec = objective.grouping
        separator = "" if spec.separator == "none" else f" ({spec.separator})"
        rows.append(
            f"| [{name}](#{name}) | {', '.join(kind.architectures)} | {', '.join(kind.heads)} | "
            f"{spec.name}{separator} | {objective.minimum.tokens}, {objective.minimum.sentences} |"
        )
    return "\n".join(rows)


def _objective_section(name: str) -> str:
    kind = OBJECTIVES.load_class(name)
    # the docstring up to its example; outside of code, nothing may be read as HTML
    text = re.split(r"^Example", inspect.cleandoc(kind.__doc__ or ""), flags=re.MULTILINE)[
        0
    ].strip()
    pieces = re.split(r"(`[^`]*`)", text)
    described = "".join(
        piece if piece.startswith("`") else piece.replace("<", "&lt;") for piece in pieces
    )
    papers = ", ".join(dict.fromkeys(re.findall(r"\d{4}\.\d{5}", kind.__doc__ or "")))
    facts = (
        f"*Papers:* arXiv {papers} · *models:* {', '.join(kind.architectures)} · *heads:* "
        f"{', '.join(kind.heads)}"
    )
    examples = (_example_block(name, case) for case in cases_of(name))
    return "\n\n".join(
        [
            f"## {name}",
            described,
            facts,
            *examples,
            _feature_table(name),
            _configuration_block(name),
        ]
    )


def _example_block(name: str, case: Case) -> str:
    words = Words(EVERY_WORD)
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
    words = Words(EVERY_WORD)
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
    kind = OBJECTIVES.load_class(name)
    defaults = kind.Options()
    short = [(f"- name: {name}", "")]
    long = []
    for key, _, _, meaning in describe(kind.Options):
        if key not in kind.Options.__pydantic_fields__:
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
    """Return a value on one line of YAML; algorithms and entries by what differs from their defaults."""
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
    plain = isinstance(value, str) and not re.search(r"[:{}\[\],#]|^$", value)
    return value if plain else json.dumps(value, ensure_ascii=False)


def _non_default_options(options: Any) -> dict[str, Any]:
    return {
        key: getattr(options, key)
        for key, field in type(options).__pydantic_fields__.items()
        if field.is_required()
        or getattr(options, key) != field.get_default(call_default_factory=True)
    }


if __name__ == "__main__":
    publish_text(Path(__file__).resolve().parents[1] / "objectives.md", gallery())
