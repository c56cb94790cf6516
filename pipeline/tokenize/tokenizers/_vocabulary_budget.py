"""Shared by trained tokenizers: options, vocabulary budget, alphabet, special pieces."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

from pydantic import AfterValidator, Field

from clozeline.configuration.config import Positive, config_class
from clozeline.pipeline.tokenize.tokenizers._pieces import (
    SPECIAL_PIECES,
    sentinel_pieces,
    spare_pieces,
    special_pieces,
)
from clozeline.pipeline.tokenize.tokenizers._published import PublishedMetadata
from clozeline.pipeline.vocabulary import MODES, SENTINELS, SPECIALS


def _require_distinct(names: list[str]) -> list[str]:
    if len({*names, *special_pieces(0)}) < len(names) + len(special_pieces(0)):
        raise ValueError(
            "expected distinct names, none of them <pad>, <mask> or another special piece, got "
            f"{names}"
        )
    return names


SparePieces = Annotated[
    list[Annotated[str, Field(pattern=r"^<[^<>\s]{1,32}>$")]],
    Field(max_length=4096),
    AfterValidator(_require_distinct),
]


@config_class
class TrainingOptions:
    """Options of every trained tokenizer."""

    size: Annotated[int, Field(ge=1, le=2**31)] = 32000
    """vocabulary size, including special tokens, bytes and characters; smaller if the text is too
    short"""
    reserved: Annotated[int, Field(ge=0, le=4096)] | SparePieces = 16
    """spare special ids, 0 to 4096, or their names, such as the language tokens `[<de>, <en>]`"""
    sentinels: Annotated[int, Field(ge=0, le=SENTINELS)] = SENTINELS
    """number of sentinels, 0 to 128; span corruption replaces spans with them, and no other
    objective needs them"""
    modes: bool = True
    """add the mode tokens `<R>`, `<S>` and `<X>` of UL2"""

    def special_pieces(self) -> list[str]:
        """Return the special pieces in order of their ids, which start at 0."""
        return special_pieces(self.reserved, self.sentinels, modes=self.modes)

    def describe_reserved(self) -> str:
        """Return the number of special pieces by type; a type in backticks is a key of options."""
        amounts = {"sentinels": self.sentinels, "modes": len(MODES) * self.modes}
        amounts["reserved"] = len(spare_pieces(self.reserved))
        return ", ".join(
            [
                f"{len(SPECIALS)} special pieces",
                *(f"{number} `{key}`" for key, number in amounts.items() if number),
            ]
        )


@config_class
class FrequencyOptions(TrainingOptions):
    """Options of tokenizers that count pairs or words."""

    min_frequency: Positive = 2
    """minimum count of a pair (for the tokenizer `word`: of a word) to become a piece, at least
    1"""


def count_letters(words: Mapping[str, int], letters: Callable[[str], Sequence[str]]) -> list[str]:
    """Return the letters of words by frequency; equally frequent ones in order of appearance."""
    counts: dict[str, int] = {}
    for word, count in words.items():
        for letter in letters(word):
            counts[letter] = counts.get(letter, 0) + count
    return sorted(counts, key=counts.__getitem__, reverse=True)  # the sort is stable


def special_piece_roles(options: TrainingOptions, *, lower_case: bool = False) -> PublishedMetadata:
    """Return the roles of the special pieces."""
    return PublishedMetadata(
        specials=dict(SPECIAL_PIECES),
        sentinels=sentinel_pieces(options.sentinels),
        modes={mode: f"<{mode}>" for mode in MODES if options.modes},
        spares=spare_pieces(options.reserved),
        lower_case=lower_case,
    )
