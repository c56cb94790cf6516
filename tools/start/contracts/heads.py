"""The contract of heads: each reads a small encoder and a batch that holds what the heads of encoders read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from clozeline.model.build import Model, build_model
from clozeline.model.configuration.head import HeadConfig
from clozeline.model.heads import Head
from clozeline.model.loss import IGNORED, Loss
from clozeline.registry import find
from clozeline.tools.start.contracts import Entry, require

OPTIONS: Final = HeadConfig
"""Options of every head."""
VOCABULARY: Final = 37
_FLAT: Final = ("label_index", "label_ids", "label_weight", "sample_words", "span_left", "span_right", "span_offset")
"""Tensors with an entry for each label."""


def draw_rows(draw: torch.Generator, rows: int, columns: int, lengths: Tensor, prefix: str = "") -> dict[str, Tensor]:
    """Return padded rows of random ids, as a family reads them."""
    positions = torch.arange(columns).expand(rows, columns)
    ids = torch.randint(1, VOCABULARY, (rows, columns), generator=draw)
    return {
        f"{prefix}input_ids": ids.masked_fill(positions >= lengths[:, None], 0),
        f"{prefix}position_ids": positions.clone(),
        f"{prefix}lengths": lengths,
    }


def full_batch(seed: int = 0) -> dict[str, Tensor]:
    """Return rows with two masked spans, classes, numbers, and a second view of each row.

    The last row has weight 0; one row has neither class nor number nor second view nor spans.
    """
    lengths = (11, 8, 11, 3, 9, 6)
    rows, columns = len(lengths), max(lengths)
    tensors = draw_rows(torch.Generator().manual_seed(seed), rows, columns, torch.tensor(lengths))
    draw = torch.Generator().manual_seed(seed + 1)
    long = [(position, 3, 7, position - 4) for position in (4, 5, 6)]
    labels = [[(1, 0, 2, 0), *(long if length > 7 else [])] for length in lengths]
    labels[2] = [(position, 0, 0, -1) for position, *_ in labels[2]]
    flat = [
        (row * columns + position, row * columns + left, row * columns + right, offset)
        for row, of in enumerate(labels)
        for position, left, right, offset in of
    ]
    names = ("label_index", "span_left", "span_right", "span_offset")
    tensors |= dict(zip(names, torch.tensor(flat).T, strict=True))
    tensors["label_ids"] = torch.randint(1, VOCABULARY, (len(flat),), generator=draw)
    same = tensors["label_index"][::3]  # some inputs are the original ids
    tensors["label_ids"][::3] = tensors["input_ids"].flatten()[same]
    tensors["sentence_label"] = torch.tensor([0, 1, -100, 1, 0, 1])
    tensors["label"] = torch.tensor([2, 1, -100, 0, 2, 1])
    tensors["target"] = torch.tensor([0.5, 4.0, float("nan"), 2.5, 1.0, 3.0])
    tensors["answer_start"] = torch.tensor([4, 0, -100, 1, 2, 3])
    tensors["answer_end"] = torch.tensor([6, 0, -100, 1, 5, 4])
    tensors["answer_places"] = torch.arange(columns) < tensors["lengths"][:, None]
    second = draw_rows(draw, rows, 7, torch.tensor([7, 3, 0, 5, 7, 4]))
    tensors |= {f"{name}_b": value for name, value in second.items()}
    return tensors | {"row_weight": torch.tensor([1.0, 1, 1, 1, 1, 0])}


def choice_batch(seed: int = 0) -> dict[str, Tensor]:
    """Return examples of one to four choices, each a row; the last has weight 0, one has no label."""
    draw = torch.Generator().manual_seed(seed)
    tensors = draw_rows(draw, 15, 11, torch.tensor([11, *torch.randint(3, 12, (14,), generator=draw)]))
    weights = torch.tensor([1.0, 1, 1, 1, 1, 0])
    return tensors | {
        "choices": torch.tensor([2, 3, 2, 4, 1, 3]), "label": torch.tensor([1, 0, -100, 2, 0, 2]), "row_weight": weights
    }  # fmt: skip


def batch_of(kind: type[Head], seed: int = 0) -> dict[str, Tensor]:
    """Return the batch that suits a head."""
    return choice_batch(seed) if "choices" in kind.needs else full_batch(seed)


def rows_of(tensors: Mapping[str, Tensor], rows: slice) -> dict[str, Tensor]:
    """Return a slice of the rows of a batch, or of its examples, as a micro-batch."""
    if "choices" in tensors:
        edges = [0, *tensors["choices"].cumsum(0).tolist()]
        texts = slice(edges[rows.start], edges[rows.stop])
        of_text = ("input_ids", "position_ids", "lengths")
        return {name: value[texts if name in of_text else rows] for name, value in tensors.items()}
    columns = tensors["input_ids"].shape[1]
    of = tensors.get("label_index", torch.empty(0)) // columns
    inside = (of >= rows.start) & (of < rows.stop)
    part = {name: value[inside if name in _FLAT else rows] for name, value in tensors.items()}
    shifted = {"label_index", "span_left", "span_right"} & part.keys()
    return part | {name: (part[name] - rows.start * columns).clamp(min=0) for name in shifted}


@dataclass(frozen=True)
class Case:
    """A small encoder in evaluation with one head, and a batch with the tensors that both declare."""

    model: Model
    batch: dict[str, Tensor]
    other: dict[str, Tensor]
    """a batch with other values"""

    @property
    def head(self) -> Head:
        """The only head."""
        (head,) = self.model.heads.values()
        return head

    def compute_loss(self, batch: Mapping[str, Tensor] | None = None) -> Loss:
        """Return the loss of the head, by default on the batch."""
        losses: dict[str, Loss] = self.model(self.batch if batch is None else batch)
        return next(iter(losses.values()))

    def gradients(self, total: Tensor) -> list[Tensor]:
        """Return the gradients of all parameters; 0 where there is no path."""
        parameters = [*self.model.parameters()]
        return [*torch.autograd.grad(total, parameters, allow_unused=True, materialize_grads=True)]


def prepare(entry: Entry, **sizes: int) -> Case:
    """Return a case."""
    kind = find("clozeline.model.heads", entry["name"])
    options = {key: value for key, value in entry.items() if key != "name"}
    if "group_size" in kind.settings and options.get("negatives") != "none":
        options.setdefault("group_size", 3)
    if "classes" in kind.settings and not options.get("labels"):
        options.setdefault("classes", 3 if "label" in kind.needs else VOCABULARY)
    batch, other = (_in_classes(batch_of(kind, seed), kind, options) for seed in (0, 9))
    keys = {"dim": 24, "layers": 2, "attention_heads": 4, "ffn_dim": 40, "type_vocab_size": 2, **sizes}
    schema = find("clozeline.model.families", "encoder").Options
    config = schema(
        family="encoder", norm_place="post", final_norm=False, tied=False, heads={kind.key(): options}, **keys
    )
    model = build_model(config, VOCABULARY, {"pad": 0}, seed=0).eval()
    missing = model.needs - batch.keys()
    require(not missing, f"needs {', '.join(sorted(missing))}: this contract has rows of encoders, without them")
    return Case(model, {name: batch[name] for name in sorted(model.needs)}, other)


def _in_classes(batch: dict[str, Tensor], kind: type[Head], options: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return a batch with the labels that a head has, as 0 or 1 for each class where it has several."""
    if "classes" in kind.settings:
        name = "label" if "label" in kind.needs else "label_ids"
        classes, known = options.get("classes") or len(options["labels"]), batch[name] >= 0
        batch[name] = batch[name].where(~known, batch[name] % classes)
        if options.get("multi_label"):
            each = torch.arange(classes) == batch[name][:, None]
            batch[name] = each.long().where(known[:, None], IGNORED)
    return batch


