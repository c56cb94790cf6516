"""Scores of a teacher: those of each label, in shards, and checked against the teacher."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from clozeline.configuration.config import to_data
from clozeline.errors import IntegrityError
from clozeline.extensions.compression.column_kinds import stored_scores as checks
from clozeline.extensions.compression.distillation import (
    score_shards,
    stored_scores,
    teacher_scores,
)
from clozeline.extensions.compression.distillation.score_shards import ColumnTask
from clozeline.extensions.compression.distillation.stored_scores import StoredScores
from clozeline.extensions.compression.distillation.teacher_model import open_teacher
from clozeline.extensions.compression.distillation.teacher_scores import (
    TeacherScores,
    draw_classes,
    plan_scores,
)
from clozeline.model.checkpoints.checkpoint import Checkpoint
from clozeline.pipeline.execution.unit_record import Output
from clozeline.pipeline.rows import Ragged, RowBatch
from clozeline.pipeline.shards import open_shards
from clozeline.seeding import TEACHER, kernel_keys, random_bits
from clozeline.tools.shards.validate_shards import validate
from clozeline.train.checkpoint.trained_model import TrainedModel
from tests.extensions.compression.distillation.pairs import model
from tests.extensions.compression.distillation.test_stored_scores import write_scores
from tests.pipeline.task_files import make_sets
from tests.refusals import refused
from tests.shard_sets import change_manifest, toy_set
from tests.train.masked_set import FIRST_WORD, WORDS, write_masked_sets
from tests.train.objective_sets import write_objective_sets

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    return open_shards(write_masked_sets(tmp_path_factory.mktemp("sets"), rows=41, heldout=3))


@pytest.fixture(autouse=True)
def few_labels_at_once(monkeypatch):
    monkeypatch.setattr(teacher_scores, "_MAX_CPU_LOGITS", 7 * (FIRST_WORD + WORDS))


def weights(shards, **changes):
    made = model(vocab_multiple=1, **changes)
    rows = shards.manifest.tokenizer.vocab_size
    tensors = {name: own.detach() for name, own in made.named_parameters()}
    cut = {name: own[:rows] if own.shape[:1] == (53,) else own for name, own in tensors.items()}
    config = made.config
    return TrainedModel(Path("runs/teacher"), Checkpoint(config, rows, cut, {}, None, ()))


def plan(shards, teacher, **changes):
    settings = {"head": None, "k": 5, "how": "top", "temperature": 1.0, "seed": 7, **changes}
    return plan_scores(teacher, shards, **settings)


def logits_of(shards, teacher, block):
    """Logits at the labels of each row, computed row by row."""
    alone = teacher.model
    rows = shards.read_block(block)
    found = []

    for row in rows:
        ids = torch.from_numpy(row["input_ids"].astype(np.int64))[None]
        tensors = {
            "input_ids": ids,
            "position_ids": torch.arange(ids.shape[1])[None],
            "lengths": torch.tensor([ids.shape[1]]),
            "row_weight": torch.ones(1),
        }

        with torch.no_grad():
            hidden = alone.family(tensors)
            states = hidden[0] if isinstance(hidden, torch.Tensor) else hidden.tokens[0]
            found.append(
                alone.heads["masked_lm"].logits(states[row["label_positions"].astype(np.int64)])
            )

    return found


@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_the_best_classes_of_each_label_are_stored(shards, temperature):
    teacher = weights(shards)
    scores = TeacherScores(teacher, shards, plan(shards, teacher, temperature=temperature), CPU)

    for block in (0, len(shards.index) - 1):
        columns = scores.score(shards.read_block(block)).columns

        assert columns["teacher_ids"].values.dtype == np.uint16
        assert columns["teacher_weights"].values.dtype == np.float16

        for number, logits in enumerate(logits_of(shards, teacher, block)):
            expected = (logits / temperature).softmax(-1).sort(-1, descending=True)
            ids = columns["teacher_ids"][number].reshape(-1, 5)
            np.testing.assert_array_equal(ids, expected.indices[:, :5])
            got = columns["teacher_weights"][number].reshape(-1, 5).astype(np.float64)
            np.testing.assert_allclose(got, expected.values[:, :5], rtol=1e-3, atol=1e-6)


def test_draws_depend_on_seed_and_row_alone(shards):
    """Not on the block or the batch: the inverse of the cumulative distribution, from bits of the
    row's key."""
    teacher = weights(shards)
    stored = plan(shards, teacher, how="drawn", k=6)
    rows = shards.read_block(0)
    together = TeacherScores(teacher, shards, stored, CPU).score(rows).columns

    for number in (0, 7, 15):
        row = rows.take(np.array([number]))
        key = kernel_keys(7, "teach", row.fixed["uid"], row.fixed["variant"])
        cumulative = logits_of(shards, teacher, 0)[number].double().softmax(-1).cumsum(-1).numpy()
        uniform = (random_bits(key, TEACHER, 6 * len(cumulative))[0] >> np.uint64(11)).reshape(
            -1, 6
        ) / 2.0**53
        for label, own in enumerate(uniform):
            drawn = [int(np.argmax(cumulative[label] / cumulative[label][-1] > u)) for u in own]
            ids, shares = (
                together[name][number].reshape(-1, 6)[label]
                for name in ("teacher_ids", "teacher_weights")
            )
            expected = {word: drawn.count(word) / 6 for word in drawn}
            kept = dict(zip(ids[shares > 0].tolist(), shares[shares > 0].tolist(), strict=True))

            assert kept == pytest.approx(expected, rel=1e-3)

    other = (
        TeacherScores(teacher, shards, plan(shards, teacher, how="drawn", k=6, seed=8), CPU)
        .score(rows)
        .columns
    )

    assert (other["teacher_ids"].values != together["teacher_ids"].values).any()


