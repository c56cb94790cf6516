"""Texts and options of the examples; an objective without an entry shows its defaults."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from clozeline.pipeline.corrupt.objectives import Objective
from clozeline.pipeline.corrupt.preview.words import PreviewText

_KITTEN: Final = PreviewText(("The kitten is chasing the ball .",))
_PUPPIES: Final = PreviewText(("The puppies are frolicking outside the house .",))
_WORK: Final = PreviewText(("Hard work leads to success .", "Success brings happiness ."))
_RAIN: Final = PreviewText(("It is raining .", "I need an umbrella ."))
_APPLES: Final = PreviewText(("Apples grow on trees .", "Birds eat worms ."))
_WHALES: Final = PreviewText(("鲸鱼 是 哺乳 动物 。",), "Whales are mammals .")
_PIECES: Final = PreviewText(("the un ##believ ##able cat sat",))
_HELLO: Final = PreviewText(("Translate from Chinese to English: 你好 !",), "Hello !")
_FOOTBALL: Final = PreviewText(("an American football game was played",))


@dataclass(frozen=True, slots=True)
class Case:
    """One example: options, documents (empty: chosen by the grouping), and variant of the row."""

    options: Mapping[str, Any] = field(default_factory=dict)
    texts: tuple[PreviewText, ...] = ()
    variant: int = 0


_DOCUMENT: Final = {"grouping": "document"}
_SIDES: Final = {"architecture": "encoder_decoder"}
_TWO_PARTS: Final = {
    "parts": [
        {"name": "span_corruption", "mode": "R", "noise_density": 0.25, "input_length": 64},
        {"name": "prefix_lm", "mode": "S", "suffix_rate": 0.25, **_SIDES},
    ]
}

_CASES: Final[Mapping[str, tuple[Case, ...]]] = {
    "causal_lm": (
        Case(_DOCUMENT, (_KITTEN,)),
        Case({**_DOCUMENT, **_SIDES}, (_KITTEN,)),
        Case({**_DOCUMENT, "architecture": "encoder"}, (_KITTEN,)),
    ),
    "composition": (
        Case(
            {"steps": [{"name": "sentence_reordering"}, {"name": "text_infilling"}]},
            (_WORK,),
            variant=22,
        ),
    ),
    "corrective_lm": (Case({**_DOCUMENT, "mask_rate": 0.25}),),
    "denoising_autoencoding": (Case({"mask_rate": 0.25}, variant=5),),
    "document_rotation": (Case({}, (_WORK,)),),
    "masked_encoder_decoder": (
        Case({"mask_rate": 0.25}, variant=2),
        Case({"mask_rate": 0.375}, variant=19),
    ),
    "masked_lm": (
        Case({**_DOCUMENT, "mask_rate": 0.25}, variant=6),
        Case({**_DOCUMENT, "mask_rate": 0.375}, variant=22),
        Case({**_DOCUMENT, "mask_rate": 0.25, "attention": "prefix"}),
        Case(
            {
                **_DOCUMENT,
                "mask_rate": {"uniform": [0.0, 1.0]},
                "mask_share": 1.0,
                "random_share": 0.0,
            },
            variant=3,
        ),
    ),
    "mass": (
        Case({}, (_KITTEN,), variant=4),
        Case({"architecture": "encoder"}, (_KITTEN,), variant=1),
    ),
    "mixture": (Case(_TWO_PARTS, (_PUPPIES,)), Case(_TWO_PARTS, (_KITTEN,))),
    "next_sentence_prediction": (Case(variant=3), Case(variant=1)),
    "permuted_lm": (Case({**_DOCUMENT, "prediction_rate": 0.375}, variant=332),),
    "prefix_lm": (Case(variant=2), Case(_SIDES, variant=5)),
    "replaced_token_detection": (
        Case({**_DOCUMENT, "mask_rate": 0.25}),
        Case({**_DOCUMENT, "mask_rate": 0.25, "replacement": "uniform"}),
        Case({**_DOCUMENT, "mask_rate": 0.375, "replacement": "shuffle"}),
    ),
    "sentence_comparison": (Case({}, (_RAIN,)),),
    "sentence_order_prediction": (
        Case({"short_rate": 0.0}, (_RAIN,), variant=2),
        Case({"short_rate": 0.0}, (_RAIN,), 1),
    ),
    "sentence_reordering": (Case({}, (_WORK,)),),
    "span_boundary": (Case({**_DOCUMENT, "mask_rate": 0.5}, (_FOOTBALL,), variant=21),),
    "span_corruption": (
        Case({"input_length": 64, "noise_density": 0.25, "mean_noise_span_length": 1.0}, variant=7),
        Case(
            {
                "architecture": "decoder",
                "input_length": 64,
                "noise_density": 0.5,
                "final_sentinel": True,
            }
        ),
    ),
    "text_infilling": (Case({"noise_density": 0.375}),),
    "text_to_text": (Case({}, (_HELLO,)),),
    "token_deletion": (Case({"noise_density": 0.25}, variant=25),),
    "token_reordering": (
        Case({}, (_KITTEN,), variant=1572),
        Case({"noise_density": 0.3}, (_KITTEN,)),
    ),
    "translation_lm": (Case({"mask_rate": 0.4}, variant=4), Case({"mask_rate": 0.4})),
    "whole_word_masking": (Case({**_DOCUMENT, "mask_rate": 0.5}, (_PIECES,), variant=1),),
}

EVERY_WORD: Final = tuple(
    words
    for text in (_KITTEN, _PUPPIES, _WORK, _RAIN, _APPLES, _WHALES, _PIECES, _FOOTBALL, _HELLO)
    for words in (*text.sentences, text.target)
)
"""Texts whose words form the vocabulary: random replacements come from all texts."""


def texts_for(objective: Objective) -> tuple[PreviewText, ...]:
    """Return texts that an objective can corrupt."""
    by_grouping = {"sentence_pair": (_RAIN, _APPLES), "parallel": (_WHALES,)}
    default = (_PUPPIES,) if objective.minimum.sentences == 1 else (_WORK,)
    return by_grouping.get(objective.grouping.name, default)


def cases_of(name: str) -> tuple[Case, ...]:
    return _CASES.get(name, (Case(),))
