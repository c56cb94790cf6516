"""Models in and out: a folder of transformers becomes one of ours, and goes back as it was."""

import json
import os
import shutil

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from clozeline.errors import IntegrityError, WeightsError
from clozeline.extensions.published.commands.compare_logits import main as compare_logits
from clozeline.extensions.published.commands.export_model import main as export_model
from clozeline.extensions.published.commands.import_model import main as import_model
from clozeline.model.checkpoints.checkpoint import build_checkpoint
from clozeline.model.checkpoints.reading import read_checkpoint
from clozeline.pipeline.shards import open_shards
from clozeline.train.checkpoint.trained_model import TrainedModel
from clozeline.train.data.sets.token_ids import refuse_other_ids
from tests.extensions.published.parity import logits_apart
from tests.extensions.published.peers import (
    difference,
    edit_config,
    loaded,
    peer_of,
    same,
    saved,
    stored,
)
from tests.train.masked_set import write_characters
from tests.train.written_runs import BERT, write_run


@pytest.mark.parametrize("case", ["albert masked_lm+sentence", "bart", "xlm"])
def test_every_tensor_of_a_class_comes_in_and_goes_out(tmp_path, case):
    theirs = saved(tmp_path / "in", case)
    ours, out = tmp_path / "ours", tmp_path / "out"
    assert import_model([f"{tmp_path}/in", str(ours)]) == 0
    imported = read_checkpoint(ours)
    assert imported.config == read_checkpoint(tmp_path / "in").config
    assert difference(build_checkpoint(imported), theirs) < 1e-5
    assert {path.suffix for path in ours.iterdir()} == {".yaml", ".safetensors", ".json"}
    assert export_model([str(ours), str(out)]) == 0
    assert same(stored(tmp_path / "in"), stored(out))
    again, remarks = loaded(out, type(theirs).__name__)
    assert remarks == {}
    assert logits_apart(again, theirs, peer_of(case).heads) < 1e-6


def add_tensors(folder, *names):
    path = folder / "model.safetensors"
    save_file(load_file(path) | {name: torch.ones(3) for name in names}, path)


def test_further_heads_are_left_out_and_named(tmp_path, capsys):
    theirs = saved(tmp_path / "in", "bert")
    add_tensors(
        tmp_path / "in",
        "cls.chain.weight",
        "cls.chain.bias",
        "cls.graft.0.weight",
        "species.out.weight",
    )

    assert import_model([f"{tmp_path}/in", f"{tmp_path}/out"]) == 0

    assert "cls.chain.*, cls.graft.*, species.*" in capsys.readouterr().out
    assert difference(build_checkpoint(read_checkpoint(tmp_path / "out")), theirs) < 1e-5
    assert import_model([f"{tmp_path}/in", f"{tmp_path}/strict", "--strict"]) == 65

    assert not (tmp_path / "strict").exists()


@pytest.mark.parametrize(
    "name",
    [
        "bert.encoder.layer.0.attention.self.gate.weight",  # in a layer
        "encoder.layer.0.gate.weight",  # of the body, without its prefix
        "cls.predictions.scale.weight",  # in a head that the model has
        "temperature",
    ],
)
def test_an_unknown_tensor_of_the_body_or_of_a_known_head_is_refused(tmp_path, name, capsys):
    saved(tmp_path / "in", "bert")
    add_tensors(tmp_path / "in", "cls.chain.weight", name)
    assert import_model([f"{tmp_path}/in", f"{tmp_path}/out"]) == 65
    assert f"1 tensors that a model of its type does not have: {name};" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


class Command:
    """What a pickled file may run."""

    def __reduce__(self):
        return os.system, ("touch executed",)


def pickled(folder):
    (folder / "model.safetensors").unlink()
    torch.save({"weight": Command()}, folder / "pytorch_model.bin")


def cut(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-9])


def without_a_tensor(folder):
    path = folder / "model.safetensors"
    tensors = load_file(path)
    del tensors["transformer.ln_f.weight"]
    save_file(tensors, path)


def looped(folder):
    (folder / "config.json").unlink()
    (folder / "config.json").symlink_to(folder / "config.json")


