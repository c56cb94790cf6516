"""Divergence between the scores of classes (Hinton et al., arXiv 1503.02531)."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.extensions.compression.distillation.losses import DistillationLoss, LossOptions
from clozeline.extensions.compression.distillation.observation import choose_head, has_label_logits
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.registries import HEADS


@config_class
class ScoreOptions(LossOptions):
    """Options of `ScoresLoss`."""

    temperature: Annotated[float, Field(gt=0.0)] = 1.0
    """divisor of the logits of both models; stored scores must have been computed with it"""
    head: str | None = None
    """head whose scores are compared; null: the only head that both models have"""
    how: Literal["top", "drawn"] = "top"
    """stored scores: top, the most likely classes, and one class for all others; drawn, classes
    sampled from the teacher, each with its share of the samples, which gives an unbiased gradient
    (arXiv 2503.16870)"""


class ScoresLoss(DistillationLoss):
    """T² KL(softmax(z_t / T) ‖ softmax(z_s / T)): summed over classes, averaged over labels.

    `F.kl_div` with `reduction="batchmean"` divides by the first dimension alone: on [rows, tokens,
    classes] it is larger by the tokens of a row.

    T² keeps the size of the gradient at every temperature. The teacher's scores are its logits [N,
    classes], or stored with the labels: `ids` [N, k] int64 and `weights` [N, k], probabilities at
    the same temperature; 0 = unused entry.
    """

    Options = ScoreOptions
    needs_teacher = False

    def __init__(
        self, options: ScoreOptions, student: ModelConfig, teacher: ModelConfig | None
    ) -> None:
        super().__init__(options, student, teacher)
        self.temperature = options.temperature
        self.how = options.how
        self.stored = teacher is None
        self.head = _find_head(options.head, student, teacher)

    @property
    def student_tensors(self) -> frozenset[str]:
        return frozenset({f"logits_{self.head}"})

    @property
    def teacher_tensors(self) -> frozenset[str]:
        return frozenset() if self.stored else self.student_tensors

    def forward(
        self, student: Mapping[str, Tensor], teacher: Mapping[str, Tensor], weights: Tensor
    ) -> Tensor:
        # a head that also counts correct labels has computed its logits again, after these rows
        rows = len(weights)
        logits = student[f"logits_{self.head}"][:rows].float() / self.temperature

        if self.stored:
            ids = teacher["ids"]
            stored = teacher["weights"].float()
            divergence = logits.new_zeros(rows)
            # a batch without labels has one row of logits, with weight 0
            if len(ids):
                divergence = _divergence_from_stored(
                    logits, ids, stored, others_are_one=self.how == "top"
                )
        else:
            teacher_logits = teacher[f"logits_{self.head}"][:rows].float() / self.temperature
            divergence = F.kl_div(
                logits.log_softmax(-1),
                teacher_logits.log_softmax(-1),
                log_target=True,
                reduction="none",
            ).sum(-1)

        return self.temperature**2 * (divergence * weights).sum()


def _divergence_from_stored(
    logits: Tensor, ids: Tensor, weights: Tensor, *, others_are_one: bool
) -> Tensor:
    """Return KL(stored ‖ softmax(logits)) of each label [N], in nats.

    Args:
        logits: [N, classes] fp32.
        ids: [N, k] int64, classes.
        weights: [N, k] fp32, their probabilities; 0 = unused entry.
        others_are_one: all other classes count as one, which has the remaining probability.
    """
    logs = logits.log_softmax(-1)
    used = weights > 0
    share = weights.where(used, 1.0)  # log 1 = 0: unused entries add nothing
    divergence = (weights * (share.log() - logs.gather(1, ids))).sum(-1)
    if not others_are_one:
        return divergence
    # log-probability of all other classes: a second sum from which the stored ones are hidden
    hidden = ids.where(used, logits.shape[1])
    spare = F.pad(logs, (0, 1), value=-float("inf")).scatter(1, hidden, -float("inf"))
    remaining = (1.0 - weights.sum(-1)).clamp(min=0.0)
    has_others = (remaining > 0) & spare.isfinite().any(-1)
    others = spare.masked_fill(~has_others[:, None], 0.0).logsumexp(-1)
    log_remaining = remaining.where(has_others, 1.0).log()
    return divergence + (remaining * (log_remaining - others)).where(has_others, 0.0)


def _find_head(name: str | None, student: ModelConfig, teacher: ModelConfig | None) -> str:
    """Return the head whose scores are compared.

    Raises:
        ConfigurationError: one of the models does not have it, or has other classes there, or
            several heads are possible.
    """
    candidates = [
        candidate
        for candidate, options in student.heads.items()
        if has_label_logits(HEADS.load_class(candidate), options)
        and (teacher is None or candidate in teacher.heads)
    ]

    expected = (
        "distil.losses.scores.head: expected the name of a head with classes that both models have"
    )
    name = choose_head(name, candidates, expected)
    # the classes of both heads must be the same
    if teacher is not None:
        student_head = student.heads[name]
        teacher_head = teacher.heads[name]
        if (student_head.labels, student_head.class_count) != (
            teacher_head.labels,
            teacher_head.class_count,
        ):
            student_labels, teacher_labels = (
                ", ".join(head.labels) or head.class_count for head in (student_head, teacher_head)
            )
            raise ConfigurationError(
                f"distil.losses.scores: the head {name} has other labels in the student "
                f"({student_labels}) than in the teacher ({teacher_labels})"
            )

    return name
