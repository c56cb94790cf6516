"""Classification with focal loss."""

from clozeline.columns import IGNORED
from clozeline.extensions.tasks.heads.classification import ClassificationHead
from clozeline.model.loss import row_labels


class FocalHead(ClassificationHead):
    """Classify with focal loss (arXiv 1708.02002), gamma 2: easy rows have a small weight."""

    def forward(self, hidden, tensors):
        scores = self.scores(hidden, tensors)
        labels = row_labels(tensors)
        log_likelihood = (
            scores.float().log_softmax(-1).gather(1, labels.clamp(min=0)[:, None])[:, 0]
        )
        weights = (1 - log_likelihood.exp()) ** 2
        return -(weights * log_likelihood * (labels != IGNORED)).sum()
