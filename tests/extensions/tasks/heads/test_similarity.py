"""Cosines of pairs, by a model whose vectors are computed here text by text, and those of what has
learned nothing."""

import math
from collections import Counter

import pytest
import torch
from scipy import stats
from torch.nn.functional import cosine_similarity

from clozeline.extensions.tasks.readers import TaskMetadata, read_task_metadata
from clozeline.extensions.tasks.scores import scores_of
from clozeline.extensions.tasks.task_heads.similarity import SimilarityTaskHead
from clozeline.extensions.tasks.task_run import TaskRun, set_rows
from clozeline.model.build import build_model
from clozeline.model.configuration.key_types import UNIT_RANGE
from clozeline.pipeline.execution.recipe_command import main
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.tokenize.tokenizers import find_tokenizer
from clozeline.train.data.sets.recorded_sets import describe_set
from clozeline.train.data.stream.phases import Input
from tests.model.small_models import small_config
from tests.pipeline.task_files import WORDS, write_vocabulary
from tests.train.synthetic import tiny
from tests.train.written_runs import opened as opened_run

READERS = {
    "stsb": "{reader: {name: glue, task: stsb}, similarity: {positive: 4.0}}",
    "bitext": "{reader: {name: text_to_text, source: sentence1, target: sentence2}, similarity: {}}",
}


def opened(folder, task):
    """A model that has learned nothing yet, as a run of the task."""
    files = folder / "files"
    files.mkdir()
    rows = [
        (f"{WORDS[i % 7]} {WORDS[i % 5 + 3]} film", f"{WORDS[i % 4]} {WORDS[i % 6]}", i % 6)
        for i in range(40)
    ]

    for split in ("train", "dev"):
        table = "".join(f"{first}\t{second}\t{score}\n" for first, second, score in rows)
        (files / f"{split}.tsv").write_text(f"sentence1\tsentence2\tscore\n{table}")

    given = ", ".join(
        f"{{path: {files / split}.tsv, source: {split}}}" for split in ("train", "dev")
    )
    recipe = folder / "recipe.yaml"
    recipe.write_text(f"corpus: toy\nseed: 1\ntasks: {READERS[task]}\n")
    words = [
        f"input=[{given}]",
        f"tokenizer.path={write_vocabulary(folder / 'words')}",
        f"output={folder}/out",
    ]

    assert main(["--config", str(recipe), *words]) == 0

    (sets,) = (folder / "out/tasks").glob("*/train")
    train, dev = (open_shards(sets.with_name(split)) for split in ("train", "dev"))
    facts = train.manifest.tokenizer
    heads = {"similarity": {"pool": "mean", "group_size": 2}}
    config = tiny(model__heads=heads).model
    model = build_model(config, facts.vocab_size, facts.special_ids, seed=3).eval()
    sets = (describe_set(train.path, Input(train)),)
    of_task = read_task_metadata(train.manifest)
    (head,) = heads
    trained = opened_run(model, find_tokenizer(train.path, facts.fingerprint).parent, sets)
    return TaskRun(trained, of_task, head, dev, train, 0)


def vector(run, ids):
    row = {
        "input_ids": torch.tensor([ids]),
        "position_ids": torch.arange(len(ids))[None],
    }
    with torch.no_grad():
        states = run.trained.model.family({**row, "lengths": torch.tensor(len(ids))})
    return states[0].mean(0)


def alike(first, second):
    """Return the cosine of two counts of tokens."""
    lengths = (math.sqrt(sum(count**2 for count in one.values())) for one in (first, second))
    return sum(first[token] * second[token] for token in first) / math.prod(lengths)


def test_cosines_and_their_rank_correlation(tmp_path):
    """The share of a process holds its rows alone, with the numbers that one process gives."""
    run = opened(tmp_path, "stsb")
    rows = set_rows(run.shards)
    found = run.answer.predict(run.task, rows)
    expected = []
    for row in rows:
        first, second = (vector(run, row[side].tolist()) for side in ("input_ids", "input_ids_b"))
        expected.append(float(cosine_similarity(first, second, dim=0)))

    assert [found[row] for row in range(len(rows))] == pytest.approx(expected, abs=1e-5)

    shares = [run.answer.predict(run.task, rows, rank, 3) for rank in range(3)]

    assert {key: value for share in shares for key, value in share.items()} == found
    assert sum(map(len, shares)) == len(rows) == 40

    scores = scores_of(run, rows, found)
    targets = rows.columns["target"].values

    assert scores["metrics"]["spearman"] == pytest.approx(
        stats.spearmanr(targets, expected).statistic, abs=1e-6
    )

    shared = [
        alike(*(Counter(row[side].tolist()) for side in ("input_ids", "input_ids_b")))
        for row in rows
    ]

    assert scores["baselines"].keys() == {"words"}
    assert scores["baselines"]["words"]["spearman"] == pytest.approx(
        stats.spearmanr(targets, shared).statistic
    )


def test_aligned_texts_find_each_other(tmp_path):
    """A text is found where no other is nearer; two that are equal are both right."""
    run = opened(tmp_path, "bitext")
    rows = set_rows(run.shards)
    first, second = (
        torch.stack([vector(run, row[side].tolist()) for row in rows])
        for side in ("input_ids", "input_ids_b")
    )
    cosines = cosine_similarity(first[:, None], second[None], dim=-1)
    expected = (cosines.diagonal() >= cosines.amax(1) - 1e-5).double().tolist()
    found = run.answer.predict(run.task, rows)

    assert [found[row] for row in range(len(rows))] == expected
    assert 0 < sum(expected) < len(rows)

    scores = scores_of(run, rows, found)

    assert scores["metrics"] == {"accuracy": pytest.approx(sum(expected) / len(rows))}

    counts = [
        [Counter(row[side].tolist()) for row in rows] for side in ("input_ids", "input_ids_b")
    ]
    nearest = [
        alike(one, counts[1][row]) >= max(alike(one, other) for other in counts[1]) - 1e-9
        for row, one in enumerate(counts[0])
    ]

    assert scores["baselines"] == {
        "words": {"accuracy": pytest.approx(sum(nearest) / len(nearest))}
    }


@pytest.mark.parametrize(
    ("head", "alike_from", "expected"),
    [
        ({"negatives": "other"}, 4.0, (4.0, UNIT_RANGE)),
        ({"negatives": "none"}, 4.0, (4.0, (0.0, 5.0))),
        ({"negatives": "none"}, None, (None, (0.0, 5.0))),
        (
            {"negatives": "none", "range": (1.0, 2.0)},
            None,
            (None, (1.0, 2.0)),
        ),
    ],
)
def test_a_set_gives_the_head_its_lowest_positive_score_and_its_range(head, alike_from, expected):
    facts = TaskMetadata(
        name="t", head="similarity", metrics=("spearman",), high=5.0, positive_threshold=alike_from
    )
    model = small_config("encoder", heads={"similarity": head})
    found = SimilarityTaskHead(facts).configure(model, "similarity", "here")

    assert (found.positive_threshold, found.range) == expected
