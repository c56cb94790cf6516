"""Read the rows of a file through a template, and choose their demonstrations."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from xxhash import xxh3_64_intdigest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.tables import Rejected, normalize_row, open_table
from clozeline.pipeline.text.normal_form import NormalForm
from clozeline.seeding import hash64, mix
from clozeline.tools.runs.prompting.template import Template

Selection: TypeAlias = Literal["random", "balanced", "fixed"]


@dataclass(frozen=True)
class PromptRow:
    """A row: the fields that the example uses, and the correct label if known."""

    uid: int
    """64-bit hash of the fields: equal texts have the same uid, whatever their label, file or line"""
    fields: Mapping[str, str]
    label: str | None


@dataclass(frozen=True)
class PromptRows:
    """Rows of a file in order, and how many were rejected, by reason."""

    rows: list[PromptRow]
    refused: Counter[str]


def read_rows(path: Path, template: Template, form: NormalForm = "prose", *, labeled: bool) -> PromptRows:
    """Read the rows of a table or of lines of JSON, in a stored form."""
    if not path.is_file():
        raise ConfigurationError(f"{path}: no such file; give lines of JSON, or a table with a header")
    accepted, refused = [], Counter[str]()
    columns: dict[str, None] = {}
    for _, plain in open_table(path, Limits()).rows():
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
        reasons = ", ".join(f"{count} x {reason}" for reason, count in refused.items()) or "it is empty"
        wanted = ", ".join(" or ".join(template.columns_of(name)) for name in template.names)
        first = template.names[0]
        raise ConfigurationError(
            f"{path}: no row can be read ({reasons}). The template reads {wanted}; the file's columns are "
            f"{', '.join(columns) or 'none'}. Name yours in the template, for example fields: {{{first}: COLUMN}}"
        )
    return PromptRows(accepted, refused)


def _parse_row(plain: Mapping[str, object], template: Template) -> PromptRow | str:
    fields = {}
    for name in template.names:
        value = next((plain[column] for column in template.columns_of(name) if column in plain), None)
        if not isinstance(value, str) or not value.strip():
            return f"no_{name}"
        fields[name] = value
    written = plain.get(template.label)
    label = None if written is None or written == "" else template.values.get(str(written), str(written))
    if label is not None and label not in template.labels:
        return "bad_label"
    content = "".join(f"{len(part)}:{part}" for pair in sorted(fields.items()) for part in pair)
    return PromptRow(xxh3_64_intdigest(content.encode()), fields, label)


class Demonstrations:
    """Labeled rows from which the demonstrations of a row are drawn, never a row with the same fields.

    The draw depends on (seed, row), not on the order and number of rows.

    Of rows with equal fields, the one with the alphabetically first label is kept. `selection` random takes any,
    balanced equally many of each label or one more, fixed the same balanced ones for all rows.
    """

    def __init__(self, pool: Sequence[PromptRow], shots: int, selection: Selection, seed: int) -> None:
        distinct_rows: dict[int, PromptRow] = {}
        for row in sorted(pool, key=lambda row: (row.uid, row.label or "")):
            distinct_rows.setdefault(row.uid, row)
        self._pool = list(distinct_rows.values())
        self._uids = np.array([row.uid for row in self._pool], dtype=np.uint64)
        labels = sorted({row.label or "" for row in self._pool})
        self._labels = np.array([labels.index(row.label or "") for row in self._pool], dtype=np.int64)
        self._shots, self._selection, self._seed = shots, selection, seed
        if shots and len(self._pool) <= shots:
            raise ConfigurationError(
                f"shots={shots}: expected a file train=FILE with more labeled rows than that, got {len(self._pool)} "
                "different ones"
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
            labels, turns = self._labels[order], np.empty(len(order), dtype=np.int64)
            for label in np.unique(labels):
                turns[labels == label] = np.arange((labels == label).sum())
            order = order[np.argsort(turns, kind="stable")]
        selected = order[: self._shots]
        return [self._pool[number] for number in selected[np.argsort(drawn[selected], kind="stable")]]