def test_a_draw_at_the_end_of_the_range_is_a_class():
    uniform = torch.tensor([[0.0, 1.0 - 2.0**-53]], dtype=torch.float64)
    ids, shares = draw_classes(torch.tensor([[0.0, 0.0, -200.0]]), uniform, 1.0)
    assert (ids.tolist(), shares.tolist()) == ([[0, 1]], [[0.5, 0.5]])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"k": 51}, "k: the head masked_lm has 50 classes, expected at most as many, got 51"),
        ({"head": "tagging"}, "head: expected a head of the teacher .*: masked_lm; got tagging"),
    ],
)
def test_refusals(shards, tmp_path, changes, message):
    with refused(message):
        plan(shards, weights(shards), **changes)
    with refused("for the architecture decoder, the teacher runs/teacher is encoder"):
        plan(toy_set(tmp_path / "decoder", [3]), weights(shards))


@pytest.mark.parametrize(
    ("objective", "heads"),
    [
        ("replaced_token_detection", {"token": 1.0}),
        ("sentence_comparison", {"similarity": {"group_size": 4}}),
        ("sst2", {"classification": {"multi_label": True, "classes": 3}}),
        ("sst2", {"regression": 1.0, "tagging": {"classes": 3}}),
    ],
)
def test_heads_without_a_distribution_for_each_label_are_refused(
    objective, heads, shards, tmp_path
):
    """Yes or no for each token, vectors, several classes of a row, numbers.

    Or labels of another head.
    """
    path = (
        make_sets(tmp_path) / "train"
        if objective == "sst2"
        else write_objective_sets(tmp_path, objective, 9, 3)
    )

    with refused(r"head: expected a head of the teacher with classes .* there is none"):
        plan(open_shards(path), weights(shards, heads=heads))


STORED = StoredScores(
    source="bert", digest="d", head="masked_lm", k=2, how="top", temperature=1.0, seed=0, batch=32
)


def prepare(tmp_path, monkeypatch):
    """A set of two shards with three blocks each, and a teacher with random weights."""
    manifest = write_masked_sets(tmp_path / "sets", rows=75)
    teacher = weights(open_shards(manifest))
    monkeypatch.setattr(score_shards, "open_teacher", lambda *_: teacher)
    return ColumnTask(Path("bert"), manifest, tmp_path / "columns", STORED)


@pytest.fixture
def task(tmp_path, monkeypatch):
    """A set of two shards with three blocks each, and a teacher with random weights that any path
    opens."""
    made = prepare(tmp_path, monkeypatch)
    monkeypatch.setattr(checks, "open_teacher", score_shards.open_teacher)
    weights = score_shards.open_teacher(made.run, None, open_shards(made.shards), "RUN")
    plain = {**to_data(made.stored), "digest": weights.weights_digest}
    return made._replace(stored=stored_scores.StoredScores(**plain))


def taught(task):
    """The column set of the task."""
    shards = open_shards(task.shards)

    assert list(score_shards.write_shards(task, shards, 1)) == [0, 1]

    facts = shards.manifest
    parents = [{"name": facts.name, "digest": shards.digest, "role": "rows"}]
    score_shards.writer_of(shards, task.stored).write_manifest(
        Output(task.output),
        name="scores",
        kind="columns",
        seed=0,
        parents=parents,
        tokenizer=facts.tokenizer.model_dump(),
        config=task.stored.to_config(),
    )

    return open_shards(task.output)


def test_a_sample_of_blocks_is_computed_again(task):
    taught(task)
    alone = validate(task.output)

    assert (alone.rows, alone.blocks, alone.shards, alone.scores) == (75, 6, 2, None)

    scores = validate(task.output, task.shards, teacher=task.run).scores

    assert (scores.blocks, scores.computed_again) == (6, 3)


def test_scores_of_something_else_are_noticed(task, monkeypatch):
    score = score_shards.TeacherScores.score

    def other_classes(self, rows):
        columns = dict(score(self, rows).columns)
        ids = columns["teacher_ids"]
        return RowBatch(
            {}, {**columns, "teacher_ids": Ragged(ids.values[::-1].copy(), ids.offsets)}
        )

    with monkeypatch.context() as patch:
        patch.setattr(score_shards.TeacherScores, "score", other_classes)
        taught(task)

    with pytest.raises(
        IntegrityError, match=r"block 0: expected the scores that bert computes, .* entries differ"
    ):
        validate(task.output, task.shards, teacher=task.run)


def test_another_teacher_and_other_rows_are_refused(task, tmp_path):
    shards = open_shards(task.shards)
    other = write_scores(tmp_path / "other", shards, digest="e" * 32)
    with refused("teacher=bert: has weights of digest"):
        validate(other, task.shards, teacher=task.run)

    with refused("name the set that the columns were made from"):
        validate(other, task.shards.parents[1] / "heldout")


def test_a_teacher_of_the_classes_in_another_order(tuned, tmp_path):
    sets = shutil.copytree(tuned.parent / "out/tasks/sst2/train", tmp_path / "train")
    change_manifest(
        sets, lambda each: each["objective"]["options"]["task"].update(labels=["1", "0"])
    )
    with refused("class 0 of the head classification is '1'"):
        open_teacher(tuned, None, open_shards(sets), "distil.teacher")
