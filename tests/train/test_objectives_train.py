"""Objectives with heads of their own are learnt, and their losses do not depend on ranks and micro-batches."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from clozeline.train.distributed.process_group import World
from clozeline.train.logs.json_lines import read_lines, step_records
from tests.distributed import RankPool
from tests.train.masked_set import write_config
from tests.train.objective_sets import write_objective_sets
from tests.train.runs import start

STEPS = 30


@dataclass(frozen=True)
class Case:
    """An objective, the family and the heads that learn it, and the options of both."""

    objective: str
    family: str
    heads: dict[str, Any]
    options: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)


MASKED: dict[str, Any] = {"masked_lm": 1.0}
LM: dict[str, Any] = {"lm": 1.0}
MODES = ("bidirectional", "left_to_right", "right_to_left", "prefix")
PAIR, PAIRED = {"max_length": 64}, ("bidirectional", "prefix")
TYPES = {"type_vocab_size": 2}
GENERATOR = {"generator": {"layers": 1, "dim": 16, "attention_heads": 2, "ffn_dim": 32}}
XLNET = {"position": {"kind": "sinusoidal"}, "bias": {"qkv": False, "out": False}}
WINDOWS = {
    "position": {"kind": "rope", "theta": 1000.0},
    "local": {"window": 4, "global_every": 2, "theta": 100.0},
    "bias": {"qkv": False, "out": False, "ffn": False, "norm": False, "head": False},
}
BOTTLENECKS = TYPES | {
    "bottleneck_dim": 16,
    "feed_forwards": 2,
    "emb_dim": 16,
    "out_dim": 32,
    "norm_place": "post",
    "final_norm": False,
    "emb_norm": True,
}
ALBERT = TYPES | {"layers": 3, "share": {"groups": 1}, "emb_dim": 16}
RELATIVE = {
    "position": {"kind": "none", "maximum": 64, "disentangled": {"max_distance": 16, "mask_decoder": 2}},
    "norm_place": "post",
    "final_norm": False,
}
BUCKETS = RELATIVE | {
    "position": {
        "kind": "none",
        "maximum": 64,
        "disentangled": {"max_distance": 32, "buckets": 8, "shared_projections": True, "norm": True},
    },
    "embedding_sharing": "disentangled",
}
"""DeBERTa-v3's: relative places in both stacks, and a table of the discriminator's own."""
CASES = {
    "windows": Case("masked_lm", "encoder", MASKED, {"mask_rate": 0.3, "cross_documents": False}, WINDOWS),
    "nsp": Case("next_sentence_prediction", "encoder", {**MASKED, "sentence": 1.0}, model=TYPES),
    "bottlenecks": Case("next_sentence_prediction", "mobilebert", {**MASKED, "sentence": 1.0}, model=BOTTLENECKS),
    "sop": Case("sentence_order_prediction", "encoder", {**MASKED, "sentence": 1.0}, model=ALBERT),
    "sbo": Case("span_boundary", "encoder", {**MASKED, "span_boundary": 1.0}),
    "rtd": Case("replaced_token_detection", "encoder", {"token": 50.0}, {"replacement": "uniform"}),
    "clm": Case(
        "corrective_lm",
        "encoder",
        {"corrective": 1.0, "similarity": {"temperature": 1.0, "group_size": 4, "negatives": "both"}},
        {"replacement": "shuffle"},
    ),
    "generator": Case("masked_lm", "replaced_tokens", {**MASKED, "token": 50.0}, model=GENERATOR),
    "corrected generator": Case(
        "corrective_lm",
        "replaced_tokens",
        {**MASKED, "corrective": 1.0, "similarity": {"temperature": 1.0, "group_size": 4, "negatives": "both"}},
        model=GENERATOR,
    ),
    "disentangled": Case(
        "replaced_token_detection",
        "replaced_tokens",
        {**MASKED, "token": 50.0},
        model=GENERATOR | {"embedding_sharing": "disentangled"},
    ),
    "relative places": Case("masked_lm", "encoder", MASKED, model=RELATIVE),
    "both disentangled": Case(
        "replaced_token_detection", "replaced_tokens", {**MASKED, "token": 50.0}, model=GENERATOR | BUCKETS
    ),
    "pairs": Case("sentence_comparison", "encoder", {"similarity": {"group_size": 4}}),
    "plm": Case("permuted_lm", "xlnet", {"masked_lm": {"transform": False}}, {"frame": "xlnet"}, XLNET),
    "plm half": Case("permuted_lm", "xlnet", {"masked_lm": {"transform": False}}, {"prediction_rate": 0.5}, XLNET),
}
"""Objectives with heads of their own."""
OTHERS = {
    **{name: Case(name, "encoder", MASKED) for name in ("masked_lm", "whole_word_masking")},
    "translation_lm": Case("translation_lm", "encoder", MASKED, model={"languages": 2}),
    "causal rows of an encoder": Case(
        "causal_lm",
        "encoder",
        MASKED,
        {"architecture": "encoder", "grouping": "document", "languages": True},
        model={"languages": 2},
    ),
    "modes of attention": Case(
        "mixture",
        "encoder",
        MASKED,
        {"parts": [{"name": "masked_lm", "label": mode, "attention": mode, "max_length": 64} for mode in MODES]},
        model={"type_vocab_size": 6},
    ),
    "pairs in two modes": Case(
        "mixture",
        "encoder",
        {**MASKED, "sentence": 1.0},
        {
            "parts": [
                *({"name": "next_sentence_prediction", **PAIR, "label": mode, "attention": mode} for mode in PAIRED),
                *(
                    {"name": "masked_lm", **PAIR, "label": mode, "attention": mode, "grouping": "sentence_pair"}
                    for mode in MODES[1:3]
                ),
            ]
        },
        model={"type_vocab_size": 6},
    ),
    **{name: Case(name, "decoder", LM) for name in ("causal_lm", "prefix_lm")},
    **{
        name: Case(name, "encoder_decoder", LM)
        for name in (
            *("composition", "denoising_autoencoding", "document_rotation", "masked_encoder_decoder", "mass"),
            *("mixture", "sentence_reordering", "span_corruption", "text_infilling", "text_to_text"),
            *("token_deletion", "token_reordering"),
        )
    },
}
"""Objectives that are learnt by predicting tokens alone."""
SOME = [pytest.param(case, id=name, marks=[] if name == "nsp" else pytest.mark.slow) for name, case in CASES.items()]
ALL = [*SOME, *(pytest.param(case, id=name, marks=pytest.mark.slow) for name, case in OTHERS.items())]


def learn(world: World, config: Path, output: str, overrides: list[str]) -> list[dict[str, Any]]:
    assert start(world, config, [f"output={output}", *overrides]) == (0, "")
    return read_lines(Path(output) / "metrics.jsonl") if world.rank == 0 else []


def configured(folder: Path, case: Case, **sizes: int) -> Path:
    shards = write_objective_sets(folder / "set", case.objective, **sizes, **case.options)
    return write_config(
        folder / "train.yaml", shards, folder / "unused", model__family=case.family, model__heads=case.heads,
        model__dim=32, model__ffn_dim=64, model__dropout={}, model__init={"std": 0.1},
        data__global_batch=16, data__micro_batch=8, data__lanes=4, optimizer__learning_rate=0.01, steps=STEPS,
        schedule__steps=STEPS, evaluate__every=STEPS, checkpoint__every=None,
        **{f"model__{key}": value for key, value in ({"position": {"maximum": 64}} | case.model).items()},
    )  # fmt: skip


@pytest.mark.parametrize("case", ALL)
def test_the_loss_falls(two_ranks: RankPool, tmp_path: Path, case: Case) -> None:
    """The start refuses columns that nothing reads; none is left unread on purpose here."""
    records, _ = two_ranks.run(learn, configured(tmp_path, case), str(tmp_path / "run"), ["zero.stage=2"])
    losses = [record["loss"] for record in step_records(records)]
    assert len(losses) == STEPS
    assert sum(losses[-5:]) < 0.97 * sum(losses[:5])
    heldout = records[-1]["heldout"]["heldout"]
    assert math.isfinite(heldout["loss"])
    assert heldout["losses"].keys() == case.heads.keys()
    assert all(math.isfinite(loss) and loss > 0 for loss in heldout["losses"].values())
    judging = case.heads.keys() & {"token", "corrective"}
    figures = {f"{head}/{name}" for head in judging for name in ("accuracy", "replaced")}
    for found in (records[0].get("figures", {}), heldout.get("figures", {})):
        assert found.keys() == figures
        assert all(0 < share < 1 for share in found.values())


@pytest.mark.parametrize("case", SOME)
def test_ranks_and_micro_batches_change_nothing(
    one_rank: RankPool, two_ranks: RankPool, tmp_path: Path, case: Case
) -> None:
    config = configured(tmp_path, case)
    few = ["steps=3", "evaluate.every=3", "optimizer.learning_rate=1e-3"]
    (alone,) = one_rank.run(learn, config, str(tmp_path / "one"), [*few, "data.micro_batch=16"])
    together, _ = two_ranks.run(learn, config, str(tmp_path / "two"), [*few, "data.micro_batch=4", "zero.stage=2"])
    steps = [[record for record in records if "losses" in record] for records in (alone, together)]
    assert len(steps[0]) == len(steps[1]) == 3
    for mine, theirs in zip(*steps, strict=True):
        assert theirs["loss"] == pytest.approx(mine["loss"], rel=1e-5)
        assert theirs["gradient_norm"] == pytest.approx(mine["gradient_norm"], rel=1e-4)
        assert theirs["losses"] == pytest.approx(mine["losses"], rel=1e-5)
        assert theirs.get("figures", {}) == pytest.approx(mine.get("figures", {}), rel=1e-12)
        assert theirs["tokens"] == mine["tokens"]
    ours, others = (records[-1]["heldout"]["heldout"] for records in (alone, together))
    assert others["losses"] == pytest.approx(ours["losses"], rel=1e-5)
    assert others.get("figures", {}) == pytest.approx(ours.get("figures", {}), rel=1e-12)
    assert others["labels"] == ours["labels"]
