"""The contract of heads.

Each reads a small encoder, and a batch that holds what the heads of encoders read.
"""

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import torch
from torch import Tensor

from clozeline.columns import (
    CHOICES,
    FIELDS,
    IGNORED,
    ROW_TEXT,
    ROW_WEIGHT,
    SECOND_VIEW,
    BatchField,
    TextFields,
)
from clozeline.model.build import Model, build_model
from clozeline.model.compilation.host_shapes import pad_labels
from clozeline.model.configuration.head import ClassOptions
from clozeline.model.heads import Head
from clozeline.model.heads.similarity import SimilarityHead
from clozeline.model.loss import Loss
from clozeline.model.registries import FAMILIES, HEADS
from clozeline.registry import options_of
from clozeline.tools.start.contracts import Entry, require

VOCABULARY: Final = 37
_ROW_LENGTHS: Final = (11, 8, 11, 3, 9, 6)
_ROW_WEIGHTS: Final = (1.0, 1.0, 1.0, 1.0, 1.0, 0.0)
_UNLABELED_ROW: Final = 2
"""Index of a row that has no value in any column of heads."""
_FURTHER_LENGTHS: Final = (7, 3, 0, 5, 7, 4)
"""Lengths of further texts of the rows."""
_VALUES_PER_ROW: Final = 3
"""Number of values per row in a column with several values per row."""
_CLASS_COUNT: Final = 3
_NUMBER_BOUND: Final = 8
"""Whole numbers without a bound are drawn below this."""


def draw_rows(
    draw: torch.Generator, rows: int, columns: int, lengths: Tensor, text: TextFields = ROW_TEXT
) -> dict[str, Tensor]:
    """Return padded rows of random ids, as a family reads them."""
    positions = torch.arange(columns).expand(rows, columns)
    ids = torch.randint(1, VOCABULARY, (rows, columns), generator=draw)
    return {
        text.ids.name: ids.masked_fill(positions >= lengths[:, None], 0),
        text.positions.name: positions.clone(),
        text.lengths.name: lengths,
    }


def full_batch(seed: int = 0, reads: Sequence[BatchField] = ()) -> dict[str, Tensor]:
    """Return rows with labels and values of every field that our heads declare, or these ones.

    The last row has weight 0, and one row has no values.
    """
    lengths = torch.tensor(_ROW_LENGTHS)
    columns = max(_ROW_LENGTHS)
    batch = draw_rows(torch.Generator().manual_seed(seed), len(lengths), columns, lengths)
    draw = torch.Generator().manual_seed(seed + 1)
    positions_by_row = [(1, 4, 5, 6) if length > 7 else (1,) for length in _ROW_LENGTHS]
    batch["label_index"] = torch.tensor(
        [row * columns + position for row, of in enumerate(positions_by_row) for position in of]
    )
    batch["label_ids"] = torch.randint(1, VOCABULARY, batch["label_index"].shape, generator=draw)
    same = batch["label_index"][::3]  # some inputs are the original ids
    batch["label_ids"][::3] = batch["input_ids"].flatten()[same]
    batch |= draw_rows(
        draw, len(lengths), max(_FURTHER_LENGTHS), torch.tensor(_FURTHER_LENGTHS), SECOND_VIEW
    )
    batch["row_weight"] = torch.tensor(_ROW_WEIGHTS)
    ours = [head.reads for head in HEADS.classes().values() if CHOICES not in head.reads]

    return _with_fields(batch, seed, [*reads, *(field for fields in ours for field in fields)])


def choice_batch(seed: int = 0, reads: Sequence[BatchField] = ()) -> dict[str, Tensor]:
    """Return examples of one to four choices, each a row.

    The last has weight 0, one has no label.
    """
    draw = torch.Generator().manual_seed(seed)
    batch = draw_rows(
        draw, 15, 11, torch.tensor([11, *torch.randint(3, 12, (14,), generator=draw)])
    )
    batch |= {"choices": torch.tensor([2, 3, 2, 4, 1, 3]), "row_weight": torch.tensor(_ROW_WEIGHTS)}
    return _with_fields(batch, seed, reads)


