"""Full sentences: packed rows that end where a sentence ends."""

from bisect import bisect_right

import numpy as np

from clozeline.arrays import Int64
from clozeline.pipeline.group.groupings._grouping import PartDraws
from clozeline.pipeline.group.groupings.packed import PackedGrouping, cuts
from clozeline.pipeline.rows import RowBatch


class FullSentencesGrouping(PackedGrouping):
    """All documents, each followed by its separator, form one stream, cut into rows of as many sentences as fit.

    These are the FULL-SENTENCES rows of RoBERTa (arXiv 1907.11692, section 4.2). A sentence longer
    than `length` is cut at `length` and continued in the next row. A separator belongs to the last
    sentence before it.

    Example (length 4, separator eos, documents a b c and d e | f g h):
        a b c </s> | d e | f g h </s>
        document_starts [0] [0] [0], offsets 0, 0, 2
    """

    def bounds(
        self, documents: RowBatch, begins: Int64, sentences: Int64, draws: PartDraws, label: str
    ) -> Int64:
        """Return where rows begin in the stream, and its end; each row ends at the last sentence end that fits."""
        stops = np.append(sentences, begins[-1]).tolist()

        def stop(begin: int, limit: int) -> int:
            whole: int = stops[bisect_right(stops, limit) - 1]
            return whole if whole > begin else limit

        return cuts(documents, begins.tolist(), draws, label, stop)
