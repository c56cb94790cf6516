"""Labels of a head that compares two segments, such as next-sentence prediction."""

import torch
from torch import Tensor

from clozeline.model.loss import IGNORED
from clozeline.train.answers._answer import Answer
from clozeline.train.data.stream.head_features import HeadBatch
from clozeline.train.data.stream.padding import one_a_row


class Sentence(Answer):
    """The class of each row."""

    @staticmethod
    def tensors(batch: HeadBatch) -> dict[str, Tensor]:
        """Return `sentence_label` [B], -100 in rows without one."""
        return {"sentence_label": torch.from_numpy(one_a_row(batch.columns["sentence_label"], IGNORED))}
