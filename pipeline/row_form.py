"""What the rows of an objective look like, for all who build batches or put texts into rows."""

from __future__ import annotations

from itertools import takewhile
from typing import Literal

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler
from pydantic.functional_serializers import model_serializer


class PartForm(BaseModel):
    """Facts of the rows of an objective, or of a part of a mixture. Tokens are ids."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    padding_side: Literal["right", "left"] = "right"
    decoder_start: int | Literal["target_end"] | None = None
    """first id of the decoder's input, or `target_end` for the last token of the row's target, as
    in `shift_tokens_right` of mBART; None for rows without a decoder input"""
    predict_from: Literal["same", "previous"] = "same"
    """the label at position i is predicted from position i (`same`) or i - 1 (`previous`)"""
    restarts_segments: bool = False
    """whether positions restart with the second segment"""
    predicts_next: bool = False
    """whether nothing is corrupted, and each token is predicted from those before it"""
    continues_text: bool = False
    """whether an encoder-decoder writes the text: the encoder reads `tail` alone, and the decoder
    `head` and the text"""
    is_fixed: bool = False
    """whether nothing is drawn: all variants of a row are the same"""
    has_sentinels: bool = False
    """whether sentinels stand for spans of the text"""
    head: tuple[int, ...] = ()
    """before the text of an input"""
    between: tuple[int, ...] = ()
    """between the two texts of a row; empty for rows of one text, or of many"""
    tail: tuple[int, ...] = ()
    """after the last text"""
    separator: int | None = None
    """before a text that does not begin its row, which a decoder reads as part of the row"""
    longest_input: int | None = None
    """most tokens of an input; None: no limit but the longest row of the set"""
    language_tokens: dict[str, int] = {}
    """the token of each language, which follows `tail` and starts the decoder's input"""

    @property
    def before_text(self) -> tuple[int, ...]:
        """Return what precedes a text: the head of its row, or else the separator."""
        return self.head or (() if self.separator is None else (self.separator,))

    @model_serializer(mode="wrap")
    def _omit_defaults(self, serialize: SerializerFunctionWrapHandler) -> dict[str, object]:
        fields: dict[str, object] = serialize(self)
        defaults = {name: field.default for name, field in type(self).model_fields.items()}
        del defaults["padding_side"], defaults["decoder_start"]  # always written
        return {
            key: value
            for key, value in fields.items()
            if getattr(self, key) != defaults.get(key, ())
        }


class RowForm(PartForm):
    """What rows look like; manifests record it as `frame`, without most facts that are defaults.

    Rows of a mixture whose parts differ have the tokens that all parts share, and the facts of each
    part in `parts`: what one part can answer is asked of the first that fits.
    """

    parts: tuple[PartForm, ...] = ()

    @property
    def each(self) -> tuple[PartForm, ...]:
        """Return the form of each part; of all rows, if they do not differ."""
        return self.parts or (self,)


def join_forms(forms: list[RowForm]) -> RowForm:
    """Return the form of rows of which each has one of these forms."""
    lengths = [form.longest_input for form in forms if form.longest_input is not None]
    longest = max(lengths) if len(lengths) == len(forms) else None
    parts = [PartForm(**form.model_dump() | {"longest_input": longest}) for form in forms]
    first = parts[0]
    if all(part == first for part in parts):
        return RowForm(**first.model_dump())
    shared = {
        name: value
        for name, value in first.model_dump().items()
        if all(getattr(part, name) == value for part in parts)
    }
    pairs = zip(*(part.head for part in parts), strict=False)
    alike = takewhile(lambda tokens: len(set(tokens)) == 1, pairs)
    return RowForm(**shared | {"head": tuple(token for token, *_ in alike), "parts": tuple(parts)})
