"""What the gallery corrupts, objective by objective. One that is not named here shows its defaults on a plain text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pipeline.objectives import Objective
from tools.gallery.words import Text

__all__ = ["EVERY_WORD", "Case", "cases_of", "texts_for"]

_KITTEN: Final = Text(("The kitten is chasing the ball .",))
_PUPPIES: Final = Text(("The puppies are frolicking outside the house .",))
_WORK: Final = Text(("Hard work leads to success .", "Success brings happiness ."))
_RAIN: Final = Text(("It is raining .", "I need an umbrella ."))
_APPLES: Final = Text(("Apples grow on trees .", "Birds eat worms ."))
_WHALES: Final = Text(("鲸鱼 是 哺乳 动物 。",), "Whales are mammals .")
_PIECES: Final = Text(("the un ##believ ##able cat sat",))
_FOOTBALL: Final = Text(("an American football game was played",))


@dataclass(frozen=True, slots=True)
class Case:
    """One example of an objective.

    Args:
        options: of the objective, where they are not the defaults.
        texts: documents to group, of which the first row is shown; none: those that its grouping needs.
        variant: which corruption of the row.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    texts: tuple[Text, ...] = ()
    variant: int = 0


_DOCUMENT: Final = {"grouping": "document"}
_SIDES: Final = {"architecture": "encoder_decoder"}

_CASES: Final[Mapping[str, tuple[Case, ...]]] = {
    "causal_lm": (Case(_DOCUMENT, (_KITTEN,)),),
    "composition": (
        Case({"steps": [{"name": "sentence_reordering"}, {"name": "text_infilling"}]}, (_WORK,), variant=1),
    ),
    "denoising_autoencoding": (Case({"rate": 0.25}),),
    "document_rotation": (Case({}, (_WORK,)),),
    "masked_encoder_decoder": (Case({"rate": 0.25}),),
    "masked_lm": (Case({**_DOCUMENT, "rate": 0.25}), Case({**_DOCUMENT, "rate": 0.25, "attention": "prefix"})),
    "mass": (Case({}, (_KITTEN,)), Case({"architecture": "encoder"}, (_KITTEN,), variant=1)),
    "prefix_lm": (Case(), Case(_SIDES)),
    "sentence_reordering": (Case({}, (_WORK,)),),
    "span_corruption": (
        Case({"input_length": 64, "rate": 0.25, "mean_length": 1.0}),
        Case({"architecture": "decoder", "input_length": 64, "rate": 0.5, "final_sentinel": True}),
    ),
    "text_infilling": (Case({"rate": 0.375}),),
    "token_deletion": (Case({"rate": 0.25}),),
    "token_reordering": (Case({}, (_KITTEN,)), Case({"distance": 2}, (_KITTEN,))),
}


EVERY_WORD: Final = tuple(
    words
    for text in (_KITTEN, _PUPPIES, _WORK, _RAIN, _APPLES, _WHALES, _PIECES, _FOOTBALL)
    for words in (*text.sentences, text.target)
)
"""What the vocabulary is made of: random replacements come from all texts."""


def texts_for(objective: Objective) -> tuple[Text, ...]:
    """Texts that an objective can corrupt."""
    by_grouping = {"sentence_pair": (_RAIN, _APPLES), "parallel": (_WHALES,)}
    plain = (_PUPPIES,) if objective.least_sentences == 1 else (_WORK,)
    return by_grouping.get(objective.grouping.name, plain)


def cases_of(name: str) -> tuple[Case, ...]:
    """The cases of an objective."""
    return _CASES.get(name, (Case(),))
