"""Divergence between the scores of classes (Hinton et al., arXiv 1503.02531)."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.model.compression.distillation.losses import DistillationLoss, LossOptions
from clozeline.model.compression.distillation.observation import choose_head, has_label_logits
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.registries import HEADS


@config_class
class ScoreOptions(LossOptions):
    """Options of `Scores`."""

    temperature: Annotated[float, Field(gt=0.0)] = 1.0
    """divisor of the logits of both models; stored scores must have been computed with it"""
    head: str | None = None
    """head whose scores are compared; null: the only one that both models have"""
    how: Literal["top", "drawn"] = "top"
    """stored scores: top, the most likely classes, and one class for all others; drawn, classes
    drawn from the teacher, each with its share of the draws, whose gradient is unbiased (arXiv
    2503.16870)"""


class ScoresLoss(DistillationLoss):
    """T² KL(softmax(z_t / T) ‖ softmax(z_s / T)): summed over classes, a mean over labels.

    T² keeps the size of the gradient at every temperature. The teacher's scores are its logits [N,
    classes], or stored with the labels: `ids` [N, k] int64 and `weights` [N, k], probabilities at
    the same temperature; 0 = unused entry.
    """

    Options: ClassVar = ScoreOptions
    live: ClassVar = False

    def __init__(
        self, options: ScoreOptions, student: ModelConfig, teacher: ModelConfig | None
    ) -> None:
        super().__init__(options, student, teacher)
        self.temperature = options.temperature
        self.how = options.how
        self.stored = teacher is None
        self.head = _find_head(options.head, student, teacher)

    @property
    def of_student(self) -> frozenset[str]:
        return frozenset({f"logits_{self.head}"})

    @property
    def of_teacher(self) -> frozenset[str]:
        return frozenset() if self.stored else self.of_student

    def forward(
        self, student: Mapping[str, Tensor], teacher: Mapping[str, Tensor], weights: Tensor
    ) -> Tensor:
        rows = len(weights)  # a head that also counts correct labels computes its logits again
        logits = student[f"logits_{self.head}"][:rows].float() / self.temperature
        if self.stored:
            ids = teacher["ids"]
            stored = teacher["weights"].float()
            divergence = logits.new_zeros(rows)
            if len(ids):  # a batch without labels has one row of logits that weighs nothing
                divergence = _divergence_from_stored(logits, ids, stored, rest=self.how == "top")
        else:
            theirs = (teacher[f"logits_{self.head}"][:rows].float() / self.temperature).log_softmax(
                -1
            )
            divergence = F.kl_div(
                logits.log_softmax(-1), theirs, log_target=True, reduction="none"
            ).sum(-1)
        return self.temperature**2 * (divergence * weights).sum()


def _divergence_from_stored(logits: Tensor, ids: Tensor, weights: Tensor, *, rest: bool) -> Tensor:
    """Return KL(stored ‖ softmax(logits)) of each label [N], in nats.

    Args:
        logits: [N, classes] fp32.
        ids: [N, k] int64, classes.
        weights: [N, k] fp32, their probabilities; 0 = unused.
        rest: the classes that are not stored are one class, with the probability that is left.
    """
    logs = logits.log_softmax(-1)
    used = weights > 0
    share = weights.where(used, 1.0)  # log 1 = 0: unused entries add nothing
    divergence = (weights * (share.log() - logs.gather(1, ids))).sum(-1)
    if not rest:
        return divergence
    # log-probability of all other classes: those that are stored are hidden from a second sum
    hidden = ids.where(used, logits.shape[1])
    spare = F.pad(logs, (0, 1), value=-float("inf")).scatter(1, hidden, -float("inf"))
    left = (1.0 - weights.sum(-1)).clamp(min=0.0)
    some = (left > 0) & spare.isfinite().any(-1)
    others = spare.masked_fill(~some[:, None], 0.0).logsumexp(-1)
    return divergence + (left * (left.where(some, 1.0).log() - others)).where(some, 0.0)


def _find_head(named: str | None, student: ModelConfig, teacher: ModelConfig | None) -> str:
    """Return the head whose scores are compared.

    Raises:
        ConfigurationError: one of the models does not have it, it has other classes there, or
            several would do.
    """
    fitting = [
        name
        for name, options in student.heads.items()
        if has_label_logits(HEADS.load_class(name), options)
        and (teacher is None or name in teacher.heads)
    ]
    expected = (
        "distil.losses.scores.head: expected the name of a head with classes that both models have"
    )
    name = choose_head(named, fitting, expected)
    if teacher is not None:
        ours = student.heads[name]
        theirs = teacher.heads[name]
        if (ours.labels, ours.class_count) != (theirs.labels, theirs.class_count):
            here, there = (", ".join(head.labels) or head.class_count for head in (ours, theirs))
            raise ConfigurationError(
                f"distil.losses.scores: the head {name} has other labels than the teacher's: "
                f"{here} here, {there} there"
            )
    return name
