from types import SimpleNamespace

import numpy as np
import pytest
import torch

from clozeline.model.build import build_model
from clozeline.pipeline.rows import Ragged, RowBatch
from clozeline.train.data.sets.datasets import open_datasets
from clozeline.train.logs.cost_estimate import (
    CostEstimate,
    PhaseCost,
    SetCost,
    estimate_cost,
    estimate_memory,
    peak_of,
)
from clozeline.train.logs.plan import describe_cost, describe_plan
from clozeline.train.startup.fill_in import with_key
from tests.refusals import refused
from tests.shard_sets import IDS, fixed, ids_of, list_column, objective, write_set
from tests.train.objective_sets import write_objective_sets
from tests.train.synthetic import tiny


@pytest.mark.parametrize(
    ("stage", "precision", "world", "per_parameter", "hooks"),
    [
        (0, "fp32", 2, 4 + 4 + 8, ()),
        (1, "fp32", 1, 4 + 4 + 8, ()),
        (3, "fp32", 1, 4 + 4 + 12, ()),
        (2, "fp32", 2, 4 + 4 / 2 + 12 / 2, ()),
        (1, "bf16", 4, 2 + 6 + 12 / 4, ()),
        (3, "bf16", 4, 18 / 4, ()),
        (1, "fp32", 2, 4 + 4 + 16 / 2, ("average",)),
    ],
)
def test_bytes_per_parameter(stage, precision, world, per_parameter, hooks):
    estimate = estimate_memory(
        tiny(zero__stage=stage, precision=precision, hooks=list(hooks)), 1000, world
    )
    assert estimate.total == pytest.approx(1000 * per_parameter)


CUDA = torch.device("cuda", 0)


@pytest.mark.parametrize(
    ("name", "operations"),
    [
        ("NVIDIA H200", 989e12),
        ("NVIDIA H200 NVL", 835e12),
        ("NVIDIA H100 PCIe", 756e12),
        ("NVIDIA H20", 148e12),
        ("A100-SXM4-40GB", 312e12),
        ("NVIDIA L40S", 362e12),
        ("NVIDIA L40", 181e12),
        *(
            (unknown, None)
            for unknown in (
                "NVIDIA L400",
                "NVIDIA RTX A100",
                "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
            )
        ),
    ],
)
def test_known_devices_have_their_makers_number_and_others_a_measured_one(
    monkeypatch, name, operations
):
    """A slice of a device, and a device with a known part in its name, are others."""
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: name)
    found = peak_of(CUDA, "bf16", 3.0)

    assert found == (operations or 3.0)
    assert peak_of(CUDA, "fp32", 5.0) == 5.0
    assert peak_of(torch.device("cpu"), "bf16", 2.0) == 2.0


def test_operations_of_samples_follow_the_phases():
    """Steps of 8 rows at 10 operations a row, then of 16 rows at 100.

    Rows beyond the plan cost what the last do.
    """
    phases = tuple(
        PhaseCost(steps, rows, (SetCost("a", 1.0, 999, 999, 1.0, flops),))
        for steps, rows, flops in ((3, 8, 10.0), (2, 16, 100.0))
    )
    nothing = None
    cost = CostEstimate(nothing, nothing, nothing, 1, phases, 0, 0.0)
    per_row = [10.0] * 24 + [100.0] * 60

    assert [cost.flops_until(samples) for samples in range(84)] == [
        sum(per_row[:samples]) for samples in range(84)
    ]

    skipped = [(1, 8, 16), (2, 20, 40)]
    per_row[8:16] = [0.0] * 8
    per_row[20:40] = [0.0] * 20

    assert [cost.flops_until(samples, skipped) for samples in range(40, 84)] == [
        sum(per_row[:samples]) for samples in range(40, 84)
    ]


def labels_by_hand(rows):
    """Labels of each objective, as its columns tell them."""
    columns = rows.columns
    for name in ("label_ids", "prediction_order", "target_ids"):
        if name in columns:
            return float(columns[name].lengths.mean())

    first = columns["prefix_length"].values.clip(1) if "prefix_length" in columns else 1
    return float((columns["input_ids"].lengths - first).mean())


