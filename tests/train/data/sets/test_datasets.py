"""Runs over several sets, phases and samples, and the passes over them."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import yaml

from clozeline.configuration.config import load_config
from clozeline.errors import ClozelineError, IntegrityError
from clozeline.pipeline.row_form import RowForm
from clozeline.pipeline.rows import Ragged, RowBatch
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.configuration.data import DataConfig
from clozeline.train.data.sets.datasets import (
    check_languages,
    heldout_paths,
    open_datasets,
    open_stream,
)
from clozeline.train.data.sets.recorded_sets import (
    plan_steps,
    read_sets,
    record_sets,
    tokenizer_of_run,
)
from clozeline.train.data.stream.phases import open_phases
from clozeline.train.logs.json_lines import read_lines
from clozeline.train.startup.announcements import dry_run
from tests.pipeline.token_sets import recipe, run_stage, write_token_set
from tests.refusals import refused
from tests.shard_sets import list_column, objective, write_set
from tests.train.masked_set import COLUMNS, TOKENIZER, masked_rows, write_config, write_masked_sets
from tests.train.runs import complete
from tests.train.synthetic import plain_config


def config_file(path, data, **changes):
    plain = plain_config(output=str(path.with_suffix("")), **changes)
    del plain["data"]["shards"]
    plain["data"] |= data
    path.write_text(yaml.safe_dump(plain))
    return path


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sets")
    return [
        str(write_masked_sets(folder / name, rows=rows)) for name, rows in (("a", 200), ("b", 90))
    ]


def test_what_a_checkpoint_holds_of_the_data(one_rank, tmp_path, sets):
    """Changes of weights become phases where the run was.

    Weights count as they are drawn, however they are spelled.
    """
    mixed = tmp_path / "mixed.yaml"

    complete(one_rank, config_file(mixed, {"shards": sets}), ["steps=2"])
    complete(one_rank, config_file(mixed, {"shards": sets, "weights": [2.0, 2.0]}), ["steps=3"])
    assert len(plans_of(mixed)) == 1

    other = config_file(mixed, {"shards": sets, "weights": [3.0, 1.0]})

    complete(one_rank, other, ["steps=4"])
    complete(one_rank, other, ["steps=5"])
    complete(one_rank, config_file(mixed, {"shards": sets[1]}), ["steps=6"])
    assert [(counts, until) for _, counts, until, _ in plans_of(mixed)] == [
        ([2048, 2048], 24),
        ([3072, 1024], 40),
        ([1], None),
    ]

    events = [
        event
        for event in read_lines(mixed.with_suffix("") / "events.jsonl")
        if event["event"] == "new_phase"
    ]

    assert [event["samples"] for event in events] == [24, 40]


def plans_of(config):
    """The phases that the last start of a run recorded."""
    events = read_lines(config.with_suffix("") / "events.jsonl")
    return [event["plans"] for event in events if event["event"] == "data"][-1]


def test_problems_of_phases_end_a_dry_run(tmp_path, sets):
    def problem(data):
        with pytest.raises(ClozelineError) as caught:
            dry_run(load_config(TrainConfig, config_file(tmp_path / "c.yaml", data), []))
        return str(caught.value)

    assert "twice in one mixture" in problem({"shards": [sets[0], sets[0]]})

    samples = write_set(
        tmp_path / "samples",
        [masked_rows(1, 9)],
        kind="samples",
        objective=None,
        columns=COLUMNS,
        tokenizer=TOKENIZER,
    )

    assert "or set data.corrupt" in problem({"shards": str(samples.path)})
    assert "data.corrupt needs samples" in problem({"shards": sets[0], "corrupt": "masked_lm"})


def test_rows_that_weigh_alike_are_refused_beside_declared_weights(tmp_path, sets):
    rows = masked_rows(1, 9)
    rows = RowBatch(
        rows.fixed, {**rows.columns, "label_weight": Ragged.from_lists([[2.0]] * 9, np.float32)}
    )
    columns = (*COLUMNS, list_column("label_weight", "float32"))
    facts = {**objective("encoder"), "heads": ["masked_lm"]}
    weighted = write_set(
        tmp_path / "set", [rows], objective=facts, columns=columns, tokenizer=TOKENIZER
    )

    def config(path):
        by_row = {"masked_lm": {"weight": 1.0, "normalize": "row"}}
        written = config_file(tmp_path / "c.yaml", {"shards": path}, model__heads=by_row)
        return load_config(TrainConfig, written, [])

    with refused(r"model\.heads\.masked_lm\.normalize: row would mix two units"):
        open_datasets(config(str(weighted.path)))

    assert open_datasets(config(sets[0])).rows == 200

    weighted.shard_path(0).unlink()
    with pytest.raises(IntegrityError, match="the file is missing"):
        open_datasets(config(str(weighted.path)))


@pytest.mark.parametrize(
    ("columns", "embeddings", "message"),
    [
        (("input_ids",), 0, ""),
        (("input_ids",), 2, "corrupt with languages: true"),
        (("input_ids", "languages"), 3, ""),
        (
            ("input_ids", "languages"),
            2,
            r"has 3 languages \(de, en, ur\), the model 2 embeddings; set it to 3",
        ),
    ],
)
def test_every_token_has_a_language_embedding(columns, embeddings, message):
    manifest = SimpleNamespace(roles=dict.fromkeys(columns), languages=("de", "en", "ur"))
    if not message:
        check_languages(manifest, embeddings, Path("set"))
        return

    with refused(message):
        check_languages(manifest, embeddings, Path("set"))


AUTO = {"steps": "auto", "schedule__steps": None}


def stored(folder, is_fixed, variants, rows=2400):
    """A set of an objective that draws something or nothing, with corruptions of each sample."""
    facts = {**objective("encoder"), "heads": ["masked_lm"]}
    facts["frame"]["is_fixed"] = is_fixed
    return write_masked_sets(
        folder, rows=rows, name=folder.name, objective=facts, variants=variants
    )


@pytest.mark.parametrize(
    ("is_fixed", "variants", "asked", "steps", "reads"),
    [
        (False, 1, "auto", 2 * 2400 // 8, ""),  # each corruption twice
        (False, 3, "auto", 2 * 2400 // 8, ""),  # 6 passes over 800 samples
        (True, 1, "auto", 4 * 2400 // 8, ""),  # nothing is drawn: four passes
        (False, 3, "2.5 epochs", 250, ""),  # of 800 samples
        (True, 1, "1 epoch", 300, ""),
        (False, 2, 900, 900, "3"),
        (True, 1, 900, 900, ""),
    ],
)
def test_steps_of_stored_sets_and_how_often_corruptions_are_read(
    tmp_path, is_fixed, variants, asked, steps, reads, capsys
):
    shards = stored(tmp_path / "set", is_fixed, variants)
    changes = {"steps": asked, "schedule__steps": None}
    config = load_config(
        TrainConfig, write_config(tmp_path / "c.yaml", shards, tmp_path / "run", **changes), []
    )

    assert asked != "auto" or plan_steps(config.data, open_datasets(config).phases) == steps
    assert dry_run(config) == 0

    out = " ".join(capsys.readouterr().out.split())

    assert f"length {steps:,} steps, " in out
    assert ("by heart" in out) == bool(reads)

    if reads:
        assert f"(of {variants}) is read {reads} times" in out
        assert f"Store {3 * variants} " in out
        assert "data.corrupt" in out


@pytest.mark.parametrize("least", [60, 100, 700])
def test_a_run_in_batches_of_tokens_reads_as_often_as_promised(tmp_path, least):
    """Joined batches of 4 rows of 8 to 15 tokens exceed what they need: counted on the stream
    itself."""
    shards = stored(tmp_path / "set", True, 1, rows=4000)
    changes = {
        "steps": "auto",
        "schedule__steps": None,
        "data__global_batch": 4,
        "data__batch_tokens": least,
    }

    config = load_config(
        TrainConfig, write_config(tmp_path / "c.yaml", shards, tmp_path / "run", **changes), []
    )
    opened = open_datasets(config)
    planned = plan_steps(config.data, opened.phases)

    with open_stream(config.data, opened.phases, 0, 1) as stream:
        for _ in range(planned):
            tokens = 0
            while tokens < least:
                tokens += sum(int(batch.tensors["lengths"].sum()) for batch in stream.next_step())

    epochs = stream.samples / 4000

    assert 0.7 * 4 < epochs <= 4


def test_steps_of_samples_and_of_larger_sets(tmp_path):
    """Corrupted anew, samples are read 16 times.

    4 million tokens are enough, and every row is read once.
    """
    write_token_set(tmp_path, [40] * 80)
    run_stage(recipe(tmp_path, [entry := {"name": "masked_lm", "max_length": 16}]), "group")
    data = {"shards": str(tmp_path / "group" / "packed-14-sep" / "train"), "corrupt": entry}
    config = load_config(TrainConfig, config_file(tmp_path / "run.yaml", data, **AUTO), [])
    phases = open_datasets(config).phases
    rows = len(phases[0].sources[0].shards)

    assert plan_steps(config.data, phases) == -(-16 * rows // 8)
    # next to samples, examples are read as they are
    run_stage(recipe(tmp_path, [entry]), "corrupt")
    data["shards"] = [data["shards"], str(tmp_path / "corrupt" / "masked_lm" / "train")]
    mixed = load_config(TrainConfig, config_file(tmp_path / "run.yaml", data, **AUTO), [])
    (phase,) = open_datasets(mixed).phases

    assert [source.corruption is None for source in phase.sources] == [False, True]

    def of_tokens(tokens, architecture="encoder"):
        totals = SimpleNamespace(samples=tokens // 100, tokens=tokens)
        objective = SimpleNamespace(name="masked_lm", architecture=architecture, frame=RowForm())
        manifest = SimpleNamespace(totals=totals, variants=1, objective=objective)
        phase = SimpleNamespace(sources=[SimpleNamespace(manifest=manifest, corruption=True)])
        return plan_steps(config.data, [phase])

    assert of_tokens(1_000_000) == of_tokens(1_600_000) == 4_000_000 // 100 // 8
    assert of_tokens(1_000_000, "encoder_decoder") == 2_000_000 // 100 // 8
    assert of_tokens(80_000_000) == 80_000_000 // 100 // 8
    assert of_tokens(100) == 100, "room for a warm-up"


def test_facts_and_tokenizer_are_those_of_the_set(chain, tmp_path):
    manifest = chain.output / "corrupt" / "masked_lm" / "train" / "manifest.json"
    data = DataConfig(shards=manifest)
    shards = open_shards(manifest)
    fingerprint = shards.manifest.tokenizer.fingerprint
    record_sets(tmp_path, data, open_phases(data), fingerprint)
    (one,) = read_sets(tmp_path)

    assert one.objective == shards.manifest.objective

    folder = tokenizer_of_run(tmp_path, one, fingerprint)

    assert folder == tmp_path / "tokenizer"
    assert load_tokenizer(folder).vocabulary.fingerprint == fingerprint

    (folder / "vocabulary.json").write_text("{}")
    record_sets(tmp_path, data, open_phases(data), fingerprint)

    assert load_tokenizer(folder).vocabulary.size == shards.manifest.tokenizer.vocab_size, (
        "made whole by a start"
    )


def test_sets_without_a_tokenizer_and_damaged_facts(tmp_path):
    manifest = write_masked_sets(tmp_path / "corrupt")
    data = DataConfig(shards=manifest)
    record_sets(tmp_path, data, open_phases(data), "f" * 64)

    assert not (tmp_path / "tokenizer").exists()

    path = tmp_path / "sets.json"
    plain = json.loads(path.read_text())
    plain["sets"][0]["max_length"] += 1
    path.write_text(json.dumps(plain))
    with pytest.raises(IntegrityError, match=r"sets\.json is missing or damaged"):
        read_sets(tmp_path)


@pytest.mark.parametrize(
    ("given", "beside_link", "found"),
    [
        ("links/set", (), "real/heldout"),
        ("links/set/manifest.json", (), "real/heldout"),
        ("links/set", ("dev_a",), "links/dev_a"),
        ("real/train", (), "real/heldout"),
    ],
)
def test_the_neighbors_of_a_linked_set_are_found(tmp_path, given, beside_link, found):
    """Those next to the link are the user's choice."""
    folders = ["real/train", "real/heldout", "links", *(f"links/{name}" for name in beside_link)]
    for folder in folders:
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "manifest.json").touch()
    (tmp_path / "links" / "set").symlink_to("../real/train")
    paths = heldout_paths(DataConfig(shards=tmp_path / given))
    assert list(paths.values()) == [tmp_path / found / "manifest.json"]
