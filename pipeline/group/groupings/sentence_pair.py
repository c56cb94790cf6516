"""Sentence pair: windows of several sentences, each with a partner from another document."""

from typing import Annotated, ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from clozeline.arrays import Int64, UInt64
from clozeline.columns import IDS, UNDO, Feature
from clozeline.configuration.config import config_class
from clozeline.pipeline.group.groupings import (
    Context,
    GroupedRows,
    Grouping,
    MinimumRow,
    PartOptions,
    Starts,
)
from clozeline.pipeline.kernels.ragged import flatten_positions, starts_in_rows
from clozeline.pipeline.kernels.rates import MILLION, Rate, parts_per_million
from clozeline.pipeline.kernels.sampling import offsets_of
from clozeline.pipeline.rows import Ragged, RowBatch, segments
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.seeding import LABELS, LENGTHS, below, kernel_keys, random_bits

# Most documents with other text that are searched for a partner.
_MOST_CANDIDATES: Final = 16
_HALF_BITS: Final = np.uint64(32)


class SentencePairGrouping(Grouping):
    """Windows of `length` tokens of a document; with probability `short_rate` of 2 to `length`.

    A window ends at its last token, also inside a sentence, and the next one starts there. A window
    of t tokens gets a partner: t - 1 tokens from a sentence start of another document, which
    enough tokens follow. The next 16 documents with other text are searched for it. If all
    of them are too short, the longest one is the partner. A window of one sentence gives no row,
    but its text may be a partner.

    Example (length 6, documents a b c | d e f and g | h i j k | l):
        ids a b c d e f, sentence_starts 0 3, partner_ids g h i j k (the only start that 5 tokens
        follow)
    """

    least_sentences = 2
    second_text: ClassVar = "partner"

    @config_class
    class Options(PartOptions):
        length: Annotated[int, Field(ge=2)]
        """Most tokens in a window."""
        short_rate: Rate = 0.1
        """Share of windows that are shorter; each length from 2 tokens on is equally likely."""
        partner: bool = True
        """Give each window a partner from another document."""
        complete_sentences: bool = False
        """End a partner at its last complete sentence, if it has one."""

    options: Options

    def __init__(self, options: Options, vocabulary: Vocabulary) -> None:
        super().__init__(options, vocabulary)
        self._short = parts_per_million(options.short_rate)
        columns = (
            Feature("ids", "ids", IDS, "tokens of the window"),
            self.starts_feature("sentence_starts", "row indices of sentence starts, first 0"),
        )

        partner = (
            Feature("partner_ids", "ids", IDS, "tokens of another document, from a sentence start"),
            Feature("partner_document_uid", "uint8", UNDO, "the 16 bytes of that document's uid"),
            Feature(
                "partner_offset",
                "uint32",
                UNDO,
                "offset of the partner's first token in that document",
            ),
        )

        self.columns = (*columns, *partner) if options.partner else columns

    def group(self, documents: RowBatch, minimum: MinimumRow, context: Context) -> GroupedRows:
        """Cut each document, then look for partners."""
        filled = self.drop_empty(documents)
        tokens = filled.columns["token_ids"]
        sentences = filled.columns["sentence_starts"]
        values = tokens.values.astype(self.vocabulary.id_dtype, copy=False)
        flat_positions = flatten_positions(sentences, tokens.offsets)

        def ends(starts: Starts, full: Int64) -> Int64:
            drawn = random_bits(_keys(starts.uids, context), LENGTHS, 2) >> _HALF_BITS
            shorter = 2 + below(drawn[:, 1], np.maximum(full - 1, 1).astype(np.uint64))
            lengths = np.where(
                below(drawn[:, 0], MILLION) < self._short, np.minimum(shorter, full), full
            )
            return starts.offset + lengths

        # cut the documents into windows
        starts, parts = self.windows(filled, context, ends)
        offsets = np.append(tokens.offsets[starts.first] + starts.offset, tokens.offsets[-1])
        sentence_starts = starts_in_rows(flat_positions, offsets, self.columns[1].dtype)

        # drop windows without a second sentence, or all of them if there is no other document
        lengths = np.diff(offsets)
        required = MinimumRow(max(2, minimum.tokens), max(self.least_sentences, minimum.sentences))
        kept, dropped = required.filter(lengths, lengths, sentence_starts.lengths)
        uids = filled.fixed["document_uid"]
        if self.options.partner and kept.any() and (uids == uids[:1]).all():
            dropped["no_partner"] = int(lengths[kept].sum())
            kept[:] = False

        # the columns of the other windows, with their partners
        chosen = np.flatnonzero(kept)
        starts = starts.take(chosen)
        lengths = lengths[chosen]
        words = self.word_starts(filled, tokens.offsets, offsets)
        columns = {
            "ids": Ragged(values, offsets).take(chosen),
            "sentence_starts": sentence_starts.take(chosen),
        }
        if self.options.partner:
            columns |= self._partners(filled, flat_positions, starts, lengths, context)
        columns |= {name: column.take(chosen) for name, column in words.items()}
        rows = starts.sample_rows(filled, columns, parts[chosen])
        return GroupedRows(rows, self.count_tokens(documents, int(lengths.sum()), dropped))

    def _partners(
        self,
        documents: RowBatch,
        flat_positions: Int64,
        starts: Starts,
        lengths: Int64,
        context: Context,
    ) -> dict[str, Ragged]:
        """Return the columns of the partners of windows of these lengths."""
        tokens = documents.columns["token_ids"]
        need = lengths - 1
        document, choices = _partner_documents(documents, flat_positions, starts.first, need)

        # draw one of the sentence starts that enough tokens follow
        bits = random_bits(_keys(starts.uids, context), LABELS, 1)[:, 0] >> _HALF_BITS
        drawn = below(bits, np.maximum(choices, 1).astype(np.uint64))
        begin = tokens.offsets[document]
        position = flat_positions[
            np.searchsorted(flat_positions, begin) + np.where(choices > 0, drawn, 0)
        ]
        sizes = np.minimum(need, tokens.offsets[document + 1] - position)
        if self.options.complete_sentences:
            # the last sentence end in the partner; a sentence ends where the next one starts
            ends = np.append(flat_positions, tokens.offsets[-1])
            last = ends[np.searchsorted(ends, position + sizes, side="right") - 1]
            sizes = np.where(last > position, last - position, sizes)
        values = segments(tokens.values, position, sizes).astype(
            self.vocabulary.id_dtype, copy=False
        )
        uids = documents.fixed["document_uid"][document].reshape(-1, 16)
        offset = (position - begin).astype(np.uint32)
        return {
            "partner_ids": Ragged(values, offsets_of(sizes)),
            "partner_document_uid": Ragged.from_matrix(uids),
            "partner_offset": Ragged(offset, np.arange(len(offset) + 1, dtype=np.int64)),
        }


