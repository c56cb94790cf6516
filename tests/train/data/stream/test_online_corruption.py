"""Corrupting in the stream gives what corrupting beforehand stores."""

import shlex
import shutil
from pathlib import Path

import fsspec
import numpy as np
import pytest

from clozeline.configuration.config import validate
from clozeline.errors import ConfigurationError
from clozeline.pipeline.corrupt.config import NamedObjective
from clozeline.pipeline.corrupt.objectives import build_objective
from clozeline.pipeline.recipe import load_recipe, recipe_text
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.shards.manifest import ManifestError
from clozeline.pipeline.shards.tables import TOKEN_COUNTS_FILE
from clozeline.train.data.stream.collate import Collate
from clozeline.train.data.stream.online_corruption import corruption_of
from clozeline.train.data.stream.phases import Input
from tests.pipeline.token_sets import WORDS, recipe, run_stage, write_counts, write_token_set
from tests.refusals import refused
from tests.shard_sets import rows, write_set
from tests.train.data.stream.streams import ToyCorruption, open_stream


@pytest.mark.parametrize("threads", [0, 2])
def test_rows_that_a_kernel_skips_have_no_weight_and_a_pass_uses_variant_zero(tmp_path, threads):
    samples = write_set(tmp_path, [rows(range(1, 30))], kind="samples", objective=None)
    seen = set()

    def skip_even(batch, variants):
        seen.update(variants.tolist())
        return batch, (batch.fixed["uid"] % 2 == 0).astype(np.uint8)

    data = Input(samples, ToyCorruption(skip_even))
    with open_stream(
        data, lanes=2, global_batch=4, micro_batch=4, io_threads=threads, prefetch_blocks=0
    ) as stream:
        stream.set_position(5 * stream.samples_per_epoch)
        kept = [number for (batch,) in stream.one_pass() for number in batch.row_weight.tolist()]

        assert sum(kept) == 15, "of 29, those of odd numbers"
        assert stream.stats()["skipped_rows"] == 14
        assert seen == {0}

        (batch,) = stream.next_step()

        assert seen == {0, 5}

        uids = [
            int(samples.read_block(block).fixed["uid"][row])
            for _, block, row in batch.origin.tolist()
        ]

        assert batch.row_weight.tolist() == [uid % 2 for uid in uids]


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    """Samples and two stored variants of four objectives, as the pipeline writes them."""
    out = tmp_path_factory.mktemp("chain")
    write_token_set(out, [(31 * document) % 90 for document in range(120)])
    write_counts(out / "encode", (np.arange(WORDS.size) % 3 == 0).astype(np.uint64))
    made = recipe(out, [{**entry, "variants": 2} for entry in ENTRIES], heldout=0.3)
    run_stage(made, "group")
    run_stage(made, "corrupt")
    return out


def test_random_ids_occur_in_the_corpus_and_their_counts_are_a_part_of_the_state(chain):
    """A resumed stream whose counts are gone, or others, would draw other ids: it is another
    stream."""
    entry = {"name": "masked_lm", "max_length": 34, "mask_share": 0.0, "random_share": 1.0}
    samples = open_shards(chain / "group" / build_objective(entry, WORDS).grouping.label / "train")
    entries = [validate(NamedObjective, {"objective": entry}, "data.corrupt")]
    rows = samples.read_block(0)
    corruption = corruption_of(entries, samples)
    examples, _ = corruption(rows, np.zeros(len(rows), np.uint16))
    offsets = np.repeat(
        examples.columns["input_ids"].offsets[:-1], examples.columns["label_positions"].lengths
    )
    drawn = examples.columns["input_ids"].values[
        offsets + examples.columns["label_positions"].values
    ]

    assert len(drawn) > 100
    assert not (drawn % 3).any()

    # a copy of the set is complete without the token set
    copy = chain / "copied" / "train"
    shutil.copytree(samples.path.parent, copy)

    assert corruption_of(entries, open_shards(copy)).identity == corruption.identity

    write_counts(copy, (np.arange(WORDS.size) % 6 == 0).astype(np.uint64))

    assert corruption_of(entries, open_shards(copy)).identity != corruption.identity

    (copy / TOKEN_COUNTS_FILE).unlink()
    with pytest.raises(ManifestError, match=r"token_counts\.arrow"):
        corruption_of(entries, open_shards(copy))


def test_each_set_gets_the_objective_that_reads_it(chain):
    """Of several; none or two are refused. The seed is that of the set."""
    several = [validate(NamedObjective, {"objective": entry}, "data.corrupt") for entry in ENTRIES]
    for entry in several:
        name = entry.build(WORDS).grouping.label
        samples = open_shards(chain / "group" / name / "train")
        found = corruption_of(several, samples)

        assert (found.objective.name, found.seed) == (entry.set_label, samples.manifest.seed)

        with refused("reads samples with"):
            corruption_of([other for other in several if other is not entry], samples)
        with refused("2 of its 5 objectives read"):
            corruption_of([*several, entry], samples)