def check_micro_batches(case: Case) -> None:
    """Losses, counts and gradients of micro-batches add up to those of the batch."""
    loss, count = case.compute_loss(), case.head.count(case.batch)
    require(loss.total > 0, f"expected a loss above 0, got {loss.total.item()}")
    require(loss.count == count > 0, f"expected `divisor` to count what has weight and a label, got {count}")
    expected = case.gradients(loss.total)
    for size in (3, 6) if "group_size" in case.head.settings else (1, 2, 3):
        parts = [case.compute_loss(rows_of(case.batch, slice(at, at + size))) for at in range(0, 6, size)]
        counted, total = sum(int(part.count) for part in parts), torch.stack([part.total for part in parts]).sum()
        require(counted == count, f"micro-batches of {size}: expected {count} labels, got {counted}")
        close = torch.isclose(total, loss.total, rtol=1e-5)
        require(close, f"micro-batches of {size}: expected the sum {loss.total:.6g}, got {total:.6g}; return no mean")
        scale = max(one.abs().max() for one in expected)
        error = max((one - other).abs().max() for one, other in zip(case.gradients(total), expected, strict=True))
        require(
            error <= 1e-5 * scale, f"micro-batches of {size}: gradients differ by {error / scale:.1e} of the largest"
        )


def check_row_weights(case: Case) -> None:
    """A row of weight 0 changes nothing."""
    loss, changed = case.compute_loss(), {}
    for name, value in case.batch.items():
        kept = len(value) - {6: 1, 15: 3}.get(len(value), 0)  # but the rows of the last example
        changed[name] = value if name.startswith("lengths") else torch.cat((value[:kept], case.other[name][kept:]))
    again = case.compute_loss(changed)
    require(
        again.count == loss.count and torch.isclose(again.total, loss.total, rtol=1e-6),
        f"expected the loss {loss.total:.6g} of {loss.count}, got {again.total:.6g} of {again.count}. Read labels by "
        "`row_labels` or `gather_labels`, which ignore rows of weight 0",
    )


def check_nothing_to_predict(case: Case) -> None:
    """A batch without labels has the loss 0, and a gradient of 0 for every parameter."""
    batch = case.batch | {"row_weight": torch.zeros(6)}
    for labels in (slice(None), slice(0)):
        loss = case.compute_loss(batch | {name: batch[name][labels] for name in _FLAT if name in batch})
        nothing = loss.total == 0 and loss.count == 0
        require(nothing, f"expected the loss 0 of 0 labels, got {loss.total:.6g} of {loss.count}")
        case.model.zero_grad()
        if loss.total.requires_grad:
            torch.autograd.backward(loss.total)
        for name, parameter in case.model.named_parameters():
            found = "none, so that ranks wait for it" if parameter.grad is None else "another one"
            zero = parameter.grad is not None and not parameter.grad.any()
            require(zero, f"{name}: expected a gradient of 0, got {found}; let sums over no rows be 0")


def check_classes(case: Case) -> None:
    """Correct classes are as many as predictions that count, or none."""
    for weights in ([1.0] * 6, [1.0, 0.0, 1.0, 1.0, 0.0, 1.0]):
        batch = case.batch | {"row_weight": torch.tensor(weights)}
        classes, count = case.head.classes(batch), case.head.count(batch)
        require(classes.dtype == torch.int64, f"classes: expected int64, got {classes.dtype}")
        found = f"got {len(classes)}, of which the lowest is {min(classes.tolist(), default=0)}"
        require(len(classes) in (0, count) and (classes >= 0).all(), f"classes: expected {count} or none, {found}")


CHECKS: Final = (check_micro_batches, check_row_weights, check_nothing_to_predict, check_classes)