def batch_of(kind: type[Head], seed: int = 0) -> dict[str, Tensor]:
    """Return the batch that suits a head."""
    return choice_batch(seed, kind.reads) if CHOICES in kind.reads else full_batch(seed, kind.reads)


def _with_fields(
    batch: dict[str, Tensor], seed: int, fields: Iterable[BatchField]
) -> dict[str, Tensor]:
    """Return a batch with random values of further fields, each drawn with a key of its own."""
    for field in fields:
        if field.name not in batch:
            draw = torch.Generator().manual_seed(seed + zlib.crc32(field.name.encode()))
            batch[field.name] = _draw_field(field, batch, draw)
    return batch


def _draw_field(field: BatchField, batch: Mapping[str, Tensor], draw: torch.Generator) -> Tensor:
    """Return random values of a field; padding and the values of one row are its filler."""
    rows = len(batch["row_weight"])
    lengths = batch["lengths"]

    if field.per == "entry":
        of_entry = torch.arange(rows).repeat_interleave(2)  # the two first tokens of each row
        if field.of == field.name:
            return of_entry * batch["input_ids"].shape[1] + torch.arange(2).repeat(rows)
    else:
        of_entry = _rows_of_entries(field, batch)

    if field.per == "row" and field.of:
        return torch.tensor(_FURTHER_LENGTHS)
    shape = [len(of_entry)]

    if field.per in ("token", "text", "segment"):
        shape += [
            {"token": batch["input_ids"].shape[1], "text": max(_FURTHER_LENGTHS)}.get(
                field.per, _VALUES_PER_ROW
            )
        ]

    missing = (of_entry == _UNLABELED_ROW).view(-1, *[1] * (len(shape) - 1)).expand(shape).clone()
    if field.per in ("token", "text"):
        sizes = lengths if field.per == "token" else torch.tensor(_FURTHER_LENGTHS)
        missing = torch.arange(shape[1]) >= sizes[:, None]

    if field.dtype == "bool":
        return ~missing
    if field.dtype == "float32":
        return torch.rand(shape, generator=draw).mul(5).masked_fill(missing, field.filler)
    numbers = torch.randint(1 << 32, shape, generator=draw)
    return (_limit_to_bound(field, batch, numbers, of_entry)).masked_fill(
        missing, int(field.filler)
    )


def _limit_to_bound(
    field: BatchField, batch: Mapping[str, Tensor], numbers: Tensor, of_entry: Tensor
) -> Tensor:
    """Return whole numbers below the bound of a field; `of_entry` is the row of each entry."""
    if isinstance(field.below, int):
        return numbers % field.below
    if field.below in ("tokens", "length"):
        inside = numbers % batch["lengths"][of_entry]
        return (
            inside + of_entry * batch["input_ids"].shape[1] if field.below == "tokens" else inside
        )
    if field.below == "choices":
        return numbers % batch["choices"]
    return numbers % {"vocabulary": VOCABULARY, "classes": _CLASS_COUNT}.get(
        field.below, _NUMBER_BOUND
    )


def _rows_of_entries(field: BatchField, batch: Mapping[str, Tensor]) -> Tensor:
    """Return the row of the set that each entry of a field belongs to."""
    rows = torch.arange(len(batch["row_weight"]))
    if field.per in ("label", "entry"):
        of = "label_index" if field.per == "label" else field.of
        require(
            of in batch,
            f"{field.name} has an entry for each one of {of}: declare this in `reads`, too",
        )
        return batch[of] // batch["input_ids"].shape[1]
    if field.per in ("token", "choice") and "choices" in batch:
        return rows.repeat_interleave(batch["choices"])
    return rows


