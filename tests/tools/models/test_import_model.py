"""A folder of transformers becomes one of ours, from which the same model is built."""

import json
import os

import pytest
import torch
from safetensors.torch import load_file, save_file

from clozeline.errors import WeightsError
from clozeline.model.checkpoints import build_checkpoint, read_checkpoint
from clozeline.tools.models.import_model import main
from tests.model.checkpoints.published import TYPES, difference, edit_config, saved


@pytest.mark.parametrize("model_type", TYPES)
def test_the_imported_folder_holds_the_model(tmp_path, model_type, capsys):
    theirs = saved(tmp_path / "in", model_type)
    assert main([str(tmp_path / "in"), str(tmp_path / "out")]) == 0
    assert f"out: {model_type}, family" in capsys.readouterr().out
    imported = read_checkpoint(tmp_path / "out")
    assert imported.config == read_checkpoint(tmp_path / "in").config
    assert imported.token_ids == read_checkpoint(tmp_path / "in").token_ids
    assert difference(build_checkpoint(imported), theirs) < 1e-5
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"model.yaml", "model.safetensors", "model.json"}


def add_tensors(folder, *names):
    path = folder / "model.safetensors"
    save_file(load_file(path) | {name: torch.ones(3) for name in names}, path)


def test_further_heads_are_left_out_and_named(tmp_path, capsys):
    theirs = saved(tmp_path / "in", "bert")
    add_tensors(tmp_path / "in", "cls.chain.weight", "cls.chain.bias", "cls.graft.0.weight", "species.out.weight")
    assert main([str(tmp_path / "in"), str(tmp_path / "out")]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    said = "left out, 4 tensors of heads that bert does not have: cls.chain.*, cls.graft.*, species.*"
    assert lines.count(said) == 1
    assert difference(build_checkpoint(read_checkpoint(tmp_path / "out")), theirs) < 1e-5
    assert main([str(tmp_path / "in"), str(tmp_path / "strict"), "--strict"]) == 65
    assert "4 tensors that a model of its type does not have: cls.chain.bias," in capsys.readouterr().err
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
    assert main([str(tmp_path / "in"), str(tmp_path / "out")]) == 65
    assert f"1 tensors that a model of its type does not have: {name};" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_refusals_change_nothing(tmp_path, capsys):
    saved(tmp_path / "in", "bert")
    assert main([str(tmp_path / "in"), str(tmp_path / "in")]) == 64
    assert "expected a new or empty folder" in capsys.readouterr().err
    (tmp_path / "in" / "config.json").write_text(json.dumps({"model_type": "bloom"}))
    assert main([str(tmp_path / "in"), str(tmp_path / "out")]) == 64
    assert "model_type: expected one of" in capsys.readouterr().err
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
        (pickled, 65, "pytorch_model.bin: cannot be read as tensors alone: a torn file, or one that holds classes"),
        (cut, 65, "model.safetensors: cannot be read as safetensors"),
        (without_a_tensor, 65, "1 tensors are missing: transformer.ln_f.weight"),
        (looped, 64, "expected a folder with config.json and weights"),
        (lambda folder: edit_config(folder, model_type="bloom"), 64, "in/config.json: model_type: expected one of"),
        (lambda folder: edit_config(folder, vocab_size=36), 65, "of another shape than config.json implies"),
    ],
)
def test_a_damaged_folder_gives_one_message_and_no_output(tmp_path, damage, code, said, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    saved(tmp_path / "in", "gpt2")
    damage(tmp_path / "in")
    capsys.readouterr()  # the progress of transformers
    assert main([str(tmp_path / "in"), str(tmp_path / "out")]) == code
    message = capsys.readouterr().err
    assert said in message
    assert message.startswith("error: ")
    assert message.count("\n") == 1
    assert {path.name for path in tmp_path.iterdir()} == {"in"}  # nothing was written, no code ran


def test_an_imported_folder_is_not_imported_again(tmp_path, capsys):
    saved(tmp_path / "in", "gpt2")
    main([str(tmp_path / "in"), str(tmp_path / "out")])
    assert main([str(tmp_path / "out"), str(tmp_path / "again")]) == 64
    assert "has been imported already" in capsys.readouterr().err


def test_a_changed_or_unfinished_import_is_refused(tmp_path):
    saved(tmp_path / "in", "gpt2")
    main([str(tmp_path / "in"), str(tmp_path / "out")])
    weights = tmp_path / "out" / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(WeightsError, match="changed after the import"):
        read_checkpoint(tmp_path / "out")
    weights.write_bytes(whole)
    read_checkpoint(tmp_path / "out")
    (tmp_path / "out" / "model.json").unlink()
    with pytest.raises(WeightsError, match="import was never finished"):
        read_checkpoint(tmp_path / "out")
