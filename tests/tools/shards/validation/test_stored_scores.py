import pytest

from clozeline.configuration.config import to_plain
from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.pipeline.execution.unit_record import Output
from clozeline.pipeline.rows import Ragged, Rows
from clozeline.pipeline.shards import open_shards
from clozeline.tools.models.teaching import score_shards
from clozeline.tools.shards.validate_shards import validate
from clozeline.tools.shards.validation import stored_scores as checks
from clozeline.train.data.sets import stored_scores
from tests.shard_sets import damage
from tests.tools.models.teaching.test_score_shards import prepare
from tests.train.data.sets.test_stored_scores import write_scores


@pytest.fixture
def task(tmp_path, monkeypatch):
    """A set of two shards with three blocks each, and a teacher with random weights that any path opens."""
    made = prepare(tmp_path, monkeypatch)
    monkeypatch.setattr(checks, "open_teacher", score_shards.open_teacher)
    weights = score_shards.open_teacher(made.run, None, open_shards(made.shards), "RUN")
    plain = {**to_plain(made.stored), "digest": weights.weights_digest}
    return made._replace(stored=stored_scores.StoredScores(**plain))


def taught(task):
    """The column set of the task."""
    shards = open_shards(task.shards)
    assert list(score_shards.write_shards(task, shards, 1)) == [0, 1]
    facts = shards.manifest
    parents = [{"name": facts.name, "digest": shards.digest, "role": "rows"}]
    score_shards.writer_of(shards, task.stored).write_manifest(
        Output(task.output), name="scores", kind="columns", seed=0, parents=parents,
        tokenizer=facts.tokenizer.model_dump(), config=task.stored.to_config(),
    )  # fmt: skip
    return open_shards(task.output)


def test_a_sample_of_blocks_is_computed_again(task):
    taught(task)
    assert validate(task.output).endswith("75 rows in 6 blocks of 2 shards, "
                                          f"{open_shards(task.output).manifest.totals.bytes:,} bytes; every hash and "
                                          "count agrees")  # fmt: skip
    line = validate(task.output, task.shards, teacher=task.run)
    assert line.endswith("; as many scores as labels in 6 blocks, 3 of them computed again")


def test_scores_of_something_else_are_noticed(task, monkeypatch):
    score = score_shards.TeacherScores.score

    def other_classes(self, rows):
        columns = dict(score(self, rows).columns)
        ids = columns["teacher_ids"]
        return Rows({}, {**columns, "teacher_ids": Ragged(ids.values[::-1].copy(), ids.offsets)})

    with monkeypatch.context() as patch:
        patch.setattr(score_shards.TeacherScores, "score", other_classes)
        taught(task)
    with pytest.raises(IntegrityError, match=r"block 0: expected the scores that bert computes, .* entries differ"):
        validate(task.output, task.shards, teacher=task.run)


def test_another_teacher_and_other_rows_are_refused(task, tmp_path):
    shards = open_shards(task.shards)
    other = write_scores(tmp_path / "other", shards, digest="e" * 32)
    with pytest.raises(ConfigurationError, match="--teacher bert: has weights of digest"):
        validate(other, task.shards, teacher=task.run)
    with pytest.raises(ConfigurationError, match="expected a column set, and --against its rows"):
        validate(task.shards, teacher=task.run)
    with pytest.raises(ConfigurationError, match="name the set that they were made from"):
        validate(other, task.shards.parents[1] / "heldout")


def test_damage_is_found_without_a_teacher(task):
    damage(taught(task), 4)
    with pytest.raises(IntegrityError, match="shard-00001"):
        validate(task.output)
