"""Base classes of the readers of rows and lines.

Rows of named fields become records; an invalid byte costs only its row.
"""

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import filterfalse, islice
from typing import Any, ClassVar, Final, Self

from pydantic import model_validator

from clozeline.configuration.config import config_class
from clozeline.pipeline.ingest.documents.document import (
    FLAG_REPLACEMENTS,
    RECORD_ID,
)
from clozeline.pipeline.ingest.formats.byte_lines import (
    ByteLines,
    Line,
    find_line_start,
    first_lines,
)
from clozeline.pipeline.ingest.formats.charset import (
    detect_utf16,
    find_encoding,
    guess_encoding,
)
from clozeline.pipeline.ingest.formats.dates import parse_date
from clozeline.pipeline.ingest.formats.decompression import (
    DAMAGE_REASONS,
    Damage,
    InputFile,
    detect_codec,
)
from clozeline.pipeline.ingest.formats.limits import InputLimits
from clozeline.pipeline.ingest.formats.portable_json import limit_extra, repair_surrogates
from clozeline.pipeline.ingest.readers import Item, RawRecord, Reader, SkippedRecord
from clozeline.pipeline.ingest.readers._exported import BAD_DOCUMENT, restore_document
from clozeline.pipeline.ingest.readers._messages import (
    DialogueError,
    MessageOptions,
    is_dialogue,
    write_dialogue,
)
from clozeline.pipeline.text.language_codes import parse_code

FIELD_REASONS: Final = ("no_text", "empty", "text_type", "bad_utf8", BAD_DOCUMENT)
_TYPE_NAMES: Final = {
    int: "a number",
    float: "a number",
    bool: "a truth value",
    list: "a list",
    dict: "an object",
}
_MOST_SHOWN_KEYS: Final = 10
"""Maximum keys that a message lists."""
_SHOWN_KEY_CHARACTERS: Final = 40
"""Maximum characters of a key in a message."""
_OPTIONAL_KEYS: Final = ("url_key", "id_key", "language_key", "date_key")
"""Options that name fields which rows need not have."""
TARGET_FIELD: Final = "target_text"
KEY_CHECK_ROWS: Final = 1000
"""Number of first rows that are searched for each configured key; a key in none is reported."""


@config_class
class FieldOptions:
    """Names of the fields that are read; other fields go to `extra`.

    `a.b` is the field `b` inside the field `a`, unless a field is called `a.b`.
    """

    text_key: str = "text"
    """field with the text, or with the messages of a dialogue"""
    url_key: str = "url"
    """field with the URL, if any"""
    id_key: str | None = None
    """field that becomes `id` of `extra`"""
    language_key: str | None = None
    """field with the language code; the language is then not identified"""
    date_key: str | None = None
    """field with the date: ISO 8601, or seconds or milliseconds since 1970"""
    messages: MessageOptions = field(default_factory=MessageOptions)
    """how a dialogue (a list of messages in `text_key`) is written as a text"""
    html: bool = False
    """whether the texts are HTML, from which `clean.extractor` gets the text"""
    exported: bool = False
    """whether the rows are exported documents, which keep their uid, source, URL, date, language,
    flags and `extra`"""

    @model_validator(mode="after")
    def _refuse_other_names(self) -> Self:
        for key in ("text_key", *_OPTIONAL_KEYS):
            if self.exported and getattr(self, key) != getattr(FieldOptions, key):
                raise ValueError(
                    f"{key}: `exported: true` reads the columns of exported documents: remove one "
                    "of the two keys"
                )
        return self


def value_at(row: Mapping[str, object], name: str) -> Any:
    """Return the value of a field or of a dotted path of nested fields; None if it is absent."""
    if name in row:
        return row[name]
    head, dot, rest = name.partition(".")
    inner = _as_mapping(row.get(head)) if dot else None
    return None if inner is None else value_at(inner, rest)


def _remove_field(row: Mapping[str, object], name: str) -> dict[str, object]:
    """Return a copy of a row without a field, which may be a dotted path."""
    head, dot, rest = name.partition(".")
    inner = _as_mapping(row.get(head)) if dot and name not in row else None
    others = dict(row)
    if inner is None:
        others.pop(name, None)
    else:
        others[head] = _remove_field(inner, rest)
    return others


