"""Read your labeled files: columns of CSV, TSV, JSON lines, Parquet and Hugging Face datasets."""

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

from pydantic import BeforeValidator, Field

from clozeline.configuration.config import Names, config_class
from clozeline.errors import ConfigurationError
from clozeline.extensions.tasks.readers import (
    LabeledText,
    Rejected,
    Row,
    RowFile,
    TaggedWords,
    TaskMetadata,
    TaskReader,
    Unfit,
    iterate_strings,
)
from clozeline.extensions.tasks.readers._labels import (
    MOST_CLASSES,
    ClassNames,
    are_entities,
    are_numbers,
    as_texts,
    bio_classes,
    cell_text,
    cell_texts,
    class_indices,
    class_names,
    is_integer,
    is_vector,
    number_of,
    sort_classes,
    to_bio,
    word_classes,
    words_of,
)
from clozeline.extensions.tasks.readers._official_files import open_folder, text_files
from clozeline.extensions.tasks.readers._reader import KEYS
from clozeline.pipeline.ingest.formats.limits import InputLimits
from clozeline.pipeline.ingest.readers._rows import value_at
from clozeline.pipeline.tables import open_table
from clozeline.pipeline.text.normal_form import compose

_ANSWER_OPTIONS: Final = ("label", "labels", "score")
_LOG: Final = logging.getLogger(__name__)
_FOLDER: Final = "folder"
_MOST_SHOWN_VALUES: Final = 10
"""Most values that a message shows."""


def _require_one_column(value: object) -> object:
    """Refuse a column for each class."""
    if isinstance(value, list):
        names = ", ".join(map(str, value))
        raise ValueError(  # noqa: TRY004 (of pydantic)
            f'expected one column, got {names}: join their 0 and 1 in one, such as "1,0", and give '
            f"classes: [{names}]"
        )
    return value


