"""Compute the scores of a teacher for rows of a shard set, in the form of a column set."""

from dataclasses import replace
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clozeline.arrays import Int64
from clozeline.columns import LABEL_IDS, Feature, Role, names_of
from clozeline.errors import ConfigurationError
from clozeline.extensions.compression.distillation.observation import choose_head, has_label_logits
from clozeline.extensions.compression.distillation.stored_scores import StoredScores
from clozeline.extensions.compression.distillation.student import Teacher
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.registries import HEADS
from clozeline.pipeline.kernels.sampling import draw, offsets_of
from clozeline.pipeline.rows import Ragged, RowBatch
from clozeline.pipeline.shards import ColumnSpec, ShardSet, feature_columns
from clozeline.pipeline.shards.block import Dtype
from clozeline.pipeline.shards.manifest import BLOCK_LIMIT
from clozeline.seeding import TEACHER, kernel_keys
from clozeline.train.checkpoint.trained_model import TrainedModel
from clozeline.train.data.sets.model_fit import refuse_unreadable
from clozeline.train.data.stream.collate import Collate

_MAX_ROWS: Final = 32
"""Most rows in a forward pass, as in an evaluation."""
_MAX_LOGITS: Final = 1 << 27
"""Most logits in a forward pass, 512 MiB: rows with more labels are computed in smaller batches."""
_SCORES_ROLE: Final = Role("label")
"""Role of the columns with scores: k entries for each label of a row, or for the row itself."""
_MAX_CPU_LOGITS: Final = 1 << 18
"""Most logits whose scores a CPU computes at once, 1 MiB: larger intermediate results do not fit
into its cache."""


