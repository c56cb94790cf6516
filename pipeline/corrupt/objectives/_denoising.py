"""The base of denoising objectives: an encoder-decoder turns corrupted text into the original.

An objective also stores its noise, so that it can be undone. A composition runs several of them one
after another.
"""

import dataclasses
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from clozeline.arrays import Bool, Int64, UInt64
from clozeline.columns import IDS, Feature
from clozeline.configuration.config import config_class
from clozeline.pipeline.corrupt.objectives import Objective, RandomKeys
from clozeline.pipeline.corrupt.objectives._groupings import GroupingName
from clozeline.pipeline.kernels.ragged import IdSet, add_special_tokens
from clozeline.pipeline.kernels.rates import MILLION, count_at_rate, parts_per_million
from clozeline.pipeline.kernels.sampling import choose, list_indices, offsets_of
from clozeline.pipeline.rows import WORD_STARTS, Example, Ragged, SampleBatch
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.seeding import ORDERS

SourceHead = Literal["none", "bos", "cls"]
DecoderStart = Literal["pad", "bos", "eos", "cls"]

# Marks a token that the noise removed.
LOST = -1


@dataclasses.dataclass(frozen=True, slots=True)
class TokenRows:
    """Content tokens and sentence starts of many rows; offsets start at 0 (`trim`)."""

    ids: Ragged
    sentence_starts: Ragged
    opens_word: Bool | None = None
    """which tokens open a word, flat, by word starts from segmenters; None: by the pieces"""


def require_content_only(ids: Ragged, reserved: IdSet, wanted_by: str) -> None:
    """Raise ValueError if a row holds a reserved id, which only an objective may add."""
    if reserved.contains_any(ids.values):
        # the first reserved id: its flat position, and its row
        position = int(np.flatnonzero(reserved.mask(ids.values))[0])
        row = int(np.searchsorted(ids.offsets, position, side="right")) - 1
        raise ValueError(
            f"{wanted_by}: row {row} holds the reserved id {int(ids.values[position])} at position "
            f"{position - int(ids.offsets[row])}; expected text only: group with separator: none"
        )


def front_tokens(objective: Objective, options: Any) -> tuple[int, ...]:
    """Return the special tokens in front of an input: `source_head`, then the mode token."""
    head = () if options.source_head == "none" else (objective.id_of(options.source_head),)
    mode = objective.mode_id(options.mode)
    return head if mode is None else (*head, mode)


@config_class
class PairOptions:
    """Options that all denoising objectives share."""

    # Descriptions are given as arguments: docstrings of attributes do not reach inheriting classes.
    max_length: Annotated[
        int, Field(ge=3, description="Tokens in the longest input, special tokens included.")
    ] = 512
    grouping: Annotated[GroupingName, Field(description="Grouping to read.")] = "document"
    source_head: Annotated[
        SourceHead, Field(description="Special token in front of the input.")
    ] = "bos"
    decoder_start: Annotated[
        DecoderStart,
        Field(
            description="First token of the decoder's input; added when batches are built, never "
            "stored."
        ),
    ] = "eos"


