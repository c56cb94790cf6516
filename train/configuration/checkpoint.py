"""Configure when checkpoints are saved, and which are kept."""

import re
from collections.abc import Sequence
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field

from clozeline.configuration.config import Natural, Positive, config_class
from clozeline.configuration.described_keys import Common

StepChoice: TypeAlias = Natural | Literal["best"] | None
"""Step of a checkpoint to open; best: the one with the lowest loss on the first held-out set; None:
the newest."""
_MILESTONE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kMG]?)\s*(tokens|words)")
_UNIT_FACTORS: Final = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}


@config_class
class CheckpointConfig:
    """Saving and retention of checkpoints."""

    every: Annotated[Positive | Literal["auto"] | None, Common()] = "auto"
    """steps between checkpoints; the end of the run and a stop request always save; null: only
    those; auto: by time, first after a minute, then one a minute at most, and so rarely that saves
    take 2 % of the time at most"""
    at: tuple[str, ...] = ()
    """also save, and keep, the first step after so many words or tokens: [1M words, 10M tokens],
    with k, M or G"""
    tokens_per_word: Annotated[float, Field(gt=0.0)] | None = None
    """tokens per word of the training text, for words in `at`: clozeline tokenizer-report measures
    it"""
    keep_last: Annotated[Positive, Common()] = 2
    """newest checkpoints to keep"""
    keep_every: Positive | None = None
    """also keep every checkpoint whose step is a multiple of this"""
    keep_best: Annotated[bool, Common()] = False
    """also save the evaluated steps whose loss on the first held-out set is the lowest so far, and
    keep the best of them; needs a held-out set and evaluate.every"""
    asynchronous: bool = False
    """save in the background, from a copy that takes the memory of weights and optimizer state
    again"""
    allow_changed: tuple[str, ...] = ()
    """keys that may differ from the checkpoint's, for example [optimizer, data.seed]"""

    def __post_init__(self) -> None:
        _ = self.milestones
        if self.tokens_per_word is not None and not any(
            entry.endswith("words") for entry in self.at
        ):
            raise ValueError(
                "checkpoint.tokens_per_word: has no effect without words in checkpoint.at: remove "
                "the key, or give at entries such as 10M words"
            )

    @property
    def milestones(self) -> list[float]:
        """The tokens of each entry of `at`, ascending."""
        return milestone_tokens(self.at, self.tokens_per_word)

    def allow(self, *keys: str) -> str:
        """Return the word that lets further keys change, to be copied from a message."""
        return f"checkpoint.allow_changed=[{','.join((*self.allow_changed, *keys))}]"


def milestone_tokens(entries: Sequence[str], tokens_per_word: float | None) -> list[float]:
    """Convert entries such as "10M tokens" to numbers of tokens, ascending.

    Example: ["2k words"] at 1.5 tokens per word is [3000.0].
    """
    milestones = []

    for entry in entries:
        matched = _MILESTONE.fullmatch(entry)
        if matched is None:
            raise ValueError(
                f"checkpoint.at: expected entries such as 10M tokens or 1M words, got {entry!r}"
            )
        per_word = tokens_per_word if matched[3] == "words" else 1.0
        if per_word is None:
            raise ValueError(
                f"checkpoint.at: {entry} needs checkpoint.tokens_per_word, which `clozeline "
                "tokenizer-report` prints"
            )
        milestones.append(float(matched[1]) * _UNIT_FACTORS[matched[2]] * per_word)

    return sorted(milestones)