@pytest.mark.parametrize(
    ("objective", "family", "head"),
    [
        ("masked_lm", "encoder", "masked_lm"),
        ("prefix_lm", "decoder", "lm"),
        ("permuted_lm", "xlnet", "masked_lm"),
        ("span_corruption", "encoder_decoder", "lm"),
    ],
)
def test_the_head_is_counted_at_labels_alone(tmp_path, objective, family, head):
    """Those of a prefix are known from its length alone, and those of a permutation from its
    order."""
    apart = {}

    if family == "xlnet":
        apart = {
            "model__position": {"kind": "sinusoidal"},
            "model__bias": {"qkv": False, "out": False},
        }

    config = tiny(
        data__shards=str(write_objective_sets(tmp_path, objective)),
        output=str(tmp_path / "run"),
        data__global_batch=16,
        data__lanes=16,
        model__family=family,
        model__heads={head: {"transform": False} if apart else 1.0},
        **({"model__position": {"maximum": 64}} | apart),
    )

    datasets = open_datasets(config)
    facts = datasets.train.manifest.tokenizer
    model = build_model(config.model, facts.vocab_size, facts.special_ids)
    rows = datasets.train.read_block(0)
    tokens, target = (
        round(float(rows.columns[name].lengths.mean())) if name in rows.columns else 0
        for name in ("input_ids", "target_ids")
    )
    (phase,) = estimate_cost(config, model, datasets, 1).phases

    assert len(datasets.train) % 16 == 0  # no filler
    assert phase.sets[0].flops_per_row == pytest.approx(
        model.flops(tokens, target, labels_by_hand(rows)), rel=1e-9
    )

    cost = estimate_cost(config, model, datasets, 2)
    said = "\n".join(describe_cost(cost, 1e9, describe_plan(cost)))

    assert "16 rows per step: 2 ranks x 4 micro-batches x 2 rows" in said


def test_rows_that_an_objective_makes_too_long_are_refused(tmp_path):
    data = {
        "data__shards": str(write_objective_sets(tmp_path, "masked_lm")),
        "output": str(tmp_path / "run"),
    }
    datasets = open_datasets(tiny(model__position={"maximum": 64}, **data))
    datasets.corruptions.update(dict.fromkeys(datasets.heldout, lambda rows, _: (rows, None)))
    config = tiny(**data)
    with refused(r"up to \d+ tokens, the model has 16 positions"):
        estimate_cost(config, SimpleNamespace(config=config.model), datasets, 1)


def packed_set(folder, *, apart):
    """20 rows of 12 tokens, of documents of 5, 4 and 3."""
    lists = [ids_of(uid, 12) for uid in range(1, 21)]
    starts = [np.array([0, 5, 9])] * 20
    places = [np.array([2, 7])] * 20
    columns = {
        "input_ids": Ragged.from_lists(lists, np.uint16),
        "label_positions": Ragged.from_lists(places, np.uint16),
        "label_ids": Ragged.from_lists([ids[[2, 7]] for ids in lists], np.uint16),
    }

    names = ["label_positions", "label_ids"]
    if apart:
        columns["document_starts"] = Ragged.from_lists(starts, np.uint16)
        names.append("document_starts")

    facts = {**objective("encoder"), "heads": ["masked_lm"]}
    content = RowBatch(fixed(np.arange(1, 21)), columns)
    return write_set(
        folder, [content], columns=(IDS, *map(list_column, names)), objective=facts
    ).path


def test_attention_of_documents_is_counted_by_document_and_filler_not_at_all(tmp_path):
    """20 rows over 8 lanes are 24 with filler, which ends the epoch: 4 of the last 8 rows are
    real."""
    found = {}

    for apart in (False, True):
        manifest = packed_set(tmp_path / str(apart), apart=apart)
        changes = {
            "data__lanes": 8,
            "evaluate__max_rows": 0,
            "data__shards": str(manifest),
            "output": str(tmp_path),
        }

        config = tiny(**changes)
        datasets = open_datasets(config)
        model = build_model(config.model, 1000, {})
        found[apart] = (estimate_cost(config, model, datasets, 1), model)

    cost, model = found[True]
    row = model.flops(12, 0, 2.0)
    # 3 passes, 2 layers, 4 products of width 20
    attention = 3 * 2 * 4 * 20 * (12 * 12 - 5 * 5 - 4 * 4 - 3 * 3)

    assert found[False][0].flops_until(16) == pytest.approx(16 * row)
    assert cost.flops_until(16) == pytest.approx(16 * (row - attention))
    assert [
        cost.flops_until(rows) / (row - attention) for rows in (20, 24, 40, 48)
    ] == pytest.approx([20, 20, 36, 40])

    for steps, read in ((2, ("192 tokens", "80%")), (3, ("240 tokens", "1 times"))):
        config = tiny(steps=steps, schedule={"name": "wsd"}, gradient_clipping=0.7, **changes)
        short = estimate_cost(with_key(config, "schedule.options.steps", steps), model, datasets, 1)
        said = "\n".join(describe_cost(short, 1e9, describe_plan(short)))

        assert all(
            part in said for part in ("20 rows of about 12 tokens", "fall sqrt", "0.7", *read)
        )