def rows_of(
    tensors: Mapping[str, Tensor],
    rows: slice,
    reads: Mapping[str, BatchField] = MappingProxyType({}),
) -> dict[str, Tensor]:
    """Return a slice of the rows of a batch, or of its examples, as a micro-batch."""
    part = {}
    first = rows.start * tensors["input_ids"].shape[1]
    for name, value in tensors.items():
        field = reads.get(name) or FIELDS.get(name) or BatchField(name, "row")
        of_entry = _rows_of_entries(field, tensors)
        chosen = value[(of_entry >= rows.start) & (of_entry < rows.stop)]
        part[name] = (chosen - first).clamp(min=0) if field.below == "tokens" else chosen
    return part


@dataclass(frozen=True)
class HeadCase:
    """A small encoder in evaluation with one head, and a batch for both.

    The batch has the tensors that both declare.
    """

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


def prepare(entry: Entry, **sizes: int) -> HeadCase:
    """Return a case."""
    kind = HEADS.load_class(entry["name"])
    options = {key: value for key, value in entry.items() if key != "name"}
    if issubclass(kind.Options, SimilarityHead.Options) and options.get("negatives") != "none":
        options.setdefault("group_size", 3)
    if issubclass(kind.Options, ClassOptions) and not options.get("labels"):
        options.setdefault("classes", _CLASS_COUNT)
    batch, other = (_in_classes(batch_of(kind, seed), kind, options) for seed in (0, 9))
    keys = {
        "dim": 24,
        "layers": 2,
        "attention_heads": 4,
        "ffn_dim": 40,
        "type_vocab_size": 2,
        **sizes,
    }

    schema = options_of(FAMILIES.load_class("encoder"))
    config = schema(
        family="encoder",
        norm_place="post",
        final_norm=False,
        tied=False,
        heads={kind.key(): options},
        **keys,
    )

    model = build_model(config, VOCABULARY, {"pad": 0}, seed=0).eval()
    missing = model.reads.keys() - batch.keys()
    require(
        not missing,
        f"needs {', '.join(sorted(missing))}: this contract has rows of encoders, without them",
    )
    return HeadCase(model, {name: batch[name] for name in sorted(model.reads)}, other)


def _classes_of(kind: type[Head]) -> BatchField:
    """Return the field with the classes that a head predicts."""
    return next(field for field in kind.reads if field.below == "classes")


def _in_classes(
    batch: dict[str, Tensor], kind: type[Head], options: Mapping[str, Any]
) -> dict[str, Tensor]:
    """Return a batch with the labels that a head has.

    Where it has several per row, they are 0 or 1 for each class.
    """
    if issubclass(kind.Options, ClassOptions):
        name = _classes_of(kind).name
        classes = options.get("classes") or len(options["labels"])
        known = batch[name] >= 0
        batch[name] = batch[name].where(~known, batch[name] % classes)
        if options.get("multi_label"):
            each = torch.arange(classes) == batch[name][:, None]
            batch[name] = each.long().where(known[:, None], IGNORED)
    return batch


def check_micro_batches(case: HeadCase) -> None:
    """Losses, figures, counts and gradients of micro-batches add up to those of the batch."""
    loss = case.compute_loss()
    count = case.head.count(case.batch)
    require(loss.total > 0, f"expected a loss above 0, got {loss.total.item()}")
    require(
        loss.count == count > 0,
        f"expected `divisor` to count what has weight and a label, got {count}",
    )
    layers = case.model.config.layers
    of_keys = {name for key in case.head.options.parts() for name in key.figures(layers)}
    returned = loss.metrics.keys() - of_keys
    require(
        returned == case.head.figures.keys(),
        f"expected `figures` to name the sums that `metrics` returns, {sorted(returned)}",
    )
    expected = case.gradients(loss.total)

    for size in (3, 6) if case.head.options.compared_rows else (1, 2, 3):
        slices = [slice(at, at + size) for at in range(0, 6, size)]
        parts = [case.compute_loss(rows_of(case.batch, rows, case.model.reads)) for rows in slices]
        counted = sum(int(part.count) for part in parts)
        require(
            counted == count, f"micro-batches of {size}: expected {count} labels, got {counted}"
        )
        total = torch.stack([part.total for part in parts]).sum()
        for name, whole in {**loss.metrics, "the loss": loss.total}.items():
            added = torch.stack(
                [{**part.metrics, "the loss": part.total}[name] for part in parts]
            ).sum()
            require(
                torch.isclose(added, whole, rtol=1e-5),
                f"micro-batches of {size}: expected the sum {whole:.6g} of {name}, got "
                f"{added:.6g}; return no mean",
            )

        scale = max(gradient.abs().max() for gradient in expected)
        error = max(
            (gradient - other).abs().max()
            for gradient, other in zip(case.gradients(total), expected, strict=True)
        )
        require(
            error <= 1e-5 * scale,
            f"micro-batches of {size}: gradients differ by {error / scale:.1e} of the largest",
        )


