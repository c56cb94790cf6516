"""Published trainings: planned at full size, then run for 20 steps at a tiny size on sets of their
own recipes."""

import json
from itertools import pairwise

import pytest

from clozeline.configuration.config import load_config
from clozeline.pipeline.execution.recipe_command import main as run_pipeline
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.startup.announcements import dry_run
from tests.pipeline.miniature import text
from tests.recipes import RECIPES
from tests.train.runs import start, steps

SIZES = ["dim=16", "layers=3", "attention_heads=2", "ffn_dim=16"]
TINY = [*(f"model.{size}" for size in SIZES), "precision=fp32", "steps=20", "evaluate.max_rows=8"]
BATCHES = [8, 16, 24, 32, 40, 48, 6, 6]
RAMP = [
    f"data.phases.{number}.{key}"
    for number in range(8)
    for key in (f"global_batch={BATCHES[number]}",)
]
SHARES = [
    f"data.phases.{number}.share={share}" for number, share in enumerate([0.05] * 5 + [0.4, 0.2])
]
CASES = {
    "bert": (
        ["variant=published"],
        ["data.global_batch=16", "data.lanes=16", "schedule.warmup=2"],
        [16] * 20,
    ),
    "modernbert": (
        ["variant=published"],
        [
            "data.micro_batch=2",
            "data.lanes=2",
            "data.global_batch=48",
            "schedule.warmup=1",
            *RAMP,
            *SHARES,
        ],
        [
            8,
            16,
            24,
            32,
            40,
            *[48] * 8,
            *[6] * 7,
        ],
    ),
    "roberta": ([], ["data.global_batch=64", "schedule.warmup=2"], [64] * 20),
}
"""Words of the published training, further ones of the tiny one, and the rows of each of its
steps."""


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    path = tmp_path_factory.mktemp("texts") / "texts.jsonl"
    path.write_text(
        "".join(json.dumps({"text": text(number, 40)}) + "\n" for number in range(150)),
        encoding="utf-8",
    )
    return path


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_published_training_crosses_its_phases(name, texts, one_rank, tmp_path, capsys):
    words, smaller, rows = CASES[name]
    lengths = [
        "corrupt.0.max_length=64",
        *(["corrupt.1.max_length=256"] if name != "roberta" else []),
    ]
    made = [
        "clean.filters=[]",
        "clean.language=null",
        "train_tokenizer.size=600",
        "heldout.fraction=0.1",
    ]

    recipe = [
        "--config",
        f"recipe:{name}",
        f"input={texts}",
        f"output={tmp_path}",
        *made,
        "corrupt.variants=1",
    ]

    assert run_pipeline([*recipe, *lengths]) == 0

    sets = tmp_path / "corrupt"
    words = [*words, f"output={tmp_path / 'run'}", f"data.folder={sets}"]
    words += [] if name != "roberta" else [f"data.shards={sets / 'roberta' / 'train'}"]
    config = RECIPES / name / "train.yaml"

    assert dry_run(load_config(TrainConfig, config, words)) == 0

    planned = " ".join(capsys.readouterr().out.split())
    published = {
        "bert": "for 900,000 steps",
        "modernbert": "for 52,982 steps",
        "roberta": "8192 rows per step",
    }

    assert published[name] in planned
    assert one_rank.run(start, config, [*words, *TINY, *smaller]) == [(0, "")]

    records = [{"samples": 0, "tokens": 0}, *steps(tmp_path / "run")]

    assert [now["samples"] - before["samples"] for before, now in pairwise(records)] == rows
    # rows of the first phase have at most 64 tokens
    tokens = [now["tokens"] - before["tokens"] for before, now in pairwise(records)]
    longer = {"bert": 2, "modernbert": 7, "roberta": 0}[name]
    if name == "modernbert":
        assert [one["learning_rate"] for one in records[-8:]] == [8e-4, *[3e-4] * 7]
    long = [count > 64 * size for count, size in zip(tokens, rows, strict=True)]

    assert long == [False] * (20 - longer) + [True] * longer
