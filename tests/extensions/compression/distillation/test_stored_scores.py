import numpy as np
import pytest

from clozeline.configuration.config import load_config
from clozeline.extensions.compression.distillation.stored_scores import (
    StoredScores,
    read_stored_scores,
)
from clozeline.pipeline.block_options import Compression
from clozeline.pipeline.execution.unit_record import Output
from clozeline.pipeline.rows import Ragged, RowBatch
from clozeline.pipeline.shards import SetWriter, open_shards
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.data.sets.datasets import open_datasets, open_stream
from tests.refusals import refused
from tests.shard_sets import list_column
from tests.train.masked_set import write_config, write_masked_sets

SPECS = [list_column("teacher_ids"), list_column("teacher_weights", "float16")]
STORED = {
    "source": "bert",
    "digest": "d" * 32,
    "head": "masked_lm",
    "k": 2,
    "how": "top",
    "temperature": 2.0,
    "seed": 0,
    "batch": 32,
}


def write_scores(folder, shards, **changes):
    """Scores that name their label: ids (label, label - 1) and weights (label / 64, 1 / 4)."""
    stored = StoredScores(**{**STORED, **changes})
    facts = shards.manifest
    writer = SetWriter(
        "", len(facts.shards), SPECS, facts.block_rows, compression=Compression(codec="none")
    )

    for shard in range(len(facts.shards)):
        blocks = []

        for block in np.flatnonzero(shards.index.shard == shard).tolist():
            labels = shards.read_block(block).columns["label_ids"]
            ids = np.stack([labels.values, labels.values - 1], -1).reshape(-1).astype(np.uint16)
            weights = np.stack([labels.values / 64, np.full(len(labels.values), 0.25)], -1).reshape(
                -1
            )
            columns = {
                "teacher_ids": Ragged(ids, labels.offsets * 2),
                "teacher_weights": Ragged(weights.astype(np.float16), labels.offsets * 2),
            }
            blocks.append(RowBatch({}, columns))

        writer.write_shard(Output(folder), shard, blocks)

        assert writer.is_written(Output(folder), shard)

    parents = [{"name": facts.name, "digest": shards.digest, "role": "rows"}]
    writer.write_manifest(
        Output(folder),
        name="scores",
        kind="columns",
        seed=0,
        tokenizer=facts.tokenizer.model_dump(),
        parents=parents,
        config=stored.to_config(),
    )

    return folder


@pytest.fixture
def opened(tmp_path):
    """Open the data of a configuration; words, with `SET` and `COLUMNS` for the paths."""
    shards = write_masked_sets(tmp_path / "sets", rows=41, heldout=3)
    config = write_config(tmp_path / "train.yaml", shards, tmp_path / "run", evaluate__max_rows=0)

    def open_data(*words, **changes):
        columns = write_scores(
            tmp_path / f"columns-{len(list(tmp_path.iterdir()))}", open_shards(shards), **changes
        )
        named = [
            word.replace("SET", str(shards)).replace("COLUMNS", str(columns)) for word in words
        ]
        given = [f"data.shards={{path: {shards}, columns: [{columns}]}}", *named]
        loaded = load_config(TrainConfig, config, given)

        return loaded, open_datasets(loaded)

    return open_data


DISTIL = "distil={losses: [{name: scores, temperature: 2}]}"


@pytest.mark.parametrize(
    "words", [(), ("data.length_buckets=true",), ("data.lanes=2", "data.micro_batch=4")]
)
def test_scores_arrive_with_their_labels(opened, words):
    config, datasets = opened(DISTIL, *words)
    stored = read_stored_scores(datasets.train)

    assert stored is not None

    with open_stream(config.data, datasets.phases, 0, 1) as stream:
        for _ in range(12):  # more than two epochs, filler rows among them
            for batch in stream.next_step():
                labels = batch.tensors["label_ids"].numpy()
                ids, weights = (
                    batch.tensors[name].numpy() for name in ("teacher_ids", "teacher_weights")
                )

                assert (ids.dtype, weights.dtype) == (np.int64, np.float32)

                expected = np.stack([labels, labels - 1], -1)

                np.testing.assert_array_equal(ids, expected if len(labels) else np.zeros((0, 0)))
                np.testing.assert_array_equal(
                    weights[:, :1].ravel(), (labels / 64).astype(np.float16)
                )


def test_the_state_of_a_stream_names_the_columns(opened):
    keys = [
        opened(DISTIL, **changes)[1].phases[0].sources[0].key
        for changes in ({}, {}, {"digest": "e" * 32})
    ]

    assert keys[0] == keys[1] != keys[2]
    assert keys[0].digest == keys[2].digest


@pytest.mark.parametrize(
    ("words", "changes", "message"),
    [
        *(
            (words, {}, "teacher_ids is for distil, with the loss scores and without a teacher")
            for words in ((), ("distil.teacher=/bert",), ("distil={losses: [cosine]}",))
        ),
        ((DISTIL,), {"temperature": 1.5}, r"scores.temperature: .* was computed with 1.5, got 2.0"),
        ((DISTIL,), {"how": "drawn"}, r"scores.how: .* was computed with drawn, got top"),
        ((DISTIL,), {"head": "lm"}, "scores of the teacher's head lm, the student has masked_lm"),
        (
            (
                DISTIL,
                "data.shards=null",
                "data.phases=[{shards: {path: SET, columns: [COLUMNS]}, until_samples: 8}, "
                "{shards: SET}]",
            ),
            {},
            "cannot be read by one stream: columns with several values of each label belong",
        ),
    ],
)
def test_scores_that_contradict_the_run_are_refused(opened, words, changes, message):
    with refused(message):
        opened(*words, **changes)


def test_two_teachers_in_one_run_are_refused(opened, tmp_path):
    shards = open_shards(write_masked_sets(tmp_path / "more", rows=41, heldout=3, name="more"))
    other = write_scores(tmp_path / "other", shards, digest="e" * 32)
    both = (
        f"data.shards=[{{path: SET, columns: [COLUMNS]}}, {{path: {shards.path}, columns: "
        f"[{other}]}}]"
    )

    with refused(r"another set of this run has the stored scores of bert .* one teacher"):
        opened(DISTIL, both)

    same = write_scores(tmp_path / "same", shards)
    opened(DISTIL, both.replace(str(other), str(same)))
