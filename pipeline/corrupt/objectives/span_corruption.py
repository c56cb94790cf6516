"""Span corruption: replace spans with sentinels, and list the spans in the target (T5)."""

from bisect import bisect_left
from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from clozeline.arrays import Int64, UInt64
from clozeline.columns import IDS, ROW, Feature
from clozeline.configuration.config import Positive, added_later, config_class
from clozeline.pipeline.corrupt.objectives import Objective, RandomKeys
from clozeline.pipeline.corrupt.objectives._choice import PossibleChoices, one_row
from clozeline.pipeline.corrupt.objectives._denoising import (
    SourceHead,
    front_tokens,
    require_content_only,
)
from clozeline.pipeline.corrupt.objectives._groupings import GroupingName, check_grouping
from clozeline.pipeline.corrupt.objectives._masked_rows import MASKED_FEATURES, Separator
from clozeline.pipeline.corrupt.objectives._objective import DOCUMENT_FEATURES, LONGEST_ROW
from clozeline.pipeline.group.groupings import MinimumRow
from clozeline.pipeline.kernels.ragged import (
    IdSet,
    flatten_positions,
    insert_at,
    scalars,
    shift_starts,
    span_mask,
)
from clozeline.pipeline.kernels.rates import (
    MeanLength,
    Rate,
    count_at_rate,
    parts_per_million,
    span_count,
    thousandths,
)
from clozeline.pipeline.kernels.sampling import (
    choose_gaps,
    compose,
    exclusive_cumsum,
    list_indices,
    offsets_of,
    rows_of,
)
from clozeline.pipeline.kernels.spans import cap_lengths, clip_to_documents, count_noise_before
from clozeline.pipeline.rows import Example, Ragged, SampleBatch
from clozeline.pipeline.vocabulary import ADD_SPECIALS, SENTINELS, SentinelError, Vocabulary


