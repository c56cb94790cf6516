"""The table of what can be trained: objective, architecture, batch columns and heads."""

from collections.abc import Iterator

from clozeline.errors import ConfigurationError
from clozeline.pipeline.corrupt.objectives import Objective, build_objective
from clozeline.pipeline.corrupt.preview.words import WordCodec
from clozeline.pipeline.registries import OBJECTIVES
from clozeline.train.data.sets.model_fit import judges_generator
from clozeline.train.data.stream.collate import Collate
from docs.generate.objective_cases import EVERY_WORD

_TITLE = """## What can be trained

The table shows the columns of a [batch](glossary.md#batch) and the [heads](glossary.md#head) of
`model.heads` that learn from them, for the default options. Other stored columns serve to undo the
corruption.

Heads with the note *[generator](glossary.md#generator) or drawn tokens* judge replaced tokens. They
need the family `replaced_tokens`, which has a generator. Or store rows with drawn tokens:
`replacement: uniform`, `unigram` or `shuffle`."""


def training_table(names: list[str]) -> str:
    """Return the table as Markdown, a row per architecture of each objective."""
    lines = [_TITLE, "", "| objective | architecture | columns | heads |", "|---|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for name in names for row in training_rows(name)]
    return "\n".join(lines)


def training_rows(name: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield (objective, architecture, columns, heads) for every architecture of an objective."""
    objective_type = OBJECTIVES.load_class(name)
    chosen = "architecture" in objective_type.Options.__pydantic_fields__
    for architecture in (
        objective_type.architectures if chosen else objective_type.architectures[:1]
    ):
        words = WordCodec(EVERY_WORD).vocabulary
        objective = build_objective(
            {"name": name, **({"architecture": architecture} if chosen else {})}, words
        )
        yield name, architecture, *_columns_and_heads(objective, dict(words.specials))


def _columns_and_heads(objective: Objective, special_ids: dict[str, int]) -> tuple[str, str]:
    roles = {feature.name: feature.role for feature in objective.features}
    try:
        collate = Collate(
            objective.architecture,
            roles,
            special_ids,  # type: ignore[arg-type]
            objective.form,
        )
    except ConfigurationError as error:
        return "–", f"none yet: {str(error).partition(';')[0]}"
    judging = " (generator or drawn tokens)"
    heads = [head + judging * judges_generator(head, objective.heads) for head in objective.heads]
    return ", ".join(collate.columns), ", ".join(heads)