class DenoisingPair(Objective):
    """An objective with `input_ids` (corrupted), `target_ids` (original) and features of noise.

    The input has special tokens around the text; the target ends with `</s>`.
    """

    architectures = ("encoder_decoder",)
    heads = ("lm",)
    noise_features: tuple[Feature, ...]
    composition_rank: ClassVar[int]
    """order in a composition: 0 sentences and rotation, 1 deletion and reordering of tokens, 2
    masking"""
    rate_option: ClassVar[str] = ""
    """name of the option with the share of noise, which must be above 0; empty: no such option"""

    def __init__(self, options: Any, vocabulary: Vocabulary, label: str | None = None) -> None:
        super().__init__(options, vocabulary, label)
        self._rate = (
            parts_per_million(getattr(options, self.rate_option)) if self.rate_option else MILLION
        )
        if self._rate == 0:
            raise self.refuse_options(f"{self.rate_option} 0 changes nothing; expected more than 0")
        head: SourceHead = options.source_head
        self.first_token = None if head == "none" else self.id_of(head)
        self._head_tokens = int(head != "none")
        self.last_token = self.id_of("eos")
        self.decoder_start = self.id_of(options.decoder_start)
        self.grouping = self.make_grouping(
            options.grouping, options.max_length - 1 - self._head_tokens
        )
        self._reserved = IdSet(vocabulary.reserved)

    @property
    def features(self) -> tuple[Feature, ...]:  # type: ignore[override]
        return (
            Feature("input_ids", "ids", IDS, "corrupted text with special tokens"),
            Feature("target_ids", "ids", IDS, "original text and </s>"),
            *self.noise_features,
        )

    @abstractmethod
    def add_noise(
        self, text: TokenRows, random_keys: RandomKeys
    ) -> tuple[Ragged, dict[str, Ragged]]:
        """Corrupt every row; return content ids and features of the noise.

        Rows that cannot be corrupted stay unchanged.
        """

    def sentence_starts_after(self, text: TokenRows, noise: Mapping[str, Ragged]) -> Ragged:
        """Return the sentence starts of `text` after this noise; by default they stay the same.

        Only compositions call it.
        """
        return text.sentence_starts

    def count_unchanged(self, noise: Mapping[str, Ragged]) -> int:
        """Count the rows that this noise left unchanged; skipped rows do not count."""
        return 0

    @abstractmethod
    def undo(self, content: Int64, noise: Mapping[str, NDArray[np.generic]], length: int) -> Int64:
        """Return the original of one row, with `LOST` where the noise removed a token.

        `content` are the corrupted tokens without special tokens, `LOST` where unknown. `length` is
        the number of tokens in the original.
        """

    def corrupt_rows(self, samples: SampleBatch, random_keys: RandomKeys) -> Mapping[str, Ragged]:
        """Apply the noise, then add special tokens."""
        ids = samples.columns["ids"]
        require_content_only(ids, self._reserved, f"objective '{self.label}' ({self.name})")
        has_words = self.reads_words and WORD_STARTS.name in samples.columns
        opens = self.opens_word(samples) if has_words else None
        corrupted, noise = self.add_noise(
            TokenRows(ids, samples.columns["sentence_starts"], opens), random_keys
        )
        return {
            "input_ids": add_special_tokens(corrupted, self.first_token, self.last_token),
            "target_ids": add_special_tokens(ids, None, self.last_token),
            **noise,
        }

    def _restore(self, example: Example) -> NDArray[np.generic]:
        """Return the target; check that undoing the noise of the input gives the same tokens."""
        original = example["target_ids"][:-1]
        content = example["input_ids"][self._head_tokens : -1].astype(np.int64)
        noise = {feature.name: example[feature.name] for feature in self.noise_features}
        restored = self.undo(content, noise, len(original))
        known = restored != LOST
        if len(restored) != len(original) or (restored[known] != original[known]).any():
            raise ValueError("input, noise and target of the example contradict each other")
        return self.add_special_tokens(original)


def permute_share(
    keys: UInt64, lengths: Int64, rate: int, permute: Callable[[UInt64, Int64, int], Ragged]
) -> Ragged:
    """Return an order of the entries of each row, in which a share of them is permuted.

    The share is `rate` parts per million, at least two entries.
    """
    if rate == MILLION:
        return permute(keys, lengths, ORDERS)

    # permute a subset among itself; all other entries keep their index
    moving = np.minimum(lengths, np.maximum(2, count_at_rate(lengths, rate)))
    chosen = choose(keys, lengths, moving)
    among = permute(keys, moving, ORDERS)
    order = Ragged(list_indices(lengths).astype(np.uint16), offsets_of(lengths))
    flat_positions = chosen.values + np.repeat(order.offsets[:-1], moving)
    order.values[flat_positions] = chosen.values[
        among.values + np.repeat(among.offsets[:-1], moving)
    ]
    return order
