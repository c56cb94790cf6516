"""What exported files say of the training rows: the token before a text, and the length at which
texts are cut."""

import json
from dataclasses import replace
from itertools import pairwise

import pytest
from transformers import AutoTokenizer

from clozeline.extensions.published.commands.export_model import main as export_model
from clozeline.pipeline.row_form import RowForm
from clozeline.pipeline.shards import open_shards
from clozeline.train.checkpoint.trained_model import TrainedModel
from clozeline.train.data.sets.text_form import token_before_texts
from tests.pipeline.task_files import make_sets, write_vocabulary
from tests.train.written_runs import BERT, write_run, write_run_on


def read(path):
    return json.loads(path.read_text())


def written_starts(folder):
    """The start tokens that four files name, as ids; the piece is looked up."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    config = read(folder / "config.json")
    generation = (
        read(folder / "generation_config.json")
        if (folder / "generation_config.json").exists()
        else {}
    )

    stated = read(folder / "tokenizer_config.json").get("bos_token")

    assert tokenizer.bos_token == stated

    return {
        tokenizer.bos_token_id,
        config["bos_token_id"],
        generation.get("bos_token_id", config["bos_token_id"]),
    }


def export_causal(shard_sets, folder):
    write_run(
        folder / "run",
        shard_sets,
        [3],
        1,
        "causal_lm",
        model__family="decoder",
        model__heads={"lm": 1.0},
        model__position={"maximum": 64},
        model__norm_place="pre",
    )

    assert export_model([f"{folder}/run", f"{folder}/out"]) == 0

    return folder / "out"


def test_a_decoder_names_the_token_that_stands_before_a_text(shard_sets, tmp_path):
    """Packed rows have the end token there, which is not the start token of their vocabulary."""
    folder = export_causal(shard_sets, tmp_path)
    run = TrainedModel.open(tmp_path / "run")
    rows = [
        row["input_ids"].tolist() for row in open_shards(shard_sets / "corrupt/causal_lm/train")
    ]
    specials = run.tokenizer.vocabulary.specials
    before = {
        first
        for row in rows
        for first, second in pairwise(row)
        if first in specials.values() != second
    }

    assert written_starts(folder) == before == {specials["eos"]}
    assert specials["bos"] not in before


@pytest.mark.parametrize(
    ("form", "token"), [({}, None), ({"separator": 6}, 6), ({"head": (5, 7), "separator": 6}, 5)]
)
def test_the_token_before_a_text_by_the_rows_of_a_decoder(decoder, form, token):
    (trained_on,) = decoder[1].recorded
    objective = trained_on.objective.model_copy(update={"frame": RowForm(**form)})
    assert token_before_texts(replace(trained_on, objective=objective)) == token


def test_an_encoder_names_none(bert, tmp_path):
    assert export_model([str(bert), f"{tmp_path}/out"]) == 0
    assert written_starts(tmp_path / "out") == {None}


@pytest.mark.parametrize("published", [False, True])
def test_texts_are_cut_where_predictions_cut_them(tmp_path, published):
    """Rows of 12 tokens, in a model of 64 positions.

    Also where a publisher's files, whose other keys stay, say 512.
    """
    more = []

    if published:
        stated = {
            "tokenizer_class": "BertTokenizer",
            "model_max_length": 512,
            "padding_side": "left",
        }

        write_vocabulary(tmp_path / "theirs")
        (tmp_path / "theirs/tokenizer_config.json").write_text(json.dumps(stated))
        more = [f"tokenizer.path={tmp_path}/theirs"]

    sets = make_sets(tmp_path, "tasks.max_length=12", *more)
    heads = {"classification": {"hidden": "tanh", "labels": ["0", "1"]}}
    write_run_on(tmp_path / "run", sets / "train/manifest.json", [3], 1, model__heads=heads, **BERT)

    assert export_model([f"{tmp_path}/run", f"{tmp_path}/exported"]) == 0

    theirs = AutoTokenizer.from_pretrained(tmp_path / "exported")

    assert theirs.model_max_length == 12
    assert theirs("film " * 30, truncation=True).input_ids == theirs("film " * 10).input_ids

    if published:
        found = read(tmp_path / "exported/tokenizer_config.json")
        assert found == {**stated, "model_max_length": 12}
        assert (tmp_path / "exported/vocab.txt").read_bytes() == (
            tmp_path / "theirs/vocab.txt"
        ).read_bytes()
