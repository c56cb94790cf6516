"""Prompt templates: texts around the fields of a row, and the words of each label.

Data, never code.
"""

import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, TypeAlias

import numpy as np
from pydantic import Field
from xxhash import xxh3_64_intdigest

from clozeline.configuration.config import Names, config_class, load_config, to_data, validate
from clozeline.errors import ConfigurationError
from clozeline.pipeline.ingest.formats.limits import InputLimits
from clozeline.pipeline.tables import Rejected, normalize_row, open_table
from clozeline.pipeline.text.normal_form import NormalForm
from clozeline.seeding import hash64, mix

LABEL = "label"
"""Name of the slot for the label's words."""


@config_class
class Template:
    """Keys of a template file."""

    example: Annotated[str, Field(min_length=1)]
    """text of a row: `{name}` is a field of the row, and `{label}`, exactly once, the slot for the
    label's words; double literal braces"""
    labels: dict[str, tuple[Annotated[str, Field(min_length=1)], ...]] = field(default_factory=dict)
    """label names, each with the words that may fill the slot; demonstrations use the first; empty:
    the answers that the command names"""
    instruction: str = ""
    """text before all examples"""
    separator: str = "\n\n"
    """text between instruction and examples, and between examples"""
    fields: dict[str, Names] = field(default_factory=dict)
    """field names of the example, and the file's fields they stand for, where the names differ:
    `{text: sentence}`; of several, `{text: [text, sentence]}`, the first one that a row has"""
    label: str = "label"
    """field of the file that holds the correct label"""
    values: dict[str, str] = field(default_factory=dict)
    """values of that field, and the labels they stand for, where they differ"""
    words: Literal["logsumexp", "mean"] = "logsumexp"
    """combination of the scores of a label's words"""
    shots: Annotated[int, Field(ge=0, le=1024)] = 0
    """demonstrations per row"""
    shot_selection: Literal["random", "balanced", "fixed"] = "balanced"
    """any; equally many of each label; or the same ones for all rows (equally many of each
    label)"""
    null: str = "N/A"
    """text that replaces every field, for score=pmi"""

    def __post_init__(self) -> None:
        field_names = _field_names(self.example)
        if field_names.count(LABEL) != 1:
            raise ValueError(
                f"example: expected {{label}} once, got it {field_names.count(LABEL)} times"
            )

        if field_names == [LABEL]:
            raise ValueError(
                "example: expected a field of the row, such as {text}, got {label} alone"
            )

        if len(self.labels) == 1 or not all(self.labels.values()):
            raise ValueError("labels: expected two or more, each with at least one word")
        counts = Counter(word.strip() for words in self.labels.values() for word in words)
        if (
            double := next((word for word, count in counts.items() if not word or count > 1), None)
        ) is not None:
            raise ValueError(f"labels: expected different words, got '{double}' more than once")

        if self.labels and (
            unknown := [name for name in self.values.values() if name not in self.labels]
        ):
            raise ValueError(
                f"values: expected labels of {', '.join(self.labels)}, got '{unknown[0]}'"
            )

        if unknown := [name for name in self.fields if name not in self.names]:
            raise ValueError(
                f"fields: '{unknown[0]}' is not a name of the example; it has "
                f"{', '.join(self.names)}"
            )

    @property
    def names(self) -> tuple[str, ...]:
        """Field names of the example in order, without the label."""
        return tuple(dict.fromkeys(name for name in _field_names(self.example) if name != LABEL))

    def columns_of(self, name: str) -> list[str]:
        """Return the fields of the file that a name of the example stands for.

        A row has one of them.
        """
        return self.fields.get(name, [name])


class LabelPrompt(NamedTuple):
    """The texts around the words of a label."""

    before: str
    after: str


def read_template(path: Path, form: NormalForm = "prose") -> Template:
    """Read a template from YAML, its texts in a stored form.

    ConfigurationError for a missing file or wrong value.
    """
    plain = to_data(load_config(Template, path))
    template: Template = validate(Template, normalize_row(form, plain), str(path))
    return template


def limit_answers(template: Template, answers: Sequence[str]) -> Template:
    """Return a template whose labels are these texts, each with itself as its only word.

    ConfigurationError for fewer than two.
    """
    labels: dict[str, tuple[str, ...]] = {text.strip(): (text,) for text in answers}
    if len(labels) < 2:
        raise ConfigurationError(
            f"answers: expected two or more different texts, got {len(labels)}"
        )
    values = {value: name for value, name in template.values.items() if name in labels}
    limited: Template = replace(template, labels=labels, values=values)
    return limited


def prompt_of(
    template: Template,
    demonstrations: Sequence[tuple[Mapping[str, str], str]],
    fields: Mapping[str, str],
) -> LabelPrompt:
    """Return the prompt of a row, after demonstrations.

    Demonstrations are fields and label, in prompt order.
    """
    shown = []
    for of_row, label in demonstrations:
        before, after = _fill(template.example, of_row)
        shown.append(f"{before}{template.labels[label][0]}{after}")
    before, after = _fill(template.example, fields)
    parts = [*([template.instruction] if template.instruction else []), *shown, before]
    return LabelPrompt(template.separator.join(parts), after)


