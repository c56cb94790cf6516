"""Heads that count something else than masked tokens: their losses do not depend on ranks and
micro-batches."""

from collections import namedtuple
from pathlib import Path

import pytest

from clozeline.train.logs.json_lines import read_lines
from tests.matrices import mark_slow_but
from tests.train.masked_set import write_config
from tests.train.objective_sets import GENERATOR, MASKED, XLNET, write_objective_sets
from tests.train.runs import start

# options of the objective, and keys of the model
Case = namedtuple("Case", "objective family heads options model", defaults=({}, {}))
PAIRS = {"temperature": 1.0, "group_size": 4, "negatives": "both"}
CASES = {
    "nsp": Case(
        "next_sentence_prediction",
        "encoder",
        {**MASKED, "sentence": 1.0},
        model={"type_vocab_size": 2},
    ),
    "sbo": Case("span_boundary", "encoder", {**MASKED, "span_boundary": 1.0}),
    "clm": Case(
        "corrective_lm",
        "encoder",
        {"corrective": 1.0, "similarity": PAIRS},
        {"replacement": "shuffle"},
    ),
    "generator": Case("masked_lm", "replaced_tokens", {**MASKED, "token": 50.0}, model=GENERATOR),
    "plm": Case(
        "permuted_lm", "xlnet", {"masked_lm": {"transform": False}}, {"frame": "xlnet"}, XLNET
    ),
}


def learn(world, config, output, overrides):
    assert start(world, config, [f"output={output}", *overrides]) == (0, "")
    return read_lines(Path(output) / "metrics.jsonl") if world.rank == 0 else []


@pytest.mark.parametrize("name", mark_slow_but(["generator"], CASES))
def test_ranks_and_micro_batches_change_nothing(one_rank, two_ranks, tmp_path, name):
    case = CASES[name]
    config = write_config(
        tmp_path / "train.yaml",
        write_objective_sets(tmp_path / "set", case.objective, **case.options),
        tmp_path,
        model__family=case.family,
        model__heads=case.heads,
        model__dim=32,
        model__ffn_dim=64,
        model__dropout={},
        **{
            f"model__{key}": value
            for key, value in ({"position": {"maximum": 64}} | case.model).items()
        },
        data__global_batch=16,
        steps=3,
        evaluate__every=3,
    )

    (alone,) = one_rank.run(learn, config, str(tmp_path / "one"), ["data.micro_batch=16"])
    together, _ = two_ranks.run(
        learn, config, str(tmp_path / "two"), ["data.micro_batch=4", "zero.stage=2"]
    )
    steps = [[record for record in records if "losses" in record] for records in (alone, together)]

    assert len(steps[0]) == 3

    for mine, theirs in zip(*steps, strict=True):
        assert theirs["losses"].keys() == case.heads.keys()
        assert theirs["losses"] == pytest.approx(mine["losses"], rel=1e-5)
        assert theirs["gradient_norm"] == pytest.approx(mine["gradient_norm"], rel=1e-4)
        assert theirs.get("figures", {}) == pytest.approx(mine.get("figures", {}), rel=1e-12)
        assert theirs["tokens"] == mine["tokens"]

    ours, others = (records[-1]["heldout"]["heldout"] for records in (alone, together))

    assert others["losses"] == pytest.approx(ours["losses"], rel=1e-5)

    judging = case.heads.keys() & {"token", "corrective"}
    figures = {
        f"{head}/{of}": ours["figures"][f"{head}/{of}"]
        for head in judging
        for of in ("accuracy", "replaced")
    }

    assert all(0 < share < 1 for share in figures.values())

    assert others.get("figures", {}) == pytest.approx(ours.get("figures", {}), rel=1e-12)
    assert others["labels"] == ours["labels"]
