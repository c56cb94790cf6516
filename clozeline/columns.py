"""Declare columns of shard sets and tensors of batches.

An objective or a task declares a column as a `Feature`, whose `Role` the manifest stores. The
tensors of a batch that follow from a role are `BatchField`s. Heads and families declare the fields
that they read by the same objects, so that batches, padding, checks and views agree on them.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

from clozeline.errors import ConfigurationError, IntegrityError

IGNORED: Final = -100
"""Label id without loss, as in torch's cross entropy; it is not counted."""

Use: TypeAlias = Literal["ids", "position", "start", "label", "row", "weight", "undo"]
Stored: TypeAlias = Literal["ids", "uint8", "uint16", "uint32", "float32"]
Bound: TypeAlias = Literal["", "vocabulary", "languages", "classes"]
FieldBound: TypeAlias = Bound | Literal["tokens", "length", "choices"]
Per: TypeAlias = Literal["token", "choice", "row", "text", "segment", "label", "entry", "batch"]


@dataclass(frozen=True, slots=True)
class BatchField:
    """A tensor of a batch.

    `per` says what has an entry. B is the number of rows of `input_ids`; with multiple choice,
    these are the choices of all rows:
        token    a token of the padded rows [B, T]
        choice   a row of `input_ids` [B]
        row      a row of the set [rows], or [rows, n]
        text     a token of a further text of each row [rows, width], padded
        segment  a part or value of a row, of which there are several [rows, most], padded
        label    a label [N], or [N, n], in the order of `label_index`
        entry    a position that the column `of` names [M], in the order of the rows
        batch    the batch; no axis belongs to rows
    """

    name: str
    per: Per
    dtype: Literal["int64", "int32", "float32", "bool"] = "int64"
    filler: float = 0
    """value of padding, and of a row or label without a value; losses ignore it"""
    below: int | FieldBound = ""
    """upper bound of values: a number, or the size of this; `tokens`: a flat index into the padded
    rows, `length`: an index into the row"""
    of: str = ""
    """the column of positions or starts for whose entries it has an entry"""


@dataclass(frozen=True, slots=True)
class Role:
    """Purpose of a list column.

    Batches, checks and views depend on it alone.

    `use` is one of:
        ids       token ids with special tokens
        position  positions in the column `of`, without repetition; positions of labels ascend
        start     positions in the column `of` at which its parts start, from 0, ascending
        label     one value per entry of the column `of`; without `of`, by the column's own rule
        row       one value for the row
        weight    one factor of the row's loss
        undo      for `restore`, scores or people; batches omit it
    """

    use: Use
    of: str = ""
    head: str = ""
    """the only head that learns from it; empty: the body of the model, or every head"""
    below: int | Bound = ""
    """upper bound of values: a number, or the size of this; empty: no bound"""
    fraction: bool = False
    """true if values are fractions, not integers"""

    def __post_init__(self) -> None:
        is_known = self.use in get_args(Use) and (
            isinstance(self.below, int) or self.below in get_args(Bound)
        )
        if not is_known or (self.use in ("position", "start") and not self.of):
            uses = ", ".join(get_args(Use))
            bounds = ", ".join(get_args(Bound)[1:])
            raise ValueError(
                f"expected a use of {uses}, positions and starts with `of`, and below a number or "
                f"{bounds}, got {self!r}"
            )

    def refuse_ignored(self, name: str, values: Any) -> None:
        """Refuse fractions in an array that a head would take for no value.

        This is -100 in a label, and NaN in a row. Whole numbers are never negative.

        Raises:
            IntegrityError: a value is one.
        """
        ignored = {"label": values == IGNORED, "row": values != values}.get(self.use)
        if self.fraction and ignored is not None and ignored.any():
            raise IntegrityError(
                f"column {name}: {values[ignored][0]:g} says that a {self.use} has no value, and "
                "losses ignore it; shift or scale the values, or store none there"
            )

    def __str__(self) -> str:
        return f"{self.use}({self.of})" if self.of else self.use

    def fields(
        self, name: str, roles: "Mapping[str, Role]" = MappingProxyType({})
    ) -> tuple[BatchField, ...]:
        """Return the tensors of a column of this name; a further text also has its lengths.

        `roles` are the roles of the set's columns, one of which `of` may name.
        """
        if self.use == "ids":
            ids = BatchField(name, "text", below="vocabulary")
            return ids, BatchField(f"lengths_{name}", "row", of=name)

        dtype: Literal["int64", "float32"] = (
            "float32" if self.fraction or self.use == "weight" else "int64"
        )
        in_text = self.of == INPUT_IDS.name
        if self.use == "row":
            missing = math.nan if self.fraction else IGNORED
            return (BatchField(name, "row", dtype, missing if self.head else 0, self.below),)

        if self.use == "weight":
            return (BatchField(name, "row", dtype, 1),)
        if self.use == "position":
            return (BatchField(name, "entry", below="tokens" if in_text else "", of=name),)
        if self.use == "start":
            return (BatchField(name, "token" if in_text else "text", of=self.of),)
        if self.use == "undo":
            return ()

        # a label has an entry for each entry of the column `of`
        of = roles.get(self.of) or next(iter(COLUMNS.get(self.of, ())), None)
        per: Per = "token" if in_text else "segment"
        if of is not None and of.use == "position":
            per = "label" if self.of in LABELED else "entry"
        return (BatchField(name, per, dtype, 0 if self.fraction else IGNORED, self.below, self.of),)


