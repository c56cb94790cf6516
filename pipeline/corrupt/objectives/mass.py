"""MASS: mask a fragment of the text for the encoder; the decoder predicts it."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from clozeline.columns import IDS, POSITIONS, Feature
from clozeline.configuration.config import config_class
from clozeline.pipeline.corrupt.objectives import Objective, RandomKeys
from clozeline.pipeline.corrupt.objectives._choice import KEEP, MASK, WORD, PossibleChoices
from clozeline.pipeline.corrupt.objectives._denoising import require_content_only
from clozeline.pipeline.corrupt.objectives._groupings import GroupingName
from clozeline.pipeline.corrupt.objectives._masked_rows import (
    MASKED_FEATURES,
    check_shares,
    restore_labels,
    role_shares,
)
from clozeline.pipeline.kernels.ragged import IdSet, add_special_tokens, scalars, span_mask
from clozeline.pipeline.kernels.rates import MILLION, Rate, count_at_rate, parts_per_million
from clozeline.pipeline.kernels.sampling import draw_replacements, offsets_of
from clozeline.pipeline.rows import Example, Ragged, SampleBatch
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.seeding import SLOTS, below, random_bits


class Mass(Objective):
    """Masked sequence-to-sequence pretraining of MASS (arXiv 1905.02450).

    Of the n tokens a fragment of k is corrupted in the encoder's row `[CLS] x [SEP]`: mask_rate x
    n, rounded half up, at least 1. Each token of the fragment becomes [MASK] or a random id, or
    stays unchanged.

    The decoder predicts only the fragment, `target_ids` [k], whose first token is at `target_start`
    in `input_ids` [n + 2]. It reads the token before the fragment, then the fragment shifted right,
    at the same positions as in the encoder. An encoder alone predicts the fragment as labels:
    `label_positions` and `label_ids` [k].

    Example (mask_rate 0.5, so 3 of 6; start 3; all become [MASK]):
        input   [CLS] The kitten [MASK] [MASK] [MASK] ball [SEP]
        target  is chasing the
    """

    architectures = ("encoder_decoder", "encoder")
    heads: ClassVar[tuple[str, ...]] = ("lm", "masked_lm")
    choices = PossibleChoices("[3-5]", (MASK, WORD, KEEP))

    @config_class
    class Options:
        architecture: Literal["encoder_decoder", "encoder"] = "encoder_decoder"
        """`encoder` stores the fragment as labels of a masked LM."""
        max_length: Annotated[int, Field(ge=3)] = 512
        """Tokens in a full row, [CLS] and [SEP] included."""
        mask_rate: Rate = 0.5
        """Share of the row's tokens in the fragment; at 1.0 the decoder is a language model without
        input."""
        mask_share: Rate = 0.8
        """Share of the fragment's tokens that become [MASK]."""
        random_share: Rate = 0.1
        """Share of the fragment's tokens that become a random id of the corpus; the other tokens
        stay unchanged."""
        edge_share: Rate = 0.0
        """Probability of a fragment at the start of the row, and again of one at its end
        (published: 0.2 each); 0 to 0.5."""
        grouping: GroupingName = "document"
        """Grouping to read."""

        def __post_init__(self) -> None:
            check_shares(self.mask_share, self.random_share)
            if self.mask_rate == 0:
                raise ValueError("mask_rate 0 leaves no fragment; expected more than 0")
            if 2 * parts_per_million(self.edge_share) > MILLION:
                raise ValueError(
                    f"edge_share {self.edge_share} applies to each of both ends; expected at most "
                    "0.5"
                )

    options: Options

    def __init__(self, options: Options, vocabulary: Vocabulary, label: str | None = None) -> None:
        super().__init__(options, vocabulary, label)
        cls = self.first_token = self.id_of("cls")
        self.last_token, self._mask = self.id_of("sep"), self.id_of("mask")
        self._reserved = IdSet(vocabulary.reserved)
        self.shares = role_shares(options)
        self._rate = parts_per_million(options.mask_rate)
        self._edge_ppm = parts_per_million(options.edge_share)
        self.grouping = self.make_grouping(options.grouping, options.max_length - 2)

        # the class lists the heads of both architectures, an instance the head of one
        head = "masked_lm" if options.architecture == "encoder" else "lm"
        self.heads = (head,)  # type: ignore[misc]
        if options.architecture == "encoder":
            self.features = MASKED_FEATURES
            return
        # [CLS] precedes a fragment at the start of the row, so it is the first token of the
        # decoder's input
        self.decoder_start = cls
        self.features = (
            Feature("input_ids", "ids", IDS, "framed row, the fragment corrupted"),
            Feature("target_ids", "ids", IDS, "the fragment"),
            Feature("target_start", "uint16", POSITIONS, "position of the fragment's first token"),
        )

    def corrupt_rows(self, samples: SampleBatch, random_keys: RandomKeys) -> Mapping[str, Ragged]:
        """Choose a fragment of each row, and corrupt it."""
        ids = samples.columns["ids"]
        keys = random_keys.for_label(self.label)
        require_content_only(ids, self._reserved, f"objective '{self.label}' ({self.name})")

        # draw the start of each fragment in its row, after [CLS]
        if self.chosen is None:
            taken = count_at_rate(ids.lengths, self._rate)
        else:
            tokens = self.chosen.fragment(len(ids.values))
            taken = np.array([len(tokens)])
        # drawn [rows, 2]: 32 random bits for the start, and 32 that decide about the edges
        drawn = random_bits(keys, SLOTS, 2) >> np.uint64(32)
        last = ids.lengths - taken
        starts = below(drawn[:, 0], (last + 1).astype(np.uint64))

        if self._edge_ppm:
            edge = below(drawn[:, 1], MILLION)
            starts = np.where(
                edge < self._edge_ppm, 0, np.where(edge < 2 * self._edge_ppm, last, starts)
            )

        if self.chosen is not None:
            starts = tokens[:1]
        starts = 1 + starts

        # cut the fragments out, and corrupt them
        rows = add_special_tokens(ids, self.first_token, self.last_token)
        inside = span_mask(len(rows.values), rows.offsets[:-1] + starts, taken)
        fragments = Ragged(rows.values.compress(inside), offsets_of(taken))
        if self.chosen is None:
            rows.values[inside] = draw_replacements(
                keys,
                fragments,
                mask=self._mask,
                replaceable=self.vocabulary.replaceable,
                mask_ppm=parts_per_million(self.options.mask_share),
                random_ppm=parts_per_million(self.options.random_share),
            )
        else:
            rows.values[inside] = self.chosen.replace(tokens, fragments.values, self._mask)

        if self.options.architecture == "encoder_decoder":
            return {
                "input_ids": rows,
                "target_ids": fragments,
                "target_start": scalars(starts, np.uint16),
            }

        positions = np.flatnonzero(inside) - np.repeat(rows.offsets[:-1], taken)
        labels = Ragged(positions.astype(np.uint16), fragments.offsets)
        return {"input_ids": rows, "label_positions": labels, "label_ids": fragments}

    def _restore(self, example: Example) -> NDArray[np.generic]:
        if self.options.architecture == "encoder":
            return restore_labels(example)
        original = example["input_ids"].copy()
        fragment = example["target_ids"]
        start = int(example["target_start"][0])
        if not 1 <= start <= len(original) - 1 - len(fragment):
            raise ValueError(
                f"a fragment of {len(fragment)} tokens at {start} does not fit between the special "
                f"tokens of a row of {len(original)} tokens"
            )

        original[start : start + len(fragment)] = fragment
        return original