def _as_mapping(value: Any) -> Mapping[str, Any] | None:
    """Return a value as a mapping, or None; Arrow represents maps as lists of pairs."""
    if isinstance(value, Mapping):
        return value
    is_map = (
        isinstance(value, list)
        and value
        and all(isinstance(pair, tuple) and len(pair) == 2 for pair in value)
    )
    return dict(value) if is_map else None


class RecordMaker:
    """Makes records from rows, and remembers configured keys that no row has had yet."""

    def __init__(self, options: FieldOptions) -> None:
        self._options = options
        keys = {option: getattr(options, option) for option in _OPTIONAL_KEYS}
        self._missing = {
            option: key for option, key in keys.items() if key != getattr(FieldOptions, option)
        }
        self._rows = 0

    def missing_keys(self) -> list[str]:
        """Return the configured keys that none of the first rows has, as `option 'key'`."""
        return [f"{option} {key!r}" for option, key in self._missing.items()] if self._rows else []

    @property
    def text_columns(self) -> tuple[str, ...]:
        """Columns that must be text."""
        return self._options.text_key, self._options.url_key

    def explain_unusable(self, names: Sequence[str]) -> str:
        """Return why a table with these columns yields no records; "" if it may yield some."""
        key = self._options.text_key
        is_nested = key.partition(".")[0] in names
        return explain_duplicate_names(names) or (
            "" if is_nested else explain_missing_key(key, names)
        )

    def is_header(self, names: Sequence[str]) -> bool:
        """Return whether a first line is a header: names that differ, among them the text key."""
        return self._options.text_key in names and len(set(names)) == len(names) and all(names)

    @staticmethod
    def reject(reason: str, locator: int, why: str, cells: Sequence[str]) -> SkippedRecord:
        """Return a rejected row with its texts, and what is wrong with it."""
        return SkippedRecord("malformed", reason, locator, why, cells=tuple(cells))

    def make(
        self, row: Mapping[str, Any], locator_type: str, locator: int, length: int
    ) -> RawRecord | SkippedRecord:
        """Return the record of a row, or the reason why its text is missing, empty or not text."""
        if self._missing and self._rows < KEY_CHECK_ROWS:
            self._missing = {
                option: key
                for option, key in self._missing.items()
                if value_at(row, key) in (None, "")
            }
        self._rows += 1
        record = make_record(row, self._options, locator_type, locator, length)
        if self._options.exported and isinstance(record, RawRecord):
            return restore_document(record, row)
        return record

    def make_pair(
        self, row: dict[str, Any], locator_type: str, locator: int, length: int
    ) -> RawRecord | SkippedRecord:
        """Return the record of a row; with a field `target_text`, of a pair of aligned texts."""
        target = row.pop(TARGET_FIELD, None)
        if target is not None and not str(value_at(row, self._options.text_key)).strip():
            return RawRecord(locator, locator_type, length, "", target_text=target)
        item = self.make(row, locator_type, locator, length)
        return item._replace(target_text=target) if isinstance(item, RawRecord) else item


class RowKeeper(RecordMaker):
    """Stores all fields of a row in `extra`, for commands that read columns beside the text."""

    text_columns = ()

    def __init__(self) -> None:
        super().__init__(FieldOptions())

    def explain_unusable(self, names: Sequence[str]) -> str:
        return explain_duplicate_names(names)

    def is_header(self, names: Sequence[str]) -> bool:
        return True

    def make(
        self, row: Mapping[str, Any], locator_type: str, locator: int, length: int
    ) -> RawRecord | SkippedRecord:
        return RawRecord(locator, locator_type, length, "", extra=row)

    make_pair = make