def test_samples_that_are_not_there_are_made_by_what_the_message_says(chain, tmp_path):
    shutil.copytree(chain, out := tmp_path / "out")
    made = recipe(out, ENTRIES, heldout=0.3)
    (out / "group" / "config.yaml").write_text(recipe_text(made))  # as a pipeline does
    entry = validate(NamedObjective, {"objective": {**ENTRIES[0], "max_length": 20}}, "f")
    other = open_shards(out / "group" / made.corrupt[0].build(WORDS).grouping.label / "train")
    with pytest.raises(ConfigurationError) as caught:
        corruption_of([entry], other)
    _, command, words = (shlex.split(line) for line in str(caught.value).splitlines())

    assert words[-1] == "model.position.maximum=20"

    run_stage(load_recipe(Path(command[3]), command[4:]), "group")
    made_shards = open_shards(words[-2].partition("=")[2])

    assert corruption_of([entry], made_shards).objective.name == ENTRIES[0]["name"]

    with refused("train with data.shards="):  # they are there now
        corruption_of([entry], other)


def test_samples_in_a_store_need_the_tokenizer_where_the_run_starts(chain, tmp_path, monkeypatch):
    entry = validate(NamedObjective, {"objective": ENTRIES[0]}, "data.corrupt")
    folder = chain / "group" / entry.build(WORDS).grouping.label / "train"
    for file in folder.iterdir():
        fsspec.filesystem("memory").pipe_file(f"/online/{file.name}", file.read_bytes())
    samples = open_shards("memory://online")
    monkeypatch.chdir(tmp_path)

    with refused("start in the pipeline's output folder"):
        corruption_of([entry], samples)

    monkeypatch.chdir(chain)
    rows = samples.read_block(0)
    local = corruption_of([entry], open_shards(folder))
    variants = np.zeros(len(rows), np.uint16)
    found, skips = corruption_of([entry], samples)(rows, variants)
    expected, _ = local(rows, variants)

    assert not skips.all()

    for name, column in expected.columns.items():
        assert (found.columns[name].values == column.values).all()


ENTRIES = [
    {"name": "masked_lm", "max_length": 34},
    {"name": "span_corruption", "input_length": 34},
    {"name": "causal_lm", "max_length": 34},
    # on the samples of the first one, but for the lengths of its parts
    {
        "name": "mixture",
        "parts": [
            {"name": "masked_lm", "max_length": 34},
            {"name": "masked_lm", "label": "short", "max_length": 20},
        ],
    },
]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: str(entry["name"]))
@pytest.mark.parametrize("split", ["train", "heldout"])
def test_the_stream_gives_what_the_stage_stored(chain, monkeypatch, entry, split):
    """Epoch v of the samples is variant v of the examples, column by column.

    Rows not stored are filler.
    """
    read = []
    real = Collate.__call__

    def watch(self, columns, weight, sources):
        read.extend(
            {name: column[row].tolist() for name, column in columns.items()}
            for row in range(len(weight))
        )
        return real(self, columns, weight, sources)

    monkeypatch.setattr(Collate, "__call__", watch)
    stored = open_shards(chain / "corrupt" / entry["name"] / split)
    columns = Collate.from_manifest(stored.manifest).columns
    examples = {
        (int(row.fixed["variant"]), int(row.fixed["uid"])): {
            name: row[name].tolist() for name in columns
        }
        for block in range(len(stored.index))
        for row in stored.read_block(block)
    }

    grouping = build_objective(entry, WORDS).grouping.label
    samples = open_shards(chain / "group" / grouping / split)
    corruption = corruption_of(
        [validate(NamedObjective, {"objective": entry}, "data.corrupt")], samples
    )

    assert corruption.manifest(samples.manifest).objective == stored.manifest.objective
    assert corruption.manifest(samples.manifest).columns == stored.manifest.columns[7:], (
        "not those of the samples"
    )
    assert corruption.manifest(samples.manifest).max_length >= stored.manifest.max_length, (
        "not those of the samples"
    )

    with open_stream(Input(samples, corruption), global_batch=4, micro_batch=4) as stream:
        epochs = 2 if split == "train" else 1
        batches = [stream.next_step()[0] for _ in range(epochs * stream.order.lane_rows)]
        origins = np.concatenate([batch.origin for batch in batches])

    found = {}

    for number, ((source, block, row), lists) in enumerate(
        zip(origins.tolist(), read, strict=False)
    ):
        if source >= 0 and any(lists.values()):
            epoch = number // (len(origins) // epochs)
            found[epoch, int(samples.read_block(block).fixed["uid"][row])] = lists

    assert found == examples