IDS: Final = Role("ids")
ROW: Final = Role("row")
WEIGHT: Final = Role("weight")
UNDO: Final = Role("undo")
POSITIONS: Final = Role("position", "input_ids")
STARTS: Final = Role("start", "input_ids")


@dataclass(frozen=True, slots=True)
class Feature:
    """A list column that an objective, a task or a grouping declares and a manifest records.

    `dtype` "ids" means uint16 for vocabularies up to 65,536 entries, else uint32; weights are
    float32, all other values unsigned integers. A scalar is stored as a list of one value.

    Raises:
        ConfigurationError: Clozeline uses the name for something else.
    """

    name: str
    dtype: Stored
    role: Role
    description: str

    def __post_init__(self) -> None:
        refuse_reserved(self.name, self.role)
        if self.dtype not in (known := get_args(Stored)):
            raise ConfigurationError(
                f"column {self.name}: expected a type of {', '.join(known)}, got {self.dtype!r}: "
                "store numbers with a sign as float32"
            )

    @property
    def stored_role(self) -> Role:
        """The role completed by the type: ids are below the vocabulary size, floats fractions."""
        role = replace(self.role, fraction=self.dtype == "float32")
        return replace(role, below="vocabulary") if self.dtype == "ids" else role

    @property
    def fields(self) -> tuple[BatchField, ...]:
        """The tensors of batches, for a head or family that reads them."""
        return self.stored_role.fields(self.name)


class TextFields(NamedTuple):
    """Fields of a text that a stack reads: of the row, the decoder, or a second view of the row."""

    ids: BatchField
    positions: BatchField
    lengths: BatchField


INPUT_IDS: Final = BatchField("input_ids", "token", below="vocabulary")
POSITION_IDS: Final = BatchField("position_ids", "token")
LENGTHS: Final = BatchField("lengths", "choice")
ROW_TEXT: Final = TextFields(INPUT_IDS, POSITION_IDS, LENGTHS)
DECODER_TEXT: Final = TextFields(
    BatchField("decoder_input_ids", "text", below="vocabulary"),
    BatchField("decoder_position_ids", "text"),
    BatchField("decoder_lengths", "choice"),
)
SECOND_VIEW: Final = TextFields(
    BatchField("input_ids_b", "text", below="vocabulary"),
    BatchField("position_ids_b", "text"),
    BatchField("lengths_b", "row"),
)
TEXTS: Final = (ROW_TEXT, DECODER_TEXT, SECOND_VIEW)
ROW_WEIGHT: Final = BatchField("row_weight", "row", "float32", 1)
CHOICES: Final = BatchField("choices", "row", filler=1)
TYPE_IDS: Final = BatchField("type_ids", "token")
RANK: Final = BatchField("rank", "token")
LABEL_INDEX: Final = BatchField("label_index", "label", below="tokens")
LABEL_IDS: Final = BatchField("label_ids", "label", filler=IGNORED, below="vocabulary")
SAMPLE_WORDS: Final = BatchField("sample_words", "label", below=1 << 32)
TEACHER: Final = (
    BatchField("teacher_ids", "label"),
    BatchField("teacher_weights", "label", "float32"),
)