@config_class
class EncodingOptions:
    """The encoding of a text file."""

    encoding: str | None = None
    """encoding of the file by its web name, such as `windows-1252` or `shift_jis`. Rows that do not
    decode are counted as `bad_utf8`. Default: UTF-8 or UTF-16; rows that are not UTF-8 have the
    encoding that a detector guesses from the first 4 MiB."""

    def __post_init__(self) -> None:
        codec = find_encoding(self.encoding or "utf-8")
        if codec is None or self.encoding == "" or codec.startswith("utf-16"):
            raise ValueError(
                f"encoding {self.encoding!r}: expected a name of the Encoding Standard, such as "
                "utf-8, windows-1252, shift_jis, gbk or euc-kr"
            )


class EncodedReader(Reader):
    """Base class of readers of lines and rows in any encoding."""

    def decode(self, line: bytes, path: InputFile) -> str:
        """Return the text of a line of a file.

        Raises:
            UnicodeDecodeError: it has another encoding; the error says which one that may be.
        """
        # the options of Parquet and of third-party readers have no encoding
        named = find_encoding(getattr(self._options, "encoding", None))
        try:
            return line.decode(named or "utf-8")
        except UnicodeDecodeError as error:
            self.guess = self.guess or _guess_encoding(path, self._limits)
            if named or self.guess == "utf-8":
                error.reason += f"; the first rows look like {self.guess}"
                error.reason += "" if named else ": the file mixes encodings"
                raise
            return line.decode(self.guess)


def _guess_encoding(path: InputFile, limits: InputLimits) -> str:
    rows = filterfalse(bytes.isascii, first_lines(path, limits))
    return guess_encoding(b"\n".join(islice(rows, KEY_CHECK_ROWS))) or "utf-8"


class RowReader(EncodedReader):
    """Base class of the readers of tables and JSON, whose rows have named fields."""

    has_header: ClassVar[bool] = False
    """whether the first row names the columns, unless the option `columns` does"""

    def __init__(self, options: Any, limits: InputLimits) -> None:
        super().__init__(options, limits)
        self._records = RecordMaker(options)

    def missing_keys(self) -> Sequence[str]:
        return self._records.missing_keys()

    def column_names(self, path: InputFile) -> Sequence[str]:
        """Return the columns that the file declares before its rows; empty if it declares none."""
        return ()

    def keep_rows(self) -> Self:
        """Make `read` yield all fields of a row in `extra`, instead of documents."""
        self._records = RowKeeper()
        return self


def make_record(
    row: Mapping[str, object], options: FieldOptions, locator_type: str, locator: int, length: int
) -> RawRecord | SkippedRecord:
    """Return the record of a row, or the reason why its text is missing, empty or not text."""
    text = value_at(row, options.text_key)
    if text is None:
        if options.text_key in row:
            return SkippedRecord("malformed", "empty", locator, f"{options.text_key!r} is null")
        why = f"{explain_missing_key(options.text_key, row)}{suggest_key(row)}"
        return SkippedRecord("malformed", "no_text", locator, why)

    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            return SkippedRecord("malformed", "bad_utf8", locator, str(error))

    if is_dialogue(text):
        try:
            text = write_dialogue(text, options.messages)
        except DialogueError as error:
            return SkippedRecord("malformed", "text_type", locator, str(error))

    if not isinstance(text, str):
        kind = _TYPE_NAMES.get(type(text), "not text")
        why = f"{options.text_key!r} is {kind}{suggest_key({options.text_key: text})}"
        return SkippedRecord("malformed", "text_type", locator, why)

    if not text or text.isspace():
        return SkippedRecord("malformed", "empty", locator)

    repaired = repair_surrogates(text)
    flags = 0 if repaired is text else FLAG_REPLACEMENTS
    url = value_at(row, options.url_key)
    url = repair_surrogates(url) if isinstance(url, str) and url else None

    # every other field goes to `extra`, and so do values that cannot be read
    others = _remove_field(_remove_field(row, options.text_key), options.url_key)
    stated: dict[str, Any] = {}
    for name, key, parse in (
        ("date", options.date_key, parse_date),
        ("language", options.language_key, parse_code),
    ):
        if key is not None and (value := parse(value_at(row, key))) is not None:
            stated[name] = value
            others = _remove_field(others, key)
    if options.id_key is not None and (identity := value_at(row, options.id_key)) is not None:
        others = _remove_field(others, options.id_key) | {RECORD_ID: identity}
    return RawRecord(
        locator,
        locator_type,
        length,
        repaired,
        options.html,
        url,
        flags=flags,
        extra=limit_extra(others),
        **stated,
    )