@pytest.mark.parametrize(
    ("damage", "code", "said"),
    [
        (pickled, 65, "pytorch_model.bin: the file is truncated, or contains classes"),
        (cut, 65, "model.safetensors: not a valid safetensors file"),
        (without_a_tensor, 65, "1 tensors are missing: transformer.ln_f.weight"),
        (looped, 64, "expected config.json and weights"),
        (
            lambda folder: edit_config(folder, model_type="bloom"),
            64,
            "in/config.json: model_type: expected one of",
        ),
        (
            lambda folder: edit_config(folder, vocab_size=36),
            65,
            "another shape than config.json implies",
        ),
    ],
)
def test_a_damaged_folder_gives_one_message_and_no_output(
    tmp_path, damage, code, said, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    saved(tmp_path / "in", "gpt2")
    damage(tmp_path / "in")
    capsys.readouterr()  # the progress of transformers

    assert import_model([f"{tmp_path}/in", f"{tmp_path}/out"]) == code

    message = capsys.readouterr().err

    assert said in message
    assert message.startswith("error: ")
    assert message.count("\n") == 1
    assert {path.name for path in tmp_path.iterdir()} == {"in"}  # nothing was written, no code ran


def test_an_imported_folder_is_not_imported_again(tmp_path, capsys):
    saved(tmp_path / "in", "gpt2")
    import_model([f"{tmp_path}/in", f"{tmp_path}/out"])
    assert import_model([f"{tmp_path}/out", f"{tmp_path}/again"]) == 64
    assert "has been imported already" in capsys.readouterr().err


def test_a_changed_or_unfinished_import_is_refused(tmp_path):
    saved(tmp_path / "in", "gpt2")
    import_model([f"{tmp_path}/in", f"{tmp_path}/out"])
    weights = tmp_path / "out/model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(WeightsError, match="changed after the import"):
        read_checkpoint(tmp_path / "out")
    weights.write_bytes(whole)
    read_checkpoint(tmp_path / "out")
    (tmp_path / "out/model.json").unlink()
    with pytest.raises(WeightsError, match="import was not finished"):
        read_checkpoint(tmp_path / "out")


@pytest.mark.parametrize("model_type", ["llama", "t5", "bert masked_lm+sentence"])
def test_ours_and_theirs(tmp_path, model_type, capsys):
    saved(tmp_path / "in", model_type)
    import_model([f"{tmp_path}/in", f"{tmp_path}/ours"])
    capsys.readouterr()

    assert compare_logits([f"{tmp_path}/ours", f"{tmp_path}/in", "--theirs"]) == 0
    assert float(capsys.readouterr().out.split()[-1]) < 1e-5

    saved(tmp_path / "other", model_type, seed=1)

    assert compare_logits([f"{tmp_path}/ours", f"{tmp_path}/other"]) == 65


BOTH = {"use_bottleneck_attention": True, "key_query_shared_bottleneck": True}
UNREAD = [("bert", {"tie_word_embeddings": False}), ("mobilebert", BOTH)]


@pytest.mark.parametrize(
    ("case", "changes"),
    [*UNREAD, *((case, {}) for case in ("bert lm", "gpt2", "t5", "bart"))],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_import_then_export_gives_the_same_tensors(tmp_path, case, changes):
    """Those too that our model does not read."""
    saved(tmp_path / "in", case, **changes)

    assert import_model([f"{tmp_path}/in", f"{tmp_path}/ours"]) == 0
    assert export_model([f"{tmp_path}/ours", f"{tmp_path}/out"]) == 0

    before, after = (load_file(tmp_path / name / "model.safetensors") for name in ("in", "out"))

    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert export_model([f"{tmp_path}/ours", f"{tmp_path}/second"]) == 0

    for path in (tmp_path / "out").iterdir():
        if path.name != "README.md":
            assert path.read_bytes() == (tmp_path / "second" / path.name).read_bytes()

    assert (tmp_path / "out/generation_config.json").exists() == (
        case not in ("bert", "mobilebert")
    )


def test_a_run_is_exported_with_its_facts(shard_sets, tmp_path, capsys):
    """Padding rows are cut off, special ids come from the set, and the card names the license."""
    model = write_run(tmp_path, shard_sets, [3, 12], 2, **BERT, model__vocab_multiple=128)
    folder = tmp_path / "out"
    words = [str(tmp_path), str(folder), "--license", "cc-by-4.0", "--language", "en"]

    assert export_model(words) == 0
    assert "BertForMaskedLM" in capsys.readouterr().out

    theirs, report = transformers.BertForMaskedLM.from_pretrained(folder, output_loading_info=True)

    assert not any(report.values())

    draw = torch.Generator().manual_seed(1)
    ids = torch.randint(10, model.vocab_size, (2, 9), generator=draw)
    ours = {
        "input_ids": ids,
        "position_ids": torch.arange(9).expand(2, 9),
        "lengths": torch.tensor([9, 9]),
    }
    with torch.no_grad():
        logits = model.eval().logits(ours)["masked_lm"]
        assert (theirs(input_ids=ids).logits - logits).abs().max() < 1e-5

    config = json.loads((folder / "config.json").read_text())
    card = (folder / "README.md").read_text()

    assert (
        config["vocab_size"]
        == model.vocab_size
        == len(theirs.bert.embeddings.word_embeddings.weight)
    )
    assert config["mask_token_id"] is not None

    for words in (
        'license: "cc-by-4.0"',
        'language: ["en"]',
        "AutoModelForMaskedLM.from_pretrained",
    ):
        assert words in card


def test_the_body_of_a_run_alone(bert, tmp_path):
    assert export_model([str(bert), f"{tmp_path}/other", "--head", "lm"]) == 64

    more = ["--parts", "encoder", "--pooling", "mean"]

    assert export_model([str(bert), f"{tmp_path}/out", "--step", "3", *more]) == 0
    assert (tmp_path / "out/1_Pooling/config.json").is_file()

    _, report = transformers.BertModel.from_pretrained(
        tmp_path / "out", output_loading_info=True, add_pooling_layer=False
    )

    assert not any(report.values())


def test_refusals_say_what_differs(shard_sets, tmp_path, capsys):
    write_run(tmp_path, shard_sets, [3], 1, model__qk_scale=0.3)

    assert export_model([str(tmp_path), f"{tmp_path}/out"]) == 64
    assert "no model type of transformers computes what this model does" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    (tmp_path / "full").mkdir()
    (tmp_path / "full/notes.txt").touch()
    assert export_model([str(tmp_path), f"{tmp_path}/full"]) == 64
    assert "expected a new or empty folder" in capsys.readouterr().err


def test_a_tokenizer_with_ids_beyond_the_model_is_refused(bert, tmp_path, capsys):
    assert export_model([str(bert), f"{tmp_path}/out"]) == 0

    saved(tmp_path / "small", "bert")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tmp_path / "out" / name, tmp_path / "small")
    words = [f"{tmp_path}/small", f"{tmp_path}/again"]

    assert import_model(words) == 64
    assert "ids, the model 37 rows: they do not belong together" in capsys.readouterr().err
    assert not (tmp_path / "again").exists()
    assert import_model([*words, "--no-tokenizer"]) == 0


@pytest.mark.parametrize(
    ("name", "reason"), [("GPT2Model", "no heads"), ("AutoTokenizer", "transformers refuses it")]
)
def test_a_folder_that_transformers_refuses_is_a_mistake_of_the_user(
    tmp_path, name, reason, capsys
):
    saved(tmp_path, "gpt2")
    edit_config(tmp_path, architectures=[name])

    assert compare_logits([str(tmp_path), str(tmp_path), "--theirs"]) == 64
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize("door", [None, "export", "set"])
def test_another_tokenizer_in_an_imported_folder_is_refused(bert, tmp_path, door, capsys):
    """It is compared with the one that was imported, whatever reads the folder."""
    folder = tmp_path / "ours"
    exported = f"{tmp_path}/exported"
    assert export_model([str(bert), exported]) == import_model([exported, str(folder)]) == 0
    shutil.rmtree(folder / "tokenizer")
    write_characters(folder / "tokenizer", "abc")

    if door == "export":
        assert export_model([str(folder), f"{tmp_path}/again"]) == 65
    elif door == "set":
        (recorded,) = TrainedModel.open(bert).recorded
        shards = open_shards(recorded.path)
        with pytest.raises(IntegrityError, match="expected the tokenizer"):
            refuse_other_ids(TrainedModel.open(folder).ids, shards, "data")
    else:
        with pytest.raises(IntegrityError, match="expected the tokenizer"):
            assert TrainedModel.open(folder).tokenizer
