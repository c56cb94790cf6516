"""Corrupt: example shards are what the objective makes of the sample rows, offline as online, every
row accounted for.

Offline: the stage writes example shards. Online: only the manifests are known; blocks of the sample
set are read in another order, cut in other portions, and corrupted with variant = epoch. Nothing
else may matter.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from clozeline.configuration.config import read_composed
from clozeline.pipeline.corrupt.objectives import build_objective
from clozeline.pipeline.execution.equations import EACH, add_up
from clozeline.pipeline.recipe import Recipe
from clozeline.pipeline.registries import OBJECTIVES
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.shards.manifest import ManifestError
from clozeline.pipeline.shards.tables import TOKEN_COUNTS_FILE
from clozeline.pipeline.tokenize.tokenizers import find_vocabulary
from clozeline.pipeline.vocabulary import Corpus
from clozeline.tools.shards.validate_shards import validate as validate_shards
from tests.contracts import contract
from tests.matrices import mark_slow_but
from tests.pipeline.corruption_cases import EOS, vocabulary
from tests.pipeline.needless_units import read_records
from tests.pipeline.token_sets import (
    WORDS,
    all_rows,
    recipe,
    run_stage,
    write_counts,
    write_token_set,
)
from tests.refusals import refused
from tests.registries import values_in_tests

NAMES = OBJECTIVES.available()
LENGTHS = [(31 * document) % 90 for document in range(120)]
EPOCHS = 3


def entry(name, **options):
    """An entry whose rows have 34 tokens."""
    fields = OBJECTIVES.load_class(name).Options.__pydantic_fields__
    lengths = {key: 34 for key in ("max_length", "input_length") if key in fields}
    return {"name": name, **lengths, **options}


def run(out, entries, heldout=0.3):
    if not (out / "encode").exists():
        write_token_set(out, LENGTHS)
    made = recipe(out, entries, heldout=heldout)
    run_stage(made, "group")
    return made, run_stage(made, "corrupt")


@pytest.fixture(scope="module")
def sets(tmp_path_factory, request):
    """Every objective that is tested, with as many variants as epochs; every other one in tars."""
    out = tmp_path_factory.mktemp("sets")
    names = enumerate(values_in_tests(request, "name"))
    run(
        out,
        [
            entry(name, variants=EPOCHS, container=("arrow", "tar")[place % 2], block_rows=7)
            for place, name in names
        ],
    )

    return out


def identity(row):
    return b"".join(
        np.asarray(row.fixed[name]).tobytes()
        for name in ("uid", "document_uid", "document_offset", "copy")
    )


def bytes_of(row):
    arrays = [
        *row.columns.items(),
        *((name, np.asarray(value)) for name, value in row.fixed.items()),
    ]
    return [
        (
            name,
            array.dtype.str,
            array.shape,
            array.tobytes(),
        )
        for name, array in arrays
    ]


def online(objective, samples, epoch, seed):
    """One epoch over the blocks, last one first, in portions of `epoch + 2` rows of a shuffled
    block."""
    found = {}

    for block in reversed(range(len(samples.index))):
        rows = samples.read_block(block)
        order = np.argsort(rows.fixed["uid"] * np.uint64(0x9E3779B97F4A7C15))
        for start in range(0, len(order), epoch + 2):
            portion = rows.take(order[start : start + epoch + 2])
            examples, skips = objective.corrupt(
                portion, np.full(len(portion), epoch, np.uint16), seed
            )
            found |= {
                identity(row): bytes_of(row)
                for row, skip in zip(examples, skips, strict=True)
                if not skip
            }

    return found


@contract(OBJECTIVES, slow=lambda name: name not in NAMES[::2])
def test_variant_k_is_epoch_k(sets, name):
    made, heldout = (
        open_shards(sets / "corrupt" / name / split, verify="shard")
        for split in ("train", "heldout")
    )
    facts = made.manifest.objective
    objective = build_objective({"name": facts.name, **facts.options}, WORDS, facts.label)
    samples = open_shards(sets / "group" / objective.grouping.label / "train")

    assert made.manifest.parents[0].digest == samples.digest
    assert (facts.architecture, facts.heads) == (objective.architecture, objective.heads)
    assert facts.frame.decoder_start == objective.form.decoder_start

    stored = [{} for _ in range(EPOCHS)]

    for block, shard in enumerate(made.index.shard.tolist()):
        for row in made.read_block(block):
            assert row.fixed["variant"] == shard // 2, "shards of a variant stand together"
            stored[row.fixed["variant"]][identity(row)] = bytes_of(row)

    assert sum(map(len, stored)) == len(made)
    assert stored == [
        online(objective, samples, epoch, made.manifest.seed) for epoch in range(EPOCHS)
    ]

    if objective.min_redrawn_share:
        assert stored[0] != stored[1]

    assert (heldout.manifest.variants, len(heldout.manifest.shards)) == (1, 1)


# Counts
# --------------------------------------------------------------------------------------------------


def test_samples_in_are_examples_and_skipped(tmp_path):
    """Documents of one sentence reach the shared sample set, and reordering skips them by name."""
    made, counts = run(
        tmp_path, [entry("sentence_reordering", variants=2, seed=9), entry("document_rotation")]
    )
    found = counts["objectives"]["sentence_reordering"]["train"]

    assert found["skipped"]["one_sentence"] > 0
    assert found["samples_in"] == found["examples"] + sum(found["skipped"].values())

    manifests = [
        open_shards(tmp_path / f"corrupt/{entry.set_label}/train").manifest
        for entry in made.corrupt
    ]

    assert [one.seed for one in manifests] == [9, 1]

    totals = manifests[0].totals

    assert (totals.skipped, totals.samples) == (found["skipped"], found["examples"])
    assert sum(totals.tokens_by_language.values()) == totals.tokens


def test_what_an_example_leaves_unused_is_counted(tmp_path):
    """Next sentence prediction takes a part of the window or of its partner.

    Three tokens of a row are its frame.
    """
    _, counts = run(tmp_path, [entry("next_sentence_prediction", variants=2)])
    given = used = 0

    for split, variants in (("train", 2), ("heldout", 1)):
        samples = open_shards(
            tmp_path / "group/sentence_pair-31-none-partner=True-short_rate=0.1" / split
        )
        given += variants * sum(len(row["ids"]) + len(row["partner_ids"]) for row in samples)
        totals = open_shards(tmp_path / "corrupt/next_sentence_prediction" / split).manifest.totals
        used += totals.tokens - 3 * totals.samples

    assert add_up(counts, [("objectives", EACH, EACH, "unused_tokens")]) == given - used > 0


def test_a_set_whose_samples_are_all_skipped_is_an_error(tmp_path):
    write_token_set(tmp_path, [30] * 40, sentence=100)
    with refused(r"'sentence_reordering' is empty: .*one_sentence"):
        run(tmp_path, [entry("sentence_reordering"), entry("document_rotation")])


# What objectives need from other stages, and what batches need from them
# ----------------------------------------------

COUNTS = (np.arange(WORDS.size) ** 2).astype(np.uint64)


def test_the_stage_draws_by_the_counts_of_the_token_set(tmp_path):
    unigram = entry("replaced_token_detection", replacement="unigram")
    write_token_set(tmp_path, [40] * 30)
    with refused(r"token_counts\.arrow"):
        run(tmp_path, [unigram])
    write_counts(tmp_path / "encode", COUNTS)
    run(tmp_path, [unigram, entry("masked_lm"), entry("causal_lm")])
    noted = {name: set() for name in ("replaced_token_detection", "masked_lm", "causal_lm")}
    for (stage, work, unit), record in read_records(tmp_path).items():
        if (stage, work) == ("corrupt", "main"):
            reads = [address.split("|") for address in record["reads"]]
            noted[unit.partition(".")[0]] |= {each[-1] for each in reads if each[0] == "corpus"}

    assert [*noted.values()] == [{"counts", "occurring"}, {"occurring"}, set()]

    examples = open_shards(tmp_path / "corrupt" / "replaced_token_detection" / "train")

    assert examples.manifest.objective.heads == ("token",)

    objective = build_objective(unigram, replace(WORDS, corpus=Corpus(COUNTS)))
    folder = tmp_path / "group" / objective.grouping.label / "train"
    rows = all_rows(folder)
    wanted, _ = objective.corrupt(rows, np.zeros(len(rows), np.uint16), 1)

    assert (
        all_rows(examples.path).columns["input_ids"].values == wanted.columns["input_ids"].values
    ).all()

    (tmp_path / "encode" / TOKEN_COUNTS_FILE).unlink()  # undoing needs none

    assert validate_shards(examples.path, folder).restored is not None

    with pytest.raises(ManifestError, match=r"token_counts\.arrow"):
        find_vocabulary(open_shards(tmp_path / "encode"))


def test_drawn_rates_are_stored_with_their_weights(tmp_path):
    uniform = entry(
        "masked_lm",
        label="bound",
        mask_rate={"uniform": [0.0, 1.0]},
        predict_from="previous",
        variants=4,
        container="tar",
    )

    write_token_set(tmp_path, [6000, 9000, 40])
    run(
        tmp_path,
        [uniform, entry("causal_lm", separator="sep", architecture="encoder")],
        heldout=0.0,
    )

    shards, other = (
        open_shards(tmp_path / f"corrupt/{label}/train") for label in ("bound", "causal_lm")
    )
    facts = shards.manifest.objective

    assert (facts.options["mask_rate"], facts.frame.predict_from) == (
        {"uniform": [0.0, 1.0]},
        "previous",
    )

    columns = all_rows(shards.path).columns
    labels = columns["label_ids"].lengths
    counts = columns["label_count"].values
    weights = columns["label_weight"]

    assert weights.values.dtype == np.float32
    assert (weights.values == (counts / labels).astype(np.float32)).all()
    assert len(set(labels.tolist())) > 20

    samples = tmp_path / "group" / shards.manifest.parents[0].name

    assert validate_shards(shards.path, samples).restored is not None
    assert other.manifest.parents == shards.manifest.parents, "both read one sample set"
    assert other.manifest.objective.frame.predict_from == "previous"
    assert {int(mode) for mode in other.read_block(0).columns["attention"].values} == {1}


# Rows whose places exceed 16 bits, from token documents to the blocks of an example set
# -------------------------------


LENGTH = 131_072


def test_rows_of_131072_tokens(tmp_path):
    words = vocabulary(1000)
    tokens = write_token_set(tmp_path, [150_000, 60_000, 90_000, 40], shards=1, words=words)
    entry = {
        "name": "causal_lm",
        "max_length": LENGTH,
        "cross_documents": False,
    }

    made = recipe(tmp_path, [entry], heldout=0.0)
    run_stage(made, "group")
    run_stage(made, "corrupt")
    shards = open_shards(tmp_path / "corrupt/causal_lm/train")

    assert [spec.dtype for spec in shards.columns if spec.kind == "list"] == ["uint16", "uint32"]
    assert shards.manifest.max_length == LENGTH

    rows = [row for block in range(len(shards.index)) for row in shards.read_block(block)]

    assert sorted(len(row["input_ids"]) for row in rows) == [300_044 - 2 * LENGTH, LENGTH, LENGTH]

    documents = [np.append(ids, EOS) for ids in tokens.columns["token_ids"]]

    for row in rows:
        starts = row["document_starts"].astype(int).tolist()

        assert starts[0] == 0

        for start, piece in zip(
            starts[1:], np.split(row["input_ids"], starts[1:])[1:], strict=True
        ):
            assert row["input_ids"][start - 1] == EOS
            assert any(np.array_equal(document[: len(piece)], piece) for document in documents)

    assert max(int(row["document_starts"].max()) for row in rows) > 65_535


@contract(OBJECTIVES)
def test_objectives_that_number_places_in_16_bits_refuse_such_rows(name):
    """By the option that bounds their rows, if they have one."""
    for key in {"max_length", "input_length"} & OBJECTIVES.load_class(
        name
    ).Options.__pydantic_fields__.keys():
        if OBJECTIVES.load_class(name).longest_row is None:
            assert (
                build_objective({"name": name, key: LENGTH}, vocabulary(1000)).content_length
                > 65_535
            )
        else:
            with refused(f"'{name}'.*(16 bits|more than 65000)"):
                build_objective({"name": name, key: LENGTH}, vocabulary(1000))


# The recipes of published models
# --------------------------------------------------------------------------------------


RECIPES = sorted((Path(__file__).parents[3] / "configs" / "recipes").glob("*/pipeline.yaml"))


@pytest.mark.parametrize(
    "path", mark_slow_but(RECIPES[::3], RECIPES), ids=lambda path: path.parent.name
)
def test_makes_sets_that_give_back_their_samples(path, tmp_path):
    write_token_set(tmp_path, [2 + (370 * document) % 1300 for document in range(24)])
    write_counts(tmp_path / "encode", np.ones(WORDS.size, np.uint64))
    entries = [
        {**entry, "variants": min(2, entry.get("variants", 1))}
        for entry in read_composed(Recipe, path)["corrupt"]
    ]
    for entry in entries:
        # this vocabulary has no tokenizer, whose pieces they name
        entry.pop("language_tokens", None)

    made = recipe(tmp_path, entries, heldout=0.3)
    run_stage(made, "group")
    found = run_stage(made, "corrupt")["objectives"]

    assert len(found) == len(entries)

    for label, splits in found.items():
        for split, counts in splits.items():
            examples = tmp_path / "corrupt" / label / split
            samples = tmp_path / "group" / open_shards(examples).manifest.parents[0].name
            assert counts["examples"] == counts["samples_in"] > 0
            assert validate_shards(examples, samples).restored is not None