def text_lengths(row: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, int]]:
    """Yield the name of each field with a text or a dialogue, dotted if nested, and its length."""
    for name, value in row.items():
        if (inner := _as_mapping(value)) is not None:
            yield from text_lengths(inner, f"{prefix}{name}.")
        elif isinstance(value, str | bytes) or is_dialogue(value):
            yield prefix + name, len(str(value))


def suggest_key(row: Mapping[str, object]) -> str:
    """Return the end of a message, with the field that has the longest text of a row."""
    lengths = dict(text_lengths(row))
    return f"; did you mean {max(lengths, key=lengths.__getitem__)!r}?" if lengths else ""


def explain_missing_key(text_key: str, names: Iterable[str]) -> str:
    """Return the message that a row or table lacks the text key; "" if the key is there."""
    if text_key in names:
        return ""
    keys = sorted(str(name)[:_SHOWN_KEY_CHARACTERS] for name in names)
    shown = ", ".join(keys[:_MOST_SHOWN_KEYS]) + (
        f" and {len(keys) - _MOST_SHOWN_KEYS} more" if len(keys) > _MOST_SHOWN_KEYS else ""
    )
    return f"no {text_key!r} among the keys: {shown or 'none'}"


def explain_duplicate_names(names: Iterable[str]) -> str:
    """Return a message that two columns have the same name; "" if all differ."""
    repeated = sorted(name for name, count in Counter(names).items() if count > 1 and name)
    return f"two columns have the name {repeated[0]!r}; rename one" if repeated else ""


_BOM: Final = b"\xef\xbb\xbf"


class LineFileReader(EncodedReader):
    r"""Base class of readers of lines, split at `\n`; a subclass parses a line.

    The locator is the offset of the line in the file, or in the decompressed first member of a
    compressed file; behind that member, see `ByteLines.locate`. If the stream is truncated or
    damaged, all complete lines before the damage and in later members are read.
    """

    self_delimiting: ClassVar[bool] = False
    """true if a partial line is never a valid record: a record right after damage is then a
    complete line"""
    line_reasons: ClassVar[tuple[str, ...]] = (*DAMAGE_REASONS, *FIELD_REASONS, "line_bytes")

    Options = EncodingOptions

    @staticmethod
    def is_splittable(head: bytes) -> bool | None:
        """Return whether lines can be found from the middle: not UTF-16; None if compressed."""
        return None if detect_codec(head) else detect_utf16(head) is None

    def find_first_record(self, path: InputFile, position: int) -> int:
        return find_line_start(path, position, self._limits.line_bytes)

    def read(self, path: InputFile, start: int, end: int) -> Iterator[Item]:
        """Yield the lines of the range [start, end), as `ByteLines` does."""
        lines = ByteLines(path, start, end, self._limits)
        for number, (offset, line) in enumerate(lines, 1):
            locator, suffix = lines.locate(offset)
            item = self._make_item(line, locator, path)
            is_record = isinstance(item, RawRecord)
            if suffix and isinstance(item, RawRecord):
                item = item._replace(locator_type=item.locator_type + suffix)
            if lines.is_after_damage and not (is_record and self.self_delimiting):
                item = SkippedRecord("note", "resync")
            elif isinstance(item, SkippedRecord):
                item = replace(item, line=0 if start else number, size=lines.length)
            yield item

    def _make_item(self, line: Line, offset: int, path: InputFile) -> Item:
        if isinstance(line, Damage):
            return SkippedRecord.from_damage(line, offset)
        raw = line.removeprefix(_BOM) if offset == 0 else line
        if not raw or raw.isspace():
            return SkippedRecord("ignored", "blank_line")
        try:
            return self.parse(self.decode(raw, path), offset, len(line))
        except UnicodeDecodeError as error:
            return SkippedRecord("malformed", "bad_utf8", offset, str(error))

    @abstractmethod
    def parse(self, line: str, offset: int, length: int) -> Item:
        """Return the record of a line that is not blank; `length` is in bytes."""