def check_row_weights(case: HeadCase) -> None:
    """A row of weight 0 changes nothing."""
    loss = case.compute_loss()
    changed = {ROW_WEIGHT.name: case.batch[ROW_WEIGHT.name]}
    last = len(_ROW_WEIGHTS) - 1

    for name in case.batch.keys() - changed.keys():
        field = case.model.reads[name]
        kept = case.batch[name][_rows_of_entries(field, case.batch) != last]
        drawn = case.other[name][_rows_of_entries(field, case.other) == last]
        changed[name] = torch.cat((kept, drawn))

    again = case.compute_loss(changed)
    require(
        again.count == loss.count and torch.isclose(again.total, loss.total, rtol=1e-6),
        f"expected the loss {loss.total:.6g} of {loss.count}, got {again.total:.6g} of "
        f"{again.count}. Read labels by `row_labels` or `gather_labels`, which ignore rows of "
        "weight 0",
    )


def check_nothing_to_predict(case: HeadCase) -> None:
    """A batch without labels has the loss 0, and a gradient of 0 for every parameter."""
    batch = case.batch | {"row_weight": torch.zeros(6)}

    for labels in (slice(None), slice(0)):
        of_labels = [name for name in batch if case.model.reads[name].per == "label"]
        loss = case.compute_loss(batch | {name: batch[name][labels] for name in of_labels})
        nothing = loss.total == 0 and loss.count == 0
        require(nothing, f"expected the loss 0 of 0 labels, got {loss.total:.6g} of {loss.count}")
        case.model.zero_grad()
        if loss.total.requires_grad:
            torch.autograd.backward(loss.total)
        for name, parameter in case.model.named_parameters():
            found = "none, so that ranks wait for it" if parameter.grad is None else "another one"
            zero = parameter.grad is not None and not parameter.grad.any()
            require(
                zero, f"{name}: expected a gradient of 0, got {found}; let sums over no rows be 0"
            )


def check_padded_labels(case: HeadCase) -> None:
    """Padding entries of labels, which `data.label_capacity` adds, change nothing."""
    loss = case.compute_loss()
    padded = case.compute_loss(pad_labels(case.batch, 64, case.model.reads))
    same = padded.count == loss.count and torch.isclose(padded.total, loss.total, rtol=1e-5)
    require(
        same,
        f"expected the loss {loss.total:.6g} of {loss.count}, got {padded.total:.6g} of "
        f"{padded.count}. Ignore labels whose `label_ids` are -100, or whose value is the filler "
        "of its field",
    )


def check_labels(case: HeadCase) -> None:
    """The weights of labels add up to the divisor, unless there are none."""
    for row_weights in ([1.0] * 6, [1.0, 0.0, 1.0, 1.0, 0.0, 1.0]):
        batch = case.batch | {"row_weight": torch.tensor(row_weights)}
        classes, weights = case.head.labels(batch)
        count = case.head.count(batch)
        require(classes.dtype == torch.int64, f"labels: expected int64, got {classes.dtype}")
        found = f"got {weights.sum().item():g}, lowest {min(classes[weights != 0], default=0)}"
        require(
            not len(classes) or (weights.sum() == count and (classes[weights != 0] >= 0).all()),
            f"labels: expected ids from 0 with weights that add up to {count}, or none, {found}",
        )


CHECKS: Final = (
    check_micro_batches,
    check_row_weights,
    check_nothing_to_predict,
    check_padded_labels,
    check_labels,
)
