"""Steps of a number of tokens: the same rows as counted from the shards, at any world size and after any resume."""

from itertools import pairwise

import pytest
import yaml

from clozeline.pipeline.shards import open_shards
from clozeline.tools.shards.explain_batch import main
from clozeline.train.data.stream.phases import phase_of
from clozeline.train.data.stream.stream import Stream
from tests.train import runs
from tests.train.masked_set import write_masked_sets
from tests.train.runs import start
from tests.train.synthetic import plain_config

TOKENS, STEPS, CHANGE = 210, 6, 56


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    """Portions of 8 rows, and of 16 from sample 56 on, in the middle of a step."""
    folder = tmp_path_factory.mktemp("tokens")
    shards = str(write_masked_sets(folder / "sets"))
    plain = plain_config(model__dropout={}, steps=STEPS, schedule__steps=STEPS, output=str(folder / "straight"))
    phases = [{"shards": shards, "until_samples": CHANGE, "global_batch": 8}, {"shards": shards, "global_batch": 16}]
    plain["data"] = {**plain["data"], "phases": phases, "batch_tokens": TOKENS}
    del plain["data"]["shards"]
    (folder / "run.yaml").write_text(yaml.safe_dump(plain), encoding="utf-8")
    return folder / "run.yaml"


def counted(config):
    """Samples and tokens after each step, from the lengths of the stored rows."""
    shards = open_shards(config.parent / "sets" / "train" / "manifest.json")
    phases = [phase_of((shards,), until_samples=CHANGE, global_batch=8), phase_of((shards,), global_batch=16)]
    found, samples, tokens, of_step = [], 0, 0, 0
    with Stream(phases, rank=0, world_size=1, seed=0, global_batch=8, micro_batch=2, lanes=4) as stream:
        while len(found) < STEPS:
            portion = stream.explain(samples)
            lengths = [
                len(shards.read_block(block).row(row).columns["input_ids"]) for _, block, row in portion.tolist()
            ]
            samples, tokens, of_step = samples + len(portion), tokens + sum(lengths), of_step + sum(lengths)
            if of_step >= TOKENS:
                found.append((samples, tokens))
                of_step = 0
    return found


def test_steps_are_cut_by_tokens_at_every_world_size(one_rank, two_ranks, config, capsys):
    expected = counted(config)
    ends = [samples for samples, _ in expected]
    assert any(before < CHANGE < after for before, after in pairwise(ends))
    assert len({after - before for before, after in pairwise(ends)}) > 1
    assert one_rank.run(start, config, []) == [(0, "")]
    straight = runs.steps(config.parent / "straight")
    (phase,) = runs.events(config.parent / "straight", "phase")
    changed = next(step for step, samples in enumerate(ends, 1) if samples > CHANGE)
    assert (phase["phase"], phase["global_batch"], phase["step"]) == (1, 16, changed)
    assert [(record["samples"], record["tokens"]) for record in straight] == expected
    for number, steps in enumerate((2, 3, STEPS)):
        ranks, words = (two_ranks, one_rank)[number % 2], [f"output={config.parent / 'turns'}", f"steps={steps}"]
        assert set(ranks.run(start, config, [*words, "zero.stage=2"])) == {(0, "")}
    turns = runs.steps(config.parent / "turns")
    for mine, theirs in zip(straight, turns, strict=True):
        assert [mine[key] for key in ("samples", "tokens", "labels")] == [
            theirs[key] for key in ("samples", "tokens", "labels")
        ]
        assert theirs["loss"] == pytest.approx(mine["loss"], abs=1e-5)
        assert theirs["gradient_norm"] == pytest.approx(mine["gradient_norm"], rel=1e-4)
    assert main(["--run", str(config.parent / "straight"), "--step", "2", "--json"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == expected[1][0] - expected[0][0]
