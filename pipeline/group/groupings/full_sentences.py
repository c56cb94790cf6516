"""Full sentences: packed rows that end at the end of a sentence."""

from bisect import bisect_right

import numpy as np

from clozeline.arrays import Int64
from clozeline.pipeline.group.groupings._grouping import PartSampler
from clozeline.pipeline.group.groupings.packed import PackedGrouping, cut_stream
from clozeline.pipeline.rows import RowBatch


class FullSentencesGrouping(PackedGrouping):
    """Packed rows of as many complete sentences as fit: FULL-SENTENCES of RoBERTa.

    See arXiv 1907.11692, section 4.2. All documents, each followed by its separator, form one
    stream. A sentence longer than `length` is cut at `length` and continues in the next row. A
    separator belongs to the last sentence before it.

    Example (length 4, separator eos, documents a b c and d e | f g h):
        a b c </s> | d e | f g h </s>
        document_starts [0] [0] [0], offsets 0, 0, 2
    """

    cuts_at_length = False

    def row_bounds(
        self, documents: RowBatch, begins: Int64, sentences: Int64, sampler: PartSampler, label: str
    ) -> Int64:
        """Return the starts of rows in the stream, and its end.

        Each row ends at the last sentence end that fits.
        """
        stops = np.append(sentences, begins[-1]).tolist()

        def stop(begin: int, limit: int) -> int:
            last_stop: int = stops[bisect_right(stops, limit) - 1]
            return last_stop if last_stop > begin else limit

        return cut_stream(documents, begins.tolist(), sampler, label, stop)
