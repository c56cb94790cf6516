"""Small students and teachers, and batches with padding, filler rows and ignored labels."""

import torch

from clozeline.columns import FIELDS
from clozeline.configuration.config import validate
from clozeline.extensions.compression.distillation.student import Student, Teacher
from clozeline.extensions.compression.registries import DISTILLATION_LOSSES
from clozeline.model.build import build_model
from clozeline.model.configuration.model_config import ModelConfig

VOCABULARY = 53


def model(seed=1, **changes):
    """An encoder of odd sizes with large random weights, so that no score is near zero."""
    plain = {
        "family": "encoder",
        "dim": 15,
        "layers": 3,
        "attention_heads": 3,
        "ffn_dim": 17,
        "init": {"std": 0.4},
        "heads": {"masked_lm": 1.0},
        "position": {"maximum": 16},
        **changes,
    }

    config = validate(ModelConfig, plain, "model")
    return build_model(config, VOCABULARY, {}, seed=seed)


def loss(name, **options):
    return DISTILLATION_LOSSES.resolve({"name": name, **options})


def pair(student, teacher, *losses):
    made = Student(student, losses, teacher.config, seed=3).eval()
    return made, Teacher(teacher, made.teacher_tensors)


def compared(student, teacher, tensors, name):
    """Sum and count of a loss against a teacher in memory."""
    found = student({**tensors, **teacher(tensors)})[f"distil/{name}"]
    return float(found.total.detach()), int(found.count)


def batch(lengths=(7, 4, 9), seed=0, filler=1, columns=11):
    """Rows of these lengths, padded with random ids to `columns`, and filler rows.

    Two labels a row, one of them
    ignored in the first."""
    draw = torch.Generator().manual_seed(seed)
    rows = len(lengths) + filler
    labels = torch.randint(1, VOCABULARY, (2 * rows,), generator=draw)
    labels[1] = -100
    return {
        "input_ids": torch.randint(1, VOCABULARY, (rows, columns), generator=draw),
        "position_ids": torch.arange(columns).repeat(rows, 1),
        "lengths": torch.tensor([*lengths, *[1] * filler]),
        "row_weight": torch.tensor([1.0] * len(lengths) + [0.0] * filler),
        "label_index": torch.cat([torch.tensor([0, 2]) + row * columns for row in range(rows)]),
        "label_ids": labels,
    }


def rows_of(tensors, first, last):
    """Rows `first .. last` of a batch as a batch of their own."""
    by_row = {name: own[first:last] for name, own in tensors.items() if FIELDS[name].per != "label"}
    columns = tensors["input_ids"].shape[1]
    mine = (tensors["label_index"] // columns >= first) & (tensors["label_index"] // columns < last)
    return {
        **by_row,
        "label_index": tensors["label_index"][mine] - first * columns,
        "label_ids": tensors["label_ids"][mine],
    }