FIELDS: Final[Mapping[str, BatchField]] = {
    each.name: each
    for each in (
        *(each for text in TEXTS for each in text),
        *(ROW_WEIGHT, CHOICES, TYPE_IDS, RANK, LABEL_INDEX, LABEL_IDS, SAMPLE_WORDS, *TEACHER),
        BatchField("objective", "row"),
        BatchField("attention", "choice", below=4),
        BatchField("prefix_length", "choice", below="length"),
        BatchField("left_padding", "choice", below="length"),
        BatchField("languages", "token", below="languages"),
        BatchField("segment_ids", "token"),
        BatchField("document_ids", "token"),
        BatchField("decoder_document_ids", "text"),
        *(BatchField(name, "batch", "int32") for name in ("cu_seqlens", "decoder_cu_seqlens")),
        *(BatchField(name, "batch") for name in ("max_seqlen", "decoder_max_seqlen")),
        BatchField("label_weight", "label", "float32"),
        BatchField("label_count", "row"),
        # of the model itself
        *(
            BatchField(name, "batch")
            for name in ("real_index", "choice_rows", "predicted_positions", "hidden_b")
        ),
    )
}
"""Tensors that Clozeline builds itself: for batches, in the engine, and in the model."""

LABELED: Final = ("label_positions", "prediction_order", "tag_positions")
"""Columns with the positions of the labels of a row."""
COLUMNS: Final[Mapping[str, tuple[Role, ...]]] = {
    **dict.fromkeys(("input_ids", "target_ids", "input_ids_b"), (Role("ids", below="vocabulary"),)),
    **dict.fromkeys(
        ("label_positions", "prediction_order", "target_start", "tag_positions"), (POSITIONS,)
    ),
    **dict.fromkeys(("label_weight", "label_count"), (WEIGHT,)),
    **dict.fromkeys(("document_starts", "segment_starts", "choice_starts"), (STARTS,)),
    "target_document_starts": (Role("start", "target_ids"),),
    "label_ids": (Role("label", "label_positions", below="vocabulary"),),
    **dict.fromkeys(("prefix_length", "choice"), (ROW,)),
    "attention": (Role("row", below=4),),
    "languages": (
        Role("row", below="languages"),
        Role("label", "segment_starts", below="languages"),
    ),
    "teacher_ids": (Role("label", below="vocabulary"),),
    "teacher_weights": (Role("label"),),
    "tags": (Role("label", "tag_positions", below="classes"),),
}
"""Columns of examples that define tensors together with others, with their possible roles."""
_SAMPLE_IDS: Final = "ids"
"""Column of the text of a sample, which becomes `input_ids` of an example."""


def names_of(fields: Iterable[BatchField]) -> frozenset[str]:
    """Return the names of fields."""
    return frozenset(field.name for field in fields)


def refuse_reserved(name: str, role: Role) -> None:
    """Raise ConfigurationError if Clozeline uses the name of a column for another purpose.

    Raises:
        ConfigurationError: see above.
    """
    if role.use == "undo":
        return
    remedy = "give the column another name"

    if (known := COLUMNS.get(name)) is not None:
        of = {_SAMPLE_IDS: INPUT_IDS.name}.get(role.of, role.of)
        if (role.use, of) not in [(each.use, each.of) for each in known]:
            expected = (
                f"expected the role {' or '.join(map(str, known))} of Clozeline's column of this "
                "name"
            )
            raise ConfigurationError(f"column {name}: {expected}, got {role}; {remedy}")
    elif name in FIELDS:
        raise ConfigurationError(
            f"column {name}: batches make a tensor of this name themselves; {remedy}"
        )