def _keys(uids: UInt64, context: Context) -> UInt64:
    return kernel_keys(context.seed, context.label, uids, np.zeros(len(uids), np.uint16))


def _partner_documents(
    documents: RowBatch, flat_positions: Int64, document_of: NDArray[np.intp], need: Int64
) -> tuple[Int64, Int64]:
    """Return the document of each window's partner, and its number of usable sentence starts.

    A sentence start is usable if `need` tokens follow it.
    """
    tokens = documents.columns["token_ids"].offsets
    uids = documents.fixed["document_uid"]
    partner = np.full(len(document_of), -1, np.int64)
    choices = np.zeros(len(document_of), np.int64)
    seen = np.zeros(len(document_of), np.int64)
    longest_yet = np.zeros(len(document_of), np.int64)
    open_rows = np.arange(len(document_of))

    # each step looks at the next document, for all windows without a long enough partner
    for step in range(1, len(documents)):
        if len(open_rows) == 0:
            break
        candidate = (document_of[open_rows] + step) % len(documents)
        other = (uids[candidate] != uids[document_of[open_rows]]).any(axis=1)
        begin = tokens[candidate]
        end = tokens[candidate + 1]
        usable = np.searchsorted(
            flat_positions, end - need[open_rows], side="right"
        ) - np.searchsorted(flat_positions, begin)

        # take the candidate if it is long enough, or longer than all before
        enough = other & (usable > 0) & (end - begin >= need[open_rows])
        better = other & (enough | (end - begin > longest_yet[open_rows]))
        rows = open_rows[better]
        partner[rows] = candidate[better]
        longest_yet[rows] = (end - begin)[better]
        choices[open_rows[enough]] = usable[enough]
        seen[open_rows] += other
        open_rows = open_rows[~enough & (seen[open_rows] < _MOST_CANDIDATES)]

    return partner, choices
