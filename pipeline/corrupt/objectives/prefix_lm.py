"""Prefix language modeling: continue a text after a prefix with bidirectional attention."""

from collections.abc import Mapping
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from clozeline.arrays import Int64
from clozeline.columns import IDS, ROW, Feature
from clozeline.configuration.config import config_class
from clozeline.configuration.unread_keys import refuse_unread_keys
from clozeline.pipeline.corrupt.objectives import Objective, RandomKeys
from clozeline.pipeline.corrupt.objectives._choice import PossibleChoices
from clozeline.pipeline.corrupt.objectives._denoising import SourceHead, front_tokens
from clozeline.pipeline.corrupt.objectives._groupings import GroupingName, check_grouping
from clozeline.pipeline.corrupt.objectives._objective import DOCUMENT_FEATURES
from clozeline.pipeline.group.groupings import MinimumRow
from clozeline.pipeline.kernels.ragged import add_special_tokens, scalars, shift_starts
from clozeline.pipeline.kernels.rates import Rate, count_at_rate, parts_per_million
from clozeline.pipeline.kernels.sampling import offsets_of
from clozeline.pipeline.rows import Example, Ragged, SampleBatch, segments
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.seeding import LABELS, below, random_bits


class PrefixLM(Objective):
    """Prefix LM of T5 (arXiv 1910.10683 §3.2.1) and UniLM (arXiv 1905.03197).

    A row of n tokens is cut once, at p; every cut is equally likely. With `suffix_rate` it is UL2's
    S denoiser, whose targets are shorter. For a decoder the row stays in one piece, `x </s>`, and
    `prefix_length` counts the tokens with bidirectional attention and without loss. For an
    encoder-decoder, `input_ids` [p + 1] and `target_ids` [n - p + 1] are the two parts, each with
    `</s>`.

    Example (p = 4):
        x       The puppies are frolicking outside the house .
        input   The puppies are frolicking </s>
        target  outside the house . </s>
    """

    architectures = ("decoder", "encoder_decoder")
    heads = ("lm",)
    minimum = MinimumRow(tokens=2)
    choices = PossibleChoices("[3]")

    @config_class
    class Options:
        architecture: Literal["decoder", "encoder_decoder"] = "decoder"
        """Model that reads the rows."""
        max_length: Annotated[int, Field(ge=3)] = 512
        """Tokens in a full row of a decoder, or at most in input and target of an encoder-decoder;
        special tokens included."""
        suffix_rate: Rate | None = None
        """Mean share of the target (UL2: 0.25): each length in 1 .. 2 x rate x n - 1 is equally
        likely. None: every cut is equally likely."""
        mode: Literal["none", "R", "S", "X"] = "none"
        """Mode token in front of the row or input (UL2: S)."""
        grouping: GroupingName = "packed"
        """Grouping to read."""
        separator: Literal["none", "sep", "eos"] = "none"
        """Special token between the documents of packed rows."""
        cross_documents: bool = True
        """Let attention and loss cross documents in packed rows; false stores `document_starts`."""
        decoder_start: Literal["pad", "bos", "eos", "cls"] = "pad"
        """First token of the decoder's input, for an encoder-decoder."""
        source_head: SourceHead = "none"
        """Special token in front of the row or input, before the mode token."""

        def __post_init__(self) -> None:
            if self.suffix_rate == 0:
                raise ValueError("suffix_rate 0 leaves no target; expected more than 0, or none")
            check_grouping(self)
            if not self.cross_documents and self.architecture != "decoder":
                raise ValueError("cross_documents: false is for packed rows of a decoder")
            refuse_unread_keys(self, "architecture", {"encoder_decoder": ("decoder_start",)})

    options: Options

    def __init__(self, options: Options, vocabulary: Vocabulary, label: str | None = None) -> None:
        super().__init__(options, vocabulary, label)
        decoder = options.architecture == "decoder"
        self._eos = self.last_token = self.id_of("eos")
        self.draws_evenly = options.suffix_rate is None
        self.front = front_tokens(self, options)
        self._suffix_ppm = (
            None if options.suffix_rate is None else parts_per_million(options.suffix_rate)
        )

        self.grouping = self.make_grouping(options.grouping, self._longest_row(), options.separator)

        if self.minimum.tokens > self.content_length:
            raise self.refuse_options(
                f"max_length {options.max_length} is too small for two tokens of text"
            )

        self.decoder_start = None if decoder else self.id_of(options.decoder_start)

        inputs = Feature("input_ids", "ids", IDS, "the row" if decoder else "the prefix, </s>")

        if decoder:
            other = Feature(
                "prefix_length",
                "uint16",
                ROW,
                "tokens of input_ids with bidirectional attention, without loss",
            )
        else:
            other = Feature("target_ids", "ids", IDS, "the text after the prefix, </s>")

        self.features = (
            (inputs, other) if options.cross_documents else (inputs, other, DOCUMENT_FEATURES[0])
        )

    def _longest_row(self) -> int:
        """Return the content tokens of a full row, both sides of which fit at every cut."""
        options = self.options
        head = len(self.front)
        if options.architecture == "decoder":
            return options.max_length - 1 - head
        longest_input = options.max_length - head
        if self._suffix_ppm is None:
            return longest_input
        lengths = np.arange(1, longest_input + 1)
        fits = self._longest_target(lengths) < options.max_length
        return int(lengths[fits][-1]) if fits.any() else 0

    def _longest_target(self, lengths: Int64) -> Int64:
        """Return the maximum number of content tokens after the cut."""
        if self._suffix_ppm is None:
            return lengths - 1
        return np.clip(2 * count_at_rate(lengths, self._suffix_ppm) - 1, 1, lengths - 1)

    def draw_prefix_lengths(self, keys: NDArray[np.uint64], lengths: Int64) -> Int64:
        """Draw the number of content tokens before the cut, for rows of `lengths` tokens."""
        if self.chosen is not None:
            last = self.chosen.number(1, int(lengths[0]) - 1, "the last token of the prefix")
            return np.array([last])
        longest = self._longest_target(lengths)
        drawn = random_bits(keys, LABELS, 1)[:, 0] >> np.uint64(32)
        return lengths - longest + below(drawn, longest.astype(np.uint64))

    def corrupt_rows(self, samples: SampleBatch, random_keys: RandomKeys) -> Mapping[str, Ragged]:
        """Add special tokens; cut the rows for an encoder-decoder."""
        ids = samples.columns["ids"]
        rows = add_special_tokens(ids, None, self._eos)
        for token in reversed(self.front):
            rows = add_special_tokens(rows, token, None)
        head = len(self.front)
        prefixes = self.draw_prefix_lengths(random_keys.for_label(self.label), ids.lengths) + head

        if self.options.architecture == "encoder_decoder":
            # one more token of input, overwritten by `</s>`
            inputs = Ragged(
                segments(rows.values, rows.offsets[:-1], prefixes + 1), offsets_of(prefixes + 1)
            )
            inputs.values[inputs.offsets[1:] - 1] = self._eos
            target_lengths = rows.lengths - prefixes
            targets = Ragged(
                segments(rows.values, rows.offsets[:-1] + prefixes, target_lengths),
                offsets_of(target_lengths),
            )
            return {"input_ids": inputs, "target_ids": targets}

        columns = {"input_ids": rows, "prefix_length": scalars(prefixes, np.uint16)}
        if not self.options.cross_documents:
            columns["document_starts"] = shift_starts(samples.columns["document_starts"], head)
        return columns

    def _restore(self, example: Example) -> NDArray[np.generic]:
        first = len(self.front)
        inputs = example["input_ids"][first:]

        if self.options.architecture == "decoder":
            if not first < int(example["prefix_length"][0]) < len(example["input_ids"]):
                raise ValueError(
                    f"prefix_length {example['prefix_length'].tolist()} lies outside the row of "
                    f"{len(example['input_ids'])} tokens"
                )
            return inputs.copy()

        targets = example["target_ids"]
        if (
            len(inputs) == 0
            or len(targets) == 0
            or {int(inputs[-1]), int(targets[-1])} != {self._eos}
        ):
            raise ValueError("input and target must both end with </s>")

        return np.concatenate((inputs[:-1], targets))