def _fill(example: str, fields: Mapping[str, str]) -> tuple[str, str]:
    sides = [""]
    for text, name, _, _ in string.Formatter().parse(example):
        sides[-1] += text
        if name == LABEL:
            sides.append("")
        elif name is not None:
            sides[-1] += fields[name]
    before, after = sides
    return before, after


def _field_names(example: str) -> list[str]:
    field_names = []
    for _, name, form, conversion in string.Formatter().parse(example):
        if name is None:
            continue
        if form or conversion or not name.isidentifier():
            raise ValueError(
                f"example: expected names in braces, such as {{text}}, got '{{{name}}}'"
            )
        field_names.append(name)
    return field_names


Selection: TypeAlias = Literal["random", "balanced", "fixed"]


@dataclass(frozen=True)
class PromptRow:
    """A row: the fields that the example uses, and the correct label if known."""

    uid: int
    """64-bit hash of the fields: equal texts have the same uid, whatever their label, file or
    line"""
    fields: Mapping[str, str]
    label: str | None


@dataclass(frozen=True)
class PromptRows:
    """Rows of a file in order, and how many were rejected, by reason."""

    rows: list[PromptRow]
    refused: Counter[str]


def read_rows(
    path: Path, template: Template, form: NormalForm = "prose", *, labeled: bool
) -> PromptRows:
    """Read the rows of a table or of lines of JSON, in a stored form."""
    if not path.is_file():
        raise ConfigurationError(
            f"{path}: no such file; give lines of JSON, or a table with a header"
        )

    accepted = []
    refused = Counter[str]()
    columns: dict[str, None] = {}

    for _, plain in open_table(path, InputLimits()).rows():
        if isinstance(plain, Rejected):
            refused[plain.reason] += 1
            continue
        columns |= dict.fromkeys(plain)
        row = _parse_row(normalize_row(form, plain), template)
        if isinstance(row, str):
            refused[row] += 1
        elif labeled and row.label is None:
            refused["no_label"] += 1
        else:
            accepted.append(row)

    if not accepted:
        reasons = (
            ", ".join(f"{count} x {reason}" for reason, count in refused.items()) or "it is empty"
        )
        wanted = ", ".join(" or ".join(template.columns_of(name)) for name in template.names)
        first = template.names[0]
        raise ConfigurationError(
            f"{path}: no row can be read ({reasons}). The template reads {wanted}; the file's "
            f"columns are {', '.join(columns) or 'none'}. Name yours in the template, for example "
            f"fields: {{{first}: COLUMN}}"
        )

    return PromptRows(accepted, refused)


def _parse_row(plain: Mapping[str, object], template: Template) -> PromptRow | str:
    fields = {}

    for name in template.names:
        value = next(
            (plain[column] for column in template.columns_of(name) if column in plain), None
        )
        if not isinstance(value, str) or not value.strip():
            return f"no_{name}"
        fields[name] = value

    written = plain.get(template.label)
    label = (
        None
        if written is None or written == ""
        else template.values.get(str(written), str(written))
    )
    if label is not None and label not in template.labels:
        return "bad_label"
    content = "".join(f"{len(part)}:{part}" for pair in sorted(fields.items()) for part in pair)
    return PromptRow(xxh3_64_intdigest(content.encode()), fields, label)


class Demonstrations:
    """Labeled rows to draw the demonstrations of a row from.

    A row with the same fields is never drawn.

    The draw depends on (seed, row), not on the order and number of rows.

    Of rows with equal fields, only the alphabetically first label stays. `selection`
    random takes any, balanced equally many of each label or one more, fixed the same balanced ones
    for all rows.
    """

    def __init__(
        self, pool: Sequence[PromptRow], shots: int, selection: Selection, seed: int
    ) -> None:
        distinct_rows: dict[int, PromptRow] = {}
        for row in sorted(pool, key=lambda row: (row.uid, row.label or "")):
            distinct_rows.setdefault(row.uid, row)
        self._pool = list(distinct_rows.values())
        self._uids = np.array([row.uid for row in self._pool], dtype=np.uint64)
        labels = sorted({row.label or "" for row in self._pool})
        self._labels = np.array(
            [labels.index(row.label or "") for row in self._pool], dtype=np.int64
        )
        self._shots = shots
        self._selection = selection
        self._seed = seed

        if shots and len(self._pool) <= shots:
            raise ConfigurationError(
                f"shots={shots}: expected a file train=FILE with more labeled rows than that, got "
                f"{len(self._pool)} different ones"
            )

    def of(self, row: PromptRow) -> list[PromptRow]:
        """Return the demonstrations of a row, in prompt order."""
        if not self._shots:
            return []
        row_key = 0 if self._selection == "fixed" else row.uid
        base = np.uint64(hash64("demonstrations", self._seed, self._selection, row_key))
        # a random key per row of the pool, fixed by (seed, row); the smallest keys are drawn
        drawn = mix(mix(self._uids) ^ base)
        order = np.argsort(drawn, kind="stable")
        order = order[self._uids[order] != np.uint64(row.uid)]

        if self._selection != "random":
            # one row of each label per turn: its rank among the rows of its label
            labels = self._labels[order]
            turns = np.empty(len(order), dtype=np.int64)
            for label in np.unique(labels):
                turns[labels == label] = np.arange((labels == label).sum())
            order = order[np.argsort(turns, kind="stable")]

        selected = order[: self._shots]
        return [
            self._pool[number] for number in selected[np.argsort(drawn[selected], kind="stable")]
        ]