class LabeledReader(TaskReader):
    """Rows of named columns: one or two texts with an answer, or words with a class each.

    An answer is a class, several classes or a number. With `label: folder`, a split may be a folder
    of folders of text files, `train/pos/0_9.txt`, as in IMDB (Maas et al. 2011): a row is a file,
    and its folder is the class.

    The classes are taken from the training rows in a fixed order (integers by value, names by
    characters), unless the files store them (ClassLabel) or `classes` lists them. Reasons for
    rejection: `fields`, a damaged row, or different numbers of words and labels; `empty_text`;
    `no_label`; `bad_label`, an unknown class or not a number; `filtered`, by `keep`. Example (text
    `review`, label `stars`):
        `review,stars` and `"Great, again.",5`
    """

    unit = "row"
    has_parts = True
    metrics: ClassVar[tuple[str, ...]] = ()
    """metrics of the task, main metric first; empty: the metrics of the type of label"""
    hint: ClassVar[str] = " of the training rows; set others by tasks.reader.classes=[...]"
    """end of messages about unknown classes"""

    @config_class
    class Options:
        task: str = "labels"
        """name of the task and of its folder"""
        text: Names = field(default_factory=lambda: ["text"])
        """column of the text; the texts of several columns are joined by a space. In JSON lines,
        dots separate nested fields"""
        text_pair: Names = field(default_factory=list)
        """column of a second text; empty: rows have one text"""
        words: str | None = None
        """column of the words to tag, a list or a text split at white space, instead of `text`"""
        label: str | None = None
        """column of the class: a name or an integer; with `words`, one class per word; for text
        files, `folder`"""
        labels: Annotated[str | None, BeforeValidator(_require_one_column)] = None
        """column of any number of classes: a list, a string split at `separator`, or, with
        `classes`, 1 or 0 per class; an empty string means no class"""
        score: str | None = None
        """column of a number to predict"""
        separator: str = ","
        """characters between two labels in a string"""
        classes: Annotated[list[str] | dict[str, str], BeforeValidator(as_texts)] = field(
            default_factory=list
        )
        """names of the classes in order; integer labels are indices from 0. Or the name of each
        value of the file: {1: World, 2: Sports}. Empty: taken from the training rows"""
        no_label: ClassNames = field(default_factory=list)
        """values that mean that a row has no label, such as "-" in SNLI"""
        range: Annotated[list[float], Field(min_length=2, max_length=2)] | None = field(
            default=None
        )
        """lowest and highest number of `score`; null: taken from the files"""
        keep: dict[str, Names] = field(default_factory=dict)
        """values of columns that a row must have: {language: de}; other rows are rejected"""
        delimiter: Annotated[str, Field(min_length=1, max_length=1)] | None = None
        """character between the fields of a file with quotes, as in CSV; null: a comma, or a tab in
        .tsv files, where quotes have no meaning"""
        columns: list[str] = field(default_factory=list)
        """names of the columns of a CSV or TSV file without a header"""

        def __post_init__(self) -> None:
            answers = [name for name in _ANSWER_OPTIONS if getattr(self, name) is not None]
            if len(answers) != 1:
                raise ValueError(
                    "expected one of label (a class), labels (several) and score (a number), got "
                    f"{' and '.join(answers) or 'none'}: name the column, such as label: sentiment"
                )

            if self.words is not None and (self.text_pair or self.label is None):
                raise ValueError(
                    "words: expected label, the column with a class for each word, and no text_pair"
                )

            if not self.text:
                raise ValueError("text: expected a column, got none")

    def __init__(self, options: Any, limits: InputLimits) -> None:
        super().__init__(options, limits)
        self.in_folders = self.spec.label == _FOLDER
        self._forms: dict[str, str] = {}

    @cached_property
    def spec(self) -> Options:
        """Columns and classes of the task: the options, unless an official layout sets them."""
        options: LabeledReader.Options = self.options
        return options

    @property
    def metadata(self) -> TaskMetadata:
        spec = self.spec
        names = class_names(spec.classes)
        metrics = self.metrics
        texts = 2 if spec.text_pair else 1

        if spec.words is not None:
            entity = ("entity_f1", "strict_entity_f1") if are_entities(names) else ()
            return TaskMetadata(
                name=spec.task, head="tagging", labels=names, metrics=(*entity, "accuracy")
            )

        if spec.score is not None:
            low, high = spec.range or (0.0, 1.0)
            metrics = metrics or ("pearson", "spearman")
            return TaskMetadata(
                name=spec.task, head="regression", metrics=metrics, texts=texts, low=low, high=high
            )

        several = spec.labels is not None
        metrics = metrics or (
            ("micro_f1", "macro_f1", "subset_accuracy") if several else ("accuracy", "macro_f1")
        )
        return TaskMetadata(
            name=spec.task,
            head="classification",
            labels=names,
            texts=texts,
            multi_label=several,
            metrics=metrics,
        )

    @cached_property
    def _answer(self) -> str:
        return str(self.spec.label or self.spec.labels or self.spec.score)

    @property
    def _answer_option(self) -> str:
        spec = self.spec
        return "label" if spec.label else "labels" if spec.labels else "score"

    def input_columns(self, names: Sequence[str]) -> dict[str, list[str]]:
        spec = self.spec
        if spec.words is not None:
            return {"words": [spec.words]}
        return {"text": spec.text} | ({"text_pair": spec.text_pair} if spec.text_pair else {})

    def table_form(self) -> tuple[str | None, Sequence[str]]:
        return self.spec.delimiter, self.spec.columns

    def open(self, path: Path) -> RowFile:
        spec = self.spec
        if self.in_folders and path.suffix == ".txt":
            return open_folder(
                path, text_files(path), self.limits, "a folder per class", _text_in_folder
            )
        file = open_table(path, self.limits, spec.delimiter, spec.columns)
        texts = [*spec.text, *spec.text_pair] if spec.words is None else [spec.words]
        first = dict.fromkeys(spec.text, "text") if spec.words is None else {spec.words: "words"}
        options = first | {self._answer: self._answer_option}
        file.require(*texts, *spec.keep, keys=KEYS, options=options)
        return file

    def _rows(self, paths: Iterable[Path]) -> Iterator[tuple[str, Row]]:
        """Yield the location of each row, and its fields."""
        for path in paths:
            for index, row in self.open(path).rows():
                if not isinstance(row, Rejected):
                    yield f"{path}: {self.unit} {index + 1}", row

    def complete_options(self, splits: Mapping[str, Path]) -> object:
        """Return the options with classes of the training rows, or with the range of all scores."""
        spec = self.spec
        if spec.score is not None:
            return (
                self.options
                if spec.range is not None
                else replace(self.options, range=self._score_range(splits))
            )

        classes: Sequence[str] | Mapping[str, str] = spec.classes

        if not classes:
            training = [
                path for split, path in splits.items() if split.partition("_")[0] == "train"
            ]
            training = training or [*splits.values()]
            stored = (self.open(path).class_names.get(self._answer) for path in training)
            classes = next((list(names) for names in stored if names), ())
            # numbers in a file are class indices only if the order of the classes is given
            classes = classes or {name: name for name in self._find_classes(training)}

        if spec.words is not None and not isinstance(classes, Mapping) and are_entities(classes):
            classes = bio_classes(classes)
        return self.options if classes is spec.classes else replace(self.options, classes=classes)

    def _find_classes(self, paths: Sequence[Path]) -> list[str]:
        """Return the classes of training rows in order.

        ConfigurationError if the column has none.
        """
        spec = self.spec
        name = self._answer
        first_rows = dict[str, str]()

        for where, row in self._rows(paths):
            labels: list[str] = []
            if self._is_kept(row):
                with suppress(Unfit):  # rows that `read` rejects
                    labels = self._labels(row)

            if spec.labels is not None and is_vector(labels):
                raise ConfigurationError(
                    f"{where}: the column {name} holds "
                    f"{', '.join(labels[:_MOST_SHOWN_VALUES])}, a number for each class: "
                    "name the classes in this order by tasks.reader.classes=[...]"
                )

            for text in labels:
                first_rows.setdefault(text, where)
            if len(first_rows) > MOST_CLASSES:
                raise ConfigurationError(
                    f"{where}: the column {name} has more than {MOST_CLASSES:,} different labels, "
                    f"such as {list(first_rows)[-1][:40]!r}: expected classes; name another "
                    "column, or predict a number with tasks.reader.score"
                )

        names = [*first_rows]
        if names and are_numbers(names):
            text = next(text for text in names if not is_integer(text))
            raise ConfigurationError(
                f"{first_rows[text]}: the column {name} holds the number {text}, where a class is "
                f"expected: to predict numbers, set tasks.reader.score={name}; for classes, list "
                "them by tasks.reader.classes=[...]"
            )

        least = 1 if spec.labels is not None else 2
        if len(names) < least:
            raise ConfigurationError(
                f"{paths[0]}: expected {least} or more classes in the column {name}, got "
                f"{', '.join(names) or 'none'}: {self._columns_of(*paths)}, or list all classes: "
                "tasks.reader.classes=[...]"
            )

        return sort_classes(names) if spec.words is None else word_classes(names, name)

    def _score_range(self, splits: Mapping[str, Path]) -> list[float]:
        values = (value_at(row, self._answer) for _, row in self._rows({*splits.values()}))
        numbers = [number for value in values if (number := number_of(value)) is not None]
        if not numbers or min(numbers) == max(numbers):
            files = ", ".join(map(str, splits.values()))
            raise ConfigurationError(
                f"{files}: expected different numbers in the column {self._answer}, got "
                f"{f'only {numbers[0]:g}' if numbers else 'none'}: "
                f"{self._columns_of(*splits.values())}"
            )
        return [min(numbers), max(numbers)]

    def _columns_of(self, *paths: Path) -> str:
        key = next(name for name in _ANSWER_OPTIONS if getattr(self.spec, name))
        return (
            f"choose from {', '.join(self.open(paths[0]).names) or 'its folders'} by "
            f"tasks.reader.{key}=COLUMN"
        )

    def _is_kept(self, row: Row) -> bool:
        return all(str(value_at(row, name)) in values for name, values in self.spec.keep.items())

    def item(self, row: Row, index: int) -> LabeledText | TaggedWords:
        spec = self.spec
        group = self.group_of(row)
        if not self._is_kept(row):
            raise Unfit("filtered")
        if spec.words is not None:
            words = words_of(value_at(row, spec.words))
            return TaggedWords(words, self._tags(row, len(words)), index, group)

        texts = self.texts_of(row)
        if spec.score is not None:
            return LabeledText(texts, None, self._number(row), index, group)
        classes = self._classes(row)
        if spec.labels is not None:
            return LabeledText(texts, None, None, index, group, classes)
        return LabeledText(texts, classes[0], None, index, group)

    def build_unlabeled(self, row: Row, index: int) -> LabeledText | TaggedWords:
        """Return the item of a row without reading its label, with a placeholder."""
        spec = self.spec
        if spec.words is not None:
            words = words_of(value_at(row, spec.words))
            return TaggedWords(words, (0,) * len(words), index)
        return LabeledText(self.texts_of(row), 0 if spec.label is not None else None, 0.0, index)

    def _labels(self, row: Row) -> list[str]:
        """Return the labels of a row as strings: one, any number, or one per word."""
        spec = self.spec
        value = value_at(row, self._answer)

        try:
            if spec.words is None and spec.labels is None:
                labels = None if (label := cell_text(value)) is None else [label]
            else:
                labels = cell_texts(value, None if spec.words else spec.separator)
        except ValueError as error:
            several = "" if spec.words else "; name several by tasks.reader.labels"
            raise Unfit("bad_label", f"the column {self._answer} {error}{several}") from error

        if labels is None:
            raise Unfit("no_label")
        labels = [self._in_normal_form(label) for label in labels]
        if {*labels} & {*spec.no_label}:
            raise Unfit("no_label")
        return labels

    def _in_normal_form(self, label: str) -> str:
        """Return a label in NFC; warn once if a class is written in two forms."""
        name = compose(label)
        key = str(int(name)) if is_integer(name) else name.casefold()
        form = self._forms.setdefault(key, label)
        if form and form != label:
            self._forms[key] = ""  # said
            _LOG.warning(
                "tasks: the column %s holds %r in two forms, also %r: they are read as %s",
                self._answer,
                form,
                label,
                "one class, in NFC" if compose(form) == name else "two classes",
            )
        return name

    def normalize(self, row: Row) -> Row:
        """Return a row with its texts in the stored form; labels stay for `_in_normal_form`."""
        name = self._answer
        normalized = super().normalize(row)
        return {**normalized, name: row[name]} if name in row else normalized

    def texts_to_keep(self, row: Row) -> Any:
        words = self.spec.words
        if words is None:
            return super().texts_to_keep(row)
        # a single word is too short to be found
        return " ".join(iterate_strings(value_at(row, words)))

    def group_of(self, row: Row) -> str | None:
        """Return the document of a row; None if the file names no documents."""
        return None

    def texts_of(self, row: Row) -> tuple[str, ...]:
        """Return the text or both texts of a row."""
        sides = []
        for columns in (self.spec.text, self.spec.text_pair):
            if columns:
                values = [value_at(row, name) for name in columns]
                if not all(isinstance(value, str) or value is None for value in values):
                    raise Unfit("fields")
                texts = [(value or "").strip() for value in values]
                sides.append(" ".join(filter(None, texts)))
        if not all(sides):
            raise Unfit("empty_text")
        return tuple(sides)

    def _number(self, row: Row) -> float:
        value = value_at(row, self._answer)
        low, high = self.spec.range or (0.0, 1.0)
        is_cell = not isinstance(value, (list, tuple, Mapping))
        number = number_of(value)
        if is_cell and cell_text(value) in (None, *self.spec.no_label):
            raise Unfit("no_label")
        if number is None or not low <= number <= high:
            expected = f"a number from {low:g} to {high:g}"
            raise Unfit(
                "bad_label", f"the column {self._answer} holds {value!r}, expected {expected}"
            )

        return number

    def _classes(self, row: Row) -> tuple[int, ...]:
        """Return the indices of the class or classes of a row, ascending."""
        labels = self._labels(row)
        known = class_names(self.spec.classes)
        if self.spec.labels is not None and is_vector(labels) and len(labels) == len(known):
            labels = [label for label, has in zip(known, labels, strict=True) if has == "1"]
        return tuple(sorted({self._index_of(label) for label in labels}))

    def _tags(self, row: Row, count: int) -> tuple[int, ...]:
        """Return the class index of each word."""
        tags = self._labels(row)
        if len(tags) != count:
            raise Unfit("fields", f"it has {count} words and {len(tags)} labels")
        if names := self._entities:
            try:
                tags = to_bio(
                    [names[self._indices[tag]] if tag in self._indices else tag for tag in tags]
                )
            except ValueError as error:
                raise Unfit("bad_label", f"the column {self._answer}: {error}") from error
        return tuple(map(self._index_of, tags))

    @cached_property
    def _entities(self) -> tuple[str, ...]:
        """The classes if they are entity tags, else ()."""
        names = class_names(self.spec.classes)
        return names if are_entities(names) else ()

    @cached_property
    def _indices(self) -> dict[str, int]:
        return class_indices(self.spec.classes)

    def _index_of(self, label: str) -> int:
        if (index := self._indices.get(label)) is None:
            names = class_names(self.spec.classes)
            more = (
                f" and {len(names) - _MOST_SHOWN_VALUES} more"
                if len(names) > _MOST_SHOWN_VALUES
                else ""
            )
            shown = ", ".join(names[:_MOST_SHOWN_VALUES]) + more
            detail = (
                f"the column {self._answer} holds {label[:60]!r}, the classes are "
                f"{shown}{self.hint}"
            )
            raise Unfit("bad_label", detail)
        return index

    def format_lines(self, items: Sequence[LabeledText]) -> Iterator[str]:
        """Yield JSON lines with the columns of a classification task."""
        spec = self.spec
        values = {index: value for value, index in reversed(self._indices.items())}
        fixed = {name: kept[0] for name, kept in spec.keep.items()}

        for item in items:
            # the first column of a side holds its text, further ones are empty
            texts: dict[str, str] = {}
            for columns, text in zip((spec.text, spec.text_pair), item.texts, strict=False):
                texts |= {**dict.fromkeys(columns, ""), columns[0]: text} if columns else {}
            if spec.labels is None:
                answer: object = values[item.label or 0]
            else:
                answer = [values[number] for number in item.classes or ()]
            yield json.dumps({**texts, **fixed, self._answer: answer}, ensure_ascii=False)


def _text_in_folder(path: Path, text: str) -> list[Row | Rejected]:
    return [{_FOLDER: path.parent.name, "text": text}]