class SpanCorruption(Objective):
    """Span corruption of T5 (arXiv 1910.10683 §3.1.4): a sentinel replaces each noise span.

    The target lists the spans. Of n tokens exactly k are noise: noise_density x n, rounded half up.
    They form S spans: k / mean_noise_span_length, rounded half up. Every division of the k tokens
    into S lengths is equally likely. The spans lie in distinct gaps between the n - k other tokens,
    so they never touch. Features: `input_ids` [n - k + S + 1], `target_ids` [k + S + 1].

    A decoder reads input and target in one row, `input_ids`, and `prefix_length` is the start of
    the target. With `attention: causal` the tokens of the target are stored as labels instead, and
    attention is causal.

    With `cross_documents: false` spans stay inside documents: a span that would cross a boundary
    keeps only its longest part. `document_starts` and `target_document_starts` are stored. The
    first document includes the mode token, the last one `</s>`.

    Example (noise_density 0.25, mean_noise_span_length 1: k = 2, S = 2):
        x       The puppies are frolicking outside the house .
        input   The puppies are <extra_0> outside <extra_1> house . </s>
        target  <extra_0> frolicking <extra_1> the </s>
    """

    architectures = ("encoder_decoder", "decoder")
    heads = ("lm",)
    has_sentinels = True
    minimum = MinimumRow(tokens=2)
    choices = PossibleChoices("[2-3, 6]")

    @config_class
    class Options:
        architecture: Literal["encoder_decoder", "decoder"] = "encoder_decoder"
        """`decoder` concatenates input and target in one row."""
        attention: Literal["prefix", "causal"] = "prefix"
        """Attention of a decoder in its input: `prefix` bidirectional, `causal` left-to-right."""
        noise_density: Rate = 0.15
        """Share of the tokens that are replaced."""
        mean_noise_span_length: MeanLength = 3.0
        """Mean length of a span in tokens."""
        input_length: Annotated[int, Field(ge=3)] = 512
        """Tokens in a full input, special tokens included."""
        target_length: Annotated[int, Field(ge=3)] | None = None
        """Most tokens in a target; none: no limit except `input_length`."""
        final_sentinel: bool = False
        """End the target with one more sentinel, as in the paper's figure; the released T5 models
        were trained without it."""
        mode: Literal["none", "R", "S", "X"] = "none"
        """Mode token in front of the input (UL2)."""
        grouping: GroupingName = "packed"
        """Grouping to read."""
        separator: Separator = added_later("none")
        cross_documents: bool = True
        """Let spans and attention cross documents in packed rows; false stores the document starts
        of both texts."""
        decoder_start: Literal["pad", "bos", "eos", "cls"] = "pad"
        """First token of the decoder's input; added when batches are built, never stored."""
        source_head: SourceHead = "none"
        """Special token in front of the input, before the mode token."""
        max_span_length: Positive | None = None
        """Tokens in the longest span; longer spans give tokens to the others. None: no limit."""

        def __post_init__(self) -> None:
            check_grouping(self)
            if not self.cross_documents and self.architecture != "encoder_decoder":
                raise ValueError("cross_documents: false is for packed rows of an encoder-decoder")
            if self.attention == "causal" and self.architecture != "decoder":
                raise ValueError(
                    "attention: causal needs architecture: decoder; an encoder attends to its "
                    "entire input"
                )

    options: Options

    def __init__(self, options: Options, vocabulary: Vocabulary, label: str | None = None) -> None:
        super().__init__(options, vocabulary, label)
        self._eos = self.last_token = self.id_of("eos")
        self.shares = {"spans": options.noise_density, "length": options.mean_noise_span_length}
        self._rate = parts_per_million(options.noise_density)
        self._mean = thousandths(options.mean_noise_span_length)

        if not 0 < self._rate < 1_000_000:
            raise self.refuse_options(
                f"noise_density {options.noise_density} must be above 0 and below 1"
            )

        self.front = front_tokens(self, options)
        self.decoder_start = self.id_of(options.decoder_start)
        self.predict_from = "previous" if options.attention == "causal" else "same"

        reserved = vocabulary.reserved.copy()
        if options.separator != "none":
            reserved[self.id_of(options.separator)] = False
        self._reserved = IdSet(reserved)
        self._sentinels = np.array(vocabulary.sentinels, dtype=vocabulary.id_dtype)
        self.grouping = self.make_grouping(options.grouping, self._longest_row(), options.separator)

        # there are enough sentinels for a full row; shorter rows never need more
        marks = int(self.count_spans(np.array([self.content_length]))[1][0])
        needed = marks + options.final_sentinel
        if needed > (have := len(self._sentinels)):
            remedies = [ADD_SPECIALS] if have < SENTINELS else []
            if needed > (most := max(have, SENTINELS)):
                longest = self._longest_input(most)
                remedies.insert(0, f"{most} are enough for input_length: {longest}")
            raise self.refuse_options(
                f"a row of {self.content_length} tokens has {marks} spans and needs {needed} "
                f"sentinels, the tokenizer has {have}; {', and '.join(remedies)}",
                SentinelError,
            )

        used = self._sentinels[:needed]
        if len(set(used.tolist())) < needed or not vocabulary.special[used].all():
            raise self.refuse_options("sentinels must be distinct special ids")

        # the features of each architecture
        inputs = Feature("input_ids", "ids", IDS, "text with a sentinel for each span, </s>")
        targets = Feature("target_ids", "ids", IDS, "each sentinel and its span, </s>")
        prefix = Feature("prefix_length", "uint16", ROW, "tokens of input_ids before the target")
        pair = (
            (inputs, targets) if options.cross_documents else (inputs, targets, *DOCUMENT_FEATURES)
        )
        joined = (
            (inputs, prefix) if options.attention == "prefix" else (inputs, *MASKED_FEATURES[1:])
        )
        self.features = pair if options.architecture == "encoder_decoder" else joined

    def _longest_input(self, sentinels: int) -> int:
        """Return the largest `input_length` for which so many sentinels are enough."""

        def needs_more(length: int) -> bool:
            other = copy(self)
            other.options = replace(self.options, input_length=length)
            return (
                int(other.count_spans(np.array([other._longest_row()]))[1][0])
                + self.options.final_sentinel
                > sentinels
            )

        # an input has a token for each sentinel
        lengths = range(sentinels, self.options.input_length)
        return lengths[bisect_left(lengths, True, key=needs_more) - 1]

    def longest_example(self, content: int) -> int:
        """Return the most ids of a side, or of both together in the row of a decoder."""
        sides = np.stack(self.side_lengths(np.arange(1, content + 1)))
        rows = sides.sum(0) if self.options.architecture == "decoder" else sides
        return int(rows.max())

    def count_spans(self, lengths: Int64) -> tuple[Int64, Int64]:
        """Return the noise tokens and the spans in rows of `lengths` content tokens."""
        noise = count_at_rate(lengths, self._rate, np.maximum(lengths - 1, 0))
        longest = self.options.max_span_length
        if longest is None:
            return noise, span_count(noise, self._mean, lengths - noise + 1)
        # as many tokens as spans of this length hold, one in each gap
        noise = np.minimum(noise, longest * (lengths + 1) // (longest + 1))
        gaps = lengths - noise + 1
        return noise, np.maximum(span_count(noise, self._mean, gaps), -(-noise // longest))

    def side_lengths(self, lengths: Int64) -> tuple[Int64, Int64]:
        """Return the tokens of input and target, special tokens included, for content lengths."""
        noise, marks = self.count_spans(lengths)
        inputs = lengths - noise + marks + 1 + len(self.front)
        return inputs, noise + marks + 1 + self.options.final_sentinel

    def _longest_row(self) -> int:
        """Return the content tokens of the longest row whose input and target fit."""
        # neither side gets shorter when the content gets longer
        lengths = np.arange(2, LONGEST_ROW + 1)
        inputs, targets = self.side_lengths(lengths)

        fits = inputs <= self.options.input_length
        if self.options.target_length is not None:
            fits &= targets <= self.options.target_length
        if not fits[0]:
            raise self.refuse_options(
                f"input_length {self.options.input_length} and target_length "
                f"{self.options.target_length or 'none'} are too small for two tokens of text"
            )

        if fits.all():
            raise self.refuse_options(
                f"input_length {self.options.input_length} allows rows of more than {LONGEST_ROW} "
                "tokens; lower it"
            )

        return int(lengths[np.argmin(fits) - 1])

    def corrupt_rows(self, samples: SampleBatch, random_keys: RandomKeys) -> Mapping[str, Ragged]:
        """Draw the spans, then insert sentinels into the other tokens and into the noise."""
        ids = samples.columns["ids"]
        require_content_only(ids, self._reserved, f"objective '{self.label}' ({self.name})")

        # spans: start in the row (ragged), size (flat), and flat start
        starts, sizes = self._draw_spans(random_keys.for_label(self.label), ids.lengths)
        begins = flatten_positions(starts, ids.offsets)
        columns = {}

        if not self.options.cross_documents:
            documents = samples.columns["document_starts"]
            bounds = flatten_positions(documents, ids.offsets)
            begins, sizes = clip_to_documents(begins, sizes, bounds)
            starts = Ragged(begins - np.repeat(ids.offsets[:-1], starts.lengths), starts.offsets)
            # document starts in input and target, from the spans and noise tokens before them
            before, tokens = count_noise_before(documents, starts, sizes)
            input_starts = Ragged(
                (documents.values - tokens + before).astype(np.uint16), documents.offsets
            )
            columns = {
                "document_starts": shift_starts(input_starts, len(self.front)),
                "target_document_starts": Ragged(
                    (tokens + before).astype(np.uint16), documents.offsets
                ),
            }

        # separate noise from the other tokens, and insert one sentinel per span into both
        noise = span_mask(len(ids.values), begins, sizes)
        sentinels = self._sentinels[list_indices(starts.lengths)]
        inputs = self._inputs(ids.lengths, ids.values.compress(~noise), starts, sizes, sentinels)
        targets = self._targets(ids.values.compress(noise), starts, sizes, sentinels)
        if self.options.architecture == "encoder_decoder":
            return {"input_ids": inputs, "target_ids": targets, **columns}

        # a decoder reads input and target in one row
        pairs = Ragged.concatenate((inputs, targets)).take(
            np.arange(2 * len(ids)).reshape(2, -1).T.reshape(-1)
        )
        joined = Ragged(pairs.values, pairs.offsets[::2])
        if self.options.attention == "prefix":
            return {"input_ids": joined, "prefix_length": scalars(inputs.lengths, np.uint16)}
        positions = np.repeat(inputs.lengths, targets.lengths) + list_indices(targets.lengths)
        labels = Ragged(positions.astype(np.uint16), targets.offsets)
        return {"input_ids": joined, "label_positions": labels, "label_ids": targets}

    def _draw_spans(self, keys: UInt64, lengths: Int64) -> tuple[Ragged, Int64]:
        """Draw the start of each span in its row, ascending, and its size."""
        if self.chosen is not None:
            chosen, chosen_sizes = self.chosen.token_spans(int(lengths[0]))
            most = len(self._sentinels) - self.options.final_sentinel
            if not chosen_sizes.all() or len(chosen) > most:
                raise self.refuse_options(f"choose: expected 1 to {most} spans of a token or more")
            return one_row(chosen), chosen_sizes
        noise, marks = self.count_spans(lengths)
        sizes = compose(keys, noise, marks)
        if self.options.max_span_length is not None:
            sizes = cap_lengths(sizes, self.options.max_span_length)
        gaps = choose_gaps(keys, lengths - noise, marks)
        return Ragged(
            gaps.values + exclusive_cumsum(sizes.values, sizes.offsets), gaps.offsets
        ), sizes.values

    def _inputs(
        self,
        lengths: Int64,
        kept: NDArray[Any],
        starts: Ragged,
        sizes: Int64,
        sentinels: NDArray[Any],
    ) -> Ragged:
        rows = rows_of(starts)
        marks = starts.lengths
        head = len(self.front)
        taken = np.bincount(rows, sizes, minlength=len(marks)).astype(np.int64)
        offsets = offsets_of(lengths - taken + marks + 1 + head)
        # a sentinel moves left by the noise before its span, and right by the sentinels before it
        within_row = starts.values - exclusive_cumsum(sizes, starts.offsets) + list_indices(marks)
        flat_positions = [within_row + offsets[rows] + head, offsets[1:] - 1]
        values = [sentinels, np.full(len(lengths), self._eos, dtype=kept.dtype)]
        for index, token in enumerate(self.front):
            flat_positions.append(offsets[:-1] + index)
            values.append(np.full(len(lengths), token, dtype=kept.dtype))

        return Ragged(
            insert_at(kept, np.concatenate(flat_positions), np.concatenate(values)), offsets
        )

    def _targets(
        self, taken: NDArray[Any], starts: Ragged, sizes: Int64, sentinels: NDArray[Any]
    ) -> Ragged:
        rows = rows_of(starts)
        marks = starts.lengths
        per_row = np.bincount(rows, sizes, minlength=len(marks)).astype(np.int64)
        offsets = offsets_of(per_row + marks + 1 + self.options.final_sentinel)
        within_row = exclusive_cumsum(sizes, starts.offsets) + list_indices(marks)
        flat_positions = [within_row + offsets[rows], offsets[1:] - 1]
        values = [sentinels, np.full(len(marks), self._eos, dtype=taken.dtype)]
        if self.options.final_sentinel:
            flat_positions.append(offsets[1:] - 2)
            values.append(self._sentinels[marks])

        return Ragged(
            insert_at(taken, np.concatenate(flat_positions), np.concatenate(values)), offsets
        )

    def _restore(self, example: Example) -> NDArray[np.generic]:
        """Replace each sentinel with its span; check the sentinels of input and target."""
        inputs = example["input_ids"]

        if self.options.architecture == "decoder":
            prefix = int(
                example[
                    "prefix_length" if self.options.attention == "prefix" else "label_positions"
                ][0]
            )
            inputs, targets = inputs[:prefix], inputs[prefix:]
        else:
            targets = example["target_ids"]

        for name, ids in (("input", inputs), ("target", targets)):
            if len(ids) == 0 or ids[-1] != self._eos:
                raise ValueError(f"the {name} does not end with </s>")

        # split input and target at the sentinels, and interleave the pieces
        content = inputs[len(self.front) : -1]
        marks = np.flatnonzero(np.isin(content, self._sentinels))
        expected = self._sentinels[: len(marks)]
        pieces = self._target_spans(targets[:-1], len(marks))

        if (content[marks] != expected).any():
            raise ValueError(
                f"sentinels of the input are {content[marks].tolist()}, expected "
                f"{expected.tolist()}"
            )

        kept = np.split(content, marks)
        parts = [kept[0]]
        for piece, after_sentinel in zip(pieces, kept[1:], strict=True):
            parts += [piece, after_sentinel[1:]]
        return self.add_special_tokens(np.concatenate(parts))

    def _target_spans(self, target: NDArray[np.generic], marks: int) -> list[NDArray[np.generic]]:
        sentinels = np.flatnonzero(np.isin(target, self._sentinels))
        needed = marks + self.options.final_sentinel
        expected = self._sentinels[:needed].tolist()
        pieces = [piece[1:] for piece in np.split(target, sentinels)[1:]]

        if target[sentinels].tolist() != expected or (needed and sentinels[0] != 0):
            raise ValueError(
                f"sentinels of the target are {target[sentinels].tolist()}, expected {expected}"
            )

        if any(len(piece) == 0 for piece in pieces[:marks]) or any(
            len(piece) for piece in pieces[marks:]
        ):
            raise ValueError("the target has an empty span, or tokens after the last span")

        return pieces[:marks]