class TeacherScores:
    """A teacher on a device that scores blocks of a set of examples.

    What it returns depends on the block alone.
    """

    def __init__(
        self, teacher: TrainedModel, shards: ShardSet, stored: StoredScores, device: torch.device
    ) -> None:
        self.stored = stored
        self.device = device
        self.vocab_size = shards.manifest.tokenizer.vocab_size
        self.collate = Collate.from_manifest(shards.manifest)
        self._teacher = Teacher(teacher.model, {f"logits_{stored.head}"}).to(device, "fp32")
        self.specs = score_columns(stored, self.vocab_size)

    def score(self, rows: RowBatch) -> RowBatch:
        """Return `teacher_ids` and `teacher_weights` of the rows of a block.

        Each label has k entries, in label order.
        """
        # rows of similar length share a batch; the order depends on the block alone
        order = np.argsort(rows.columns["input_ids"].lengths, kind="stable")
        parts: list[tuple[NDArray[Any], NDArray[Any], Int64]] = []

        for start in range(0, len(order), self.stored.batch):
            batch = rows.take(order[start : start + self.stored.batch])
            parts.append(self._score_batch(batch))
            self._refuse_large(sum(len(ids) for ids, _, _ in parts), len(order))
        # back to the order of the block
        *values, counts = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        offsets = offsets_of(counts * self.stored.k)
        back = np.argsort(order, kind="stable")
        return RowBatch(
            {},
            {
                spec.name: Ragged(column.reshape(-1).astype(spec.dtype), offsets).take(back)
                for spec, column in zip(self.specs, values, strict=True)
            },
        )

    def _score_batch(self, rows: RowBatch) -> tuple[NDArray[Any], NDArray[Any], Int64]:
        """Return ids [N, k], weights [N, k], and the labels of each row [B]."""
        tensors = self.collate({name: rows.columns[name] for name in self.collate.columns}, None)
        counts = np.ones(len(rows), np.int64)
        if "label_index" in tensors:
            width = tensors.get("decoder_input_ids", tensors["input_ids"]).shape[1]
            counts = np.bincount(tensors["label_index"].numpy() // width, minlength=len(rows))

        moved = {name: tensor.to(self.device) for name, tensor in tensors.items()}
        logits = self._teacher(moved)[f"teacher_logits_{self.stored.head}"][: counts.sum()].float()
        size = (
            max(1, _MAX_CPU_LOGITS // logits.shape[1]) if self.device.type == "cpu" else len(logits)
        )
        k = self.stored.k
        temperature = self.stored.temperature

        if self.stored.how == "top":
            scores = [keep_best(part, k, temperature) for part in torch.split(logits, size)]
        else:
            keys = kernel_keys(self.stored.seed, "teach", rows.fixed["uid"], rows.fixed["variant"])
            bits = draw(keys, TEACHER, counts * k).reshape(-1, k)
            uniform = torch.from_numpy((bits >> np.uint64(11)).astype(np.float64) * 2.0**-53).to(
                self.device
            )
            parts = zip(torch.split(logits, size), torch.split(uniform, size), strict=True)
            scores = [draw_classes(part, part_scores, temperature) for part, part_scores in parts]

        ids, weights = (torch.cat(column).cpu().numpy() for column in zip(*scores, strict=True))
        return ids, weights, counts

    def _refuse_large(self, labels: int, rows: int) -> None:
        size = labels * self.stored.k * sum(spec.width for spec in self.specs)
        if size > BLOCK_LIMIT:
            raise ConfigurationError(
                f"k={self.stored.k}: a block of {rows} rows would take more than "
                f"{BLOCK_LIMIT >> 20} MiB: expected a smaller k, or a set with fewer rows in a "
                "block (`clozeline repack-shards block_rows=N`)"
            )


def keep_best(logits: Tensor, k: int, temperature: float) -> tuple[Tensor, Tensor]:
    """Return the k most likely classes [N, k], best first, and their probabilities.

    Probabilities are taken at a temperature.
    """
    scaled = logits / temperature
    best = scaled.topk(k)
    return best.indices, (best.values - scaled.logsumexp(-1, keepdim=True)).exp()


def draw_classes(logits: Tensor, uniform: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Draw classes with replacement by their probabilities.

    Return each class once, with its share of the draws.

    Args:
        logits: [N, classes].
        uniform: float64 [N, k] in [0, 1), a number for each draw.
        temperature: divisor of the logits.

    Returns:
        Classes [N, k] and shares [N, k], fp32; entries after the last class that was drawn are 0.
    """
    # inverse of the cumulative distribution, in float64
    cumulative = (logits.double() / temperature).softmax(-1).cumsum(-1)
    drawn = torch.searchsorted(cumulative, uniform * cumulative[:, -1:], right=True)
    drawn = drawn.clamp(max=logits.shape[1] - 1).sort(-1).values
    # merge equal classes: `entry` [N, k] is the index of the class of each draw
    entry = torch.zeros_like(drawn)
    entry[:, 1:] = (drawn[:, 1:] != drawn[:, :-1]).cumsum(-1)
    ids = torch.zeros_like(drawn).scatter_(1, entry, drawn)
    counts = torch.zeros(drawn.shape, device=drawn.device).scatter_add_(
        1, entry, torch.ones_like(uniform).float()
    )
    return ids, counts / uniform.shape[1]


def score_columns(stored: StoredScores, vocab_size: int) -> list[ColumnSpec]:
    """Return the columns of a column set; weights are fp32 where all classes are stored."""
    ids, *_ = feature_columns(
        [Feature("teacher_ids", "ids", _SCORES_ROLE, "classes that the teacher scores")], vocab_size
    )
    meaning = (
        "their probabilities" if stored.how == "top" else "their shares of the teacher's draws"
    )
    dtype: Dtype = "float32" if stored.how == "top" and stored.k >= vocab_size else "float16"
    return [
        ids,
        ColumnSpec("teacher_weights", dtype, "list", meaning, replace(_SCORES_ROLE, fraction=True)),
    ]


def plan_scores(
    teacher: TrainedModel,
    shards: ShardSet,
    head: str | None,
    k: int,
    how: str,
    temperature: float,
    seed: int,
) -> StoredScores:
    """Check that a teacher can score a set, and return what its column set will say.

    Raises:
        ConfigurationError: it cannot, or `k` or `head` do not fit.
    """
    manifest = shards.manifest
    config = teacher.checkpoint.config

    if manifest.kind != "examples" or manifest.objective is None:
        raise ConfigurationError(
            f"data.shards: {shards.path} holds {manifest.kind}: expected examples, whose labels "
            "are fixed; run `clozeline corrupt` on it"
        )

    if manifest.objective.architecture != config.architecture:
        raise ConfigurationError(
            f"data.shards: {shards.path} is for the architecture "
            f"{manifest.objective.architecture}, the teacher {teacher.folder} is "
            f"{config.architecture}"
        )

    collate = Collate.from_manifest(manifest)
    refuse_unreadable(collate, config, f"data.shards: {shards.path}")
    name = _find_head(config, collate, shards, head)
    options = config.heads[name]
    classes = options.class_count or manifest.tokenizer.vocab_size
    if how == "top" and k > classes:
        raise ConfigurationError(
            f"k: the head {name} has {classes} classes, expected at most as many, got {k}"
        )
    # rows with many labels, or a large vocabulary: fewer rows at once
    batch = max(1, min(_MAX_ROWS, _MAX_LOGITS // (max(1, manifest.max_length) * classes)))
    return StoredScores(
        source=teacher.folder.name,
        digest=teacher.weights_digest,
        head=name,
        k=k,
        how=how,  # type: ignore[arg-type]
        temperature=temperature,
        seed=seed,
        batch=batch,
    )


def _find_head(config: ModelConfig, collate: Collate, shards: ShardSet, named: str | None) -> str:
    names = collate.tensor_names
    fitting = [
        name
        for name, options in config.heads.items()
        if has_label_logits(head := HEADS.load_class(name), options)
        and (reads := names_of(head.reads)) <= names
        and "choices" not in names
        and (LABEL_IDS.name in reads or LABEL_IDS.name not in names)
    ]
    expected = f"head: expected a head of the teacher with classes for the labels of {shards.path}"
    return choose_head(named, fitting, expected)
