"""Reader of your own labeled files: columns of CSV, TSV, JSON lines, Parquet and Hugging Face datasets."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar, Final

from pydantic import BeforeValidator, Field

from clozeline.configuration.config import config_class
from clozeline.configuration.one_or_more import Names
from clozeline.errors import ConfigurationError
from clozeline.pipeline.tasks.readers import (
    LabeledText,
    Layout,
    Rejected,
    TaggedWords,
    TaskFacts,
    TaskFile,
    TaskItem,
    TaskReader,
    keep_texts,
    strings_in,
)
from clozeline.pipeline.tasks.readers._column_files import (
    Row,
    column_rows,
    open_columns,
    parts_of,
    value_at,
)
from clozeline.pipeline.tasks.readers._label_cells import (
    MOST_CLASSES,
    are_numbers,
    as_texts,
    cell_text,
    cell_texts,
    class_indices,
    class_names,
    is_vector,
    number_of,
    printed_list,
    sort_classes,
)
from clozeline.pipeline.tasks.readers._split_column import SplitColumn
from clozeline.pipeline.tasks.readers._tag_schemes import are_entities, normalize, to_bio, to_bioes, word_classes

_ANSWERS: Final = ("label", "labels", "score")
_SHOWN: Final = 10
"""Values that a message shows."""
_HIDDEN: Final = "-1"
"""No label, in a column with stored class names."""


class Labelled(TaskReader):
    """Rows of named columns: a text or two with a class, several classes or a number, or words with a class each.

    The classes are those of the training rows in a fixed order (integers by value, names by characters), or the ones
    that the files store (ClassLabel), or `classes`. Rejected: `fields`, a damaged row, or other numbers of words and
    labels; `empty_text`; `no_label`; `bad_label`, not one of the classes or not a number; `filtered`, by `keep`;
    `bad_split`, a value of the split column that names no split.

    Example (text `review`, label `stars`):
        `review,stars` and `"Great, again.",5`
    """

    unit: ClassVar[str] = "row"
    has_parts: ClassVar[bool] = True

    @config_class
    class Options:
        task: str = "labels"
        """name of the task and of its folder"""
        text: Names = field(default_factory=lambda: ["text"])
        """column of the text; the texts of several columns are joined by a space. In JSON lines, dots separate nested
        fields"""
        text_pair: Names = field(default_factory=list)
        """column of a second text; empty: rows have one text"""
        words: str | None = None
        """column of the words to tag, a list or a text split at white space, instead of `text`"""
        label: str | None = None
        """column of the class: a name, or an integer; with `words`, of a class for each word"""
        labels: str | None = None
        """column of any number of classes: a list, a text split at `separator`, or, with `classes`, 1 or 0 for each;
        an empty text has none of them"""
        score: str | None = None
        """column of a number to predict"""
        separator: str = ","
        """characters between two labels in a text"""
        classes: Annotated[list[str] | dict[str, str], BeforeValidator(as_texts)] = field(default_factory=list)
        """names of the classes in order; integer labels are indices from 0. Or the name of each value of the file:
        {1: World, 2: Sports}. Empty: taken from the training rows"""
        no_label: Annotated[list[str], BeforeValidator(as_texts)] = field(default_factory=list)
        """values that mean that a row has no label, such as "-" in SNLI"""
        range: Annotated[list[float], Field(min_length=2, max_length=2)] | None = field(default=None)
        """lowest and highest number of `score`; null: taken from the files"""
        split: SplitColumn | None = None
        """column that says to which split a row of a single file belongs: {column: fold}; null: a file per split"""
        keep: dict[str, Names] = field(default_factory=dict)
        """values of columns that a row must have: {language: de}; others are rejected"""
        delimiter: Annotated[str, Field(min_length=1, max_length=1)] | None = None
        """character between the fields of a file with quotes, as in CSV; null: a comma, and in .tsv a tab, where quotes
        have no meaning"""
        columns: list[str] = field(default_factory=list)
        """names of the columns of a CSV or TSV file without a header"""

        def __post_init__(self) -> None:
            given = [name for name in _ANSWERS if getattr(self, name) is not None]
            if len(given) != 1:
                raise ValueError(
                    f"expected one of label (a class), labels (several) and score (a number), got "
                    f"{' and '.join(given) or 'none'}: name the column, such as label: sentiment"
                )
            if self.words is not None and (self.text_pair or self.label is None):
                raise ValueError("words: expected label, the column with a class for each word, and no text_pair")
            if not self.text:
                raise ValueError("text: expected a column, got none")

    options: Options

    @property
    def facts(self) -> TaskFacts:
        options = self.options
        name, names = options.task, class_names(options.classes)
        texts = 2 if options.text_pair else 1
        if options.words is not None:
            entity = ("entity_f1", "strict_entity_f1") if are_entities(names) else ()
            return TaskFacts(name=name, head="tagging", labels=names, metrics=(*entity, "accuracy"))
        if options.score is not None:
            low, high = options.range or (0.0, 1.0)
            metrics = ("pearson", "spearman")
            return TaskFacts(name=name, head="regression", metrics=metrics, texts=texts, low=low, high=high)
        several = options.labels is not None
        return TaskFacts(
            name=name, head="classification", labels=names, texts=texts, multi_label=several,
            metrics=("micro_f1", "macro_f1", "subset_accuracy") if several else ("accuracy", "macro_f1"),
        )  # fmt: skip

    @property
    def _needed(self) -> tuple[str, ...]:
        """Columns of every file; that of the answer may be absent from files without labels."""
        options = self.options
        texts = [*options.text, *options.text_pair] if options.words is None else [options.words]
        return (*texts, *options.keep, *([] if options.split is None else [options.split.column]))

    @property
    def _answer(self) -> str:
        options = self.options
        return str(options.label or options.labels or options.score)

    def input_columns(self, names: Sequence[str]) -> dict[str, list[str]]:
        options = self.options
        if options.words is not None:
            return {"words": [options.words]}
        return {"text": options.text} | ({"text_pair": options.text_pair} if options.text_pair else {})

    def open(self, path: Path) -> TaskFile:
        file = open_columns(path, self.limits, self.options.delimiter, self.options.columns)
        file.require(*self._needed)
        has_labels = (
            self._answer.partition(".")[0] in file.names or self._answer in file.names or file.format == "jsonl"
        )
        return TaskFile(path, Layout(f"{file.format} with columns", has_labels, data=file))

    def companions(self, path: Path) -> tuple[Path, ...]:
        info = path.with_name("dataset_info.json")
        return (*parts_of(path)[1:], *([info] if info.is_file() else []))

    def read(self, file: TaskFile) -> Iterator[TaskItem | Rejected]:
        hidden = {*self.options.no_label, *([_HIDDEN] if self._answer in file.layout.data.class_names else [])}
        for index, row in column_rows(file.layout.data, self.limits):
            yield row if isinstance(row, Rejected) else keep_texts(self._parse(row, index, hidden), row)

    def splits_in(self, path: Path) -> tuple[str, ...]:
        if self.options.split is None:
            return ()
        found: dict[str, None] = {}
        values: dict[str, None] = {}
        for _, row in column_rows(self.open(path).layout.data, self.limits):
            if not isinstance(row, Rejected):
                split = self.options.split.split_of(row)
                found |= {} if split is None else {split: None}
                if split is None and len(values) < _SHOWN:
                    values[str(value_at(row, self.options.split.column))[:40]] = None
        if not found:
            column, held = self.options.split.column, ", ".join(values) or "none"
            raise ConfigurationError(
                f"{path}: the column {column} names no split, it holds {held}: expected train, dev "
                "and test; tasks.reader.split.names={VALUE: train} names others"
            )
        return tuple(sorted(found, key=lambda name: (not name.startswith("train"), name)))

    def row_splits(self, file: TaskFile) -> Iterator[str]:
        assert self.options.split is not None, "the splits are those of a column"
        first = self.splits_in(file.path)[0]
        for _, row in column_rows(file.layout.data, self.limits):
            yield first if isinstance(row, Rejected) else self.options.split.split_of(row) or first

    def complete_options(self, splits: Mapping[str, Path]) -> Options:
        """Return the options with the classes of the training rows, or the range of the scores of all rows."""
        options = self.options
        if options.score is not None:
            return options if options.range is not None else replace(options, range=self._score_range(splits))
        training = {split: path for split, path in splits.items() if split.partition("_")[0] == "train"} or splits
        stored = [names for path in training.values()
                  if (names := self.open(path).layout.data.class_names.get(self._answer))]  # fmt: skip
        if options.classes:
            return options
        if stored:
            return replace(options, classes=list(stored[0]))
        return replace(options, classes=self._find_classes([*training.values()]))

    def _find_classes(self, paths: Sequence[Path]) -> list[str]:
        """Return the classes of training rows in order; ConfigurationError for a column that holds no classes."""
        name, found, first = self._answer, dict[str, str](), str(paths[0])
        for path in paths:
            file = self.open(path)
            if not file.layout.has_labels:
                continue
            for index, row in column_rows(file.layout.data, self.limits):
                if isinstance(row, Rejected) or not self._is_kept(row) or not self._is_training(row):
                    continue
                labels = self._labels_in(row)
                if self.options.labels is not None and is_vector(labels):
                    raise ConfigurationError(
                        f"{path}: row {index + 1}: the column {name} holds {', '.join(labels[:_SHOWN])}, a number for "
                        "each class: name the classes in this order by tasks.reader.classes=[...]"
                    )
                for text in labels:
                    found.setdefault(text, f"{path}: row {index + 1}")
                if len(found) > MOST_CLASSES:
                    raise ConfigurationError(
                        f"{path}: row {index + 1}: the column {name} has more than {MOST_CLASSES:,} different labels, "
                        f"such as {list(found)[-1][:40]!r}: expected classes; name another column, or predict a number "
                        "with tasks.reader.score"
                    )
        names = [text for text in found if text not in self.options.no_label]
        if names and are_numbers(names):
            text = next(text for text in names if not text.removeprefix("-").isdigit())
            raise ConfigurationError(
                f"{found[text]}: the column {name} holds {text}, a number, where a class is expected: to predict "
                f"numbers, name the column by tasks.reader.score={name}; for classes, list tasks.reader.classes=[...]"
            )
        least = 1 if self.options.labels is not None else 2
        if len(names) < least:
            raise ConfigurationError(
                f"{first}: expected {least} or more classes in the column {name}, got {', '.join(names) or 'none'}: "
                "name another column, or list all classes: tasks.reader.classes=[...]"
            )
        return sort_classes(names) if self.options.words is None else word_classes(names, name)

    def _labels_in(self, row: Row) -> list[str]:
        """Return the labels of a row; none where they cannot be read, which `read` rejects."""
        value, options = value_at(row, self._answer), self.options
        if options.words is not None or options.labels is not None:
            try:
                return cell_texts(value, None if options.words is not None else options.separator) or []
            except ValueError:
                return []
        try:
            text = cell_text(value)
        except ValueError:
            return []
        return [] if text is None else [text]

    def _score_range(self, splits: Mapping[str, Path]) -> list[float]:
        numbers = [
            number
            for path in {*splits.values()}
            if (file := self.open(path)).layout.has_labels
            for _, row in column_rows(file.layout.data, self.limits)
            if not isinstance(row, Rejected) and (number := number_of(value_at(row, self._answer))) is not None
        ]
        if not numbers or min(numbers) == max(numbers):
            files = ", ".join(map(str, splits.values()))
            raise ConfigurationError(
                f"{files}: expected different numbers in the column {self._answer}, got "
                f"{f'only {numbers[0]:g}' if numbers else 'none'}: for classes, name it by tasks.reader.label"
            )
        return [min(numbers), max(numbers)]

    def _is_kept(self, row: Row) -> bool:
        return all(str(value_at(row, name)) in values for name, values in self.options.keep.items())

    def _is_training(self, row: Row) -> bool:
        split = self.options.split
        return split is None or (split.split_of(row) or "").startswith("train")

    def _parse(self, row: Row, index: int, hidden: set[str]) -> LabeledText | TaggedWords | Rejected:
        options, value = self.options, value_at(row, self._answer)
        if options.split is not None and options.split.split_of(row) is None:
            name = str(value_at(row, options.split.column))[:60]
            return Rejected("bad_split", index, f"the column {options.split.column} holds {name!r}, no split")
        if not self._is_kept(row):
            return Rejected("filtered", index)
        if options.words is not None:
            words = " ".join(strings_in(value_at(row, options.words)))  # a single word is too short to be found
            return keep_texts(self._tagged(row, index), words)
        texts = self.texts_of(row)
        if isinstance(texts, str):
            return Rejected(texts, index)
        if value is None or (isinstance(value, str) and value.strip() in hidden):
            return Rejected("no_label", index)
        if options.score is not None:
            number, (low, high) = number_of(value), options.range or (0.0, 1.0)
            if number is None and isinstance(value, str) and not value.strip():
                return Rejected("no_label", index)
            if number is None or not low <= number <= high:
                expected = f"a number from {low:g} to {high:g}"
                return Rejected("bad_label", index, f"the column {options.score} holds {value!r}, expected {expected}")
            return LabeledText(texts, None, number, index)
        try:
            names = cell_texts(value, options.separator) if options.labels is not None else [cell_text(value)]
        except ValueError as error:
            return Rejected(
                "bad_label", index, f"the column {self._answer} {error}; name several by tasks.reader.labels"
            )
        if names is None or names == [None] or set(names) & hidden:
            return Rejected("no_label", index)
        known = class_names(self.options.classes)
        if options.labels is not None and len(names) == len(known) and is_vector([*map(str, names)]):
            names = [label for label, has in zip(known, names, strict=True) if has == "1"]
        if unknown := [name for name in names if name not in self._indices]:
            return Rejected("bad_label", index, self._unknown(str(unknown[0])))
        numbers = [self._indices[str(name)] for name in names]
        if options.labels is not None:
            return LabeledText(texts, None, None, index, classes=tuple(sorted(set(numbers))))
        return LabeledText(texts, numbers[0], None, index)

    def texts_of(self, row: Row) -> tuple[str, ...] | str:
        """Return the text or both texts of a row, or the reason why there is none."""
        sides = []
        for columns in (self.options.text, self.options.text_pair):
            if columns:
                values = [value_at(row, name) for name in columns]
                if not all(isinstance(value, str) or value is None for value in values):
                    return "fields"
                sides.append(" ".join(text for value in values if (text := (value or "").strip())))
        return tuple(sides) if all(sides) else "empty_text"

    def words_of(self, row: Row) -> tuple[str, ...] | str:
        """Return the words of a row, or the reason why there are none."""
        value = value_at(row, str(self.options.words))
        try:
            words = (printed_list(value) or value.split()) if isinstance(value, str) else value
        except ValueError:
            return "fields"
        if not isinstance(words, (list, tuple)) or not all(isinstance(word, str) for word in words):
            return "empty_text" if words is None else "fields"
        if not words:
            return "empty_text"
        return tuple(words) if all(word.strip() for word in words) else "empty_word"

    def _tagged(self, row: Row, index: int) -> TaggedWords | Rejected:
        words, value = self.words_of(row), value_at(row, self._answer)
        if isinstance(words, str):
            return Rejected(words, index)
        if value is None:
            return Rejected("no_label", index)
        try:
            tags = cell_texts(value, None) or []
            if len(tags) != len(words):
                return Rejected("fields", index, f"it has {len(words)} words and {len(tags)} labels")
            names = class_names(self.options.classes)
            if are_entities(names):
                tags = to_bio([names[self._indices[tag]] if tag in self._indices else tag for tag in tags])
                tags = to_bioes(tags) if any(normalize(name)[0] in "ES" for name in names) else tags
        except ValueError as error:
            return Rejected("bad_label", index, f"the column {self._answer}: {error}")
        if unknown := [tag for tag in tags if tag not in self._indices]:
            return Rejected("bad_label", index, self._unknown(unknown[0]))
        return TaggedWords(words, tuple(self._indices[tag] for tag in tags), index)

    def _unknown(self, text: str) -> str:
        names = class_names(self.options.classes)
        shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
        where = "those of the training rows or of tasks.reader.classes"
        return f"the column {self._answer} holds {text[:60]!r}, the classes are {where}: {shown}"

    @cached_property
    def _indices(self) -> dict[str, int]:
        return class_indices(self.options.classes)

    def format_lines(self, items: Sequence[LabeledText]) -> Iterator[str]:
        """Yield JSON lines with the columns of the options."""
        options = self.options
        values = {index: value for value, index in reversed(self._indices.items())}
        fixed = {name: kept[0] for name, kept in options.keep.items()}
        for item in items:
            sides = zip((options.text, options.text_pair), item.texts, strict=False)
            texts = {name: text if not at else "" for columns, text in sides for at, name in enumerate(columns)}
            several = None if options.labels is None else [values[number] for number in item.classes or ()]
            answer = values[item.label or 0] if several is None else several
            yield json.dumps({**texts, **fixed, self._answer: answer}, ensure_ascii=False)
