"""Models in and out: a folder of transformers becomes one of ours, and goes back as it was."""

import json
import os
import re
import shutil

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from clozeline.errors import WeightsError
from clozeline.extensions.published.commands.compare_logits import main as compare_logits
from clozeline.extensions.published.commands.export_model import main as export_model
from clozeline.extensions.published.commands.import_model import main as import_model
from clozeline.model.checkpoints.checkpoint import build_checkpoint
from clozeline.model.checkpoints.reading import read_checkpoint
from tests.extensions.published.parity import logits_apart
from tests.extensions.published.peers import (
    CLASSES,
    TYPES,
    difference,
    edit_config,
    loaded,
    peer,
    peer_of,
    same,
    saved,
    seeds_with_every_tensor,
    stored,
    type_of,
)
from tests.matrices import mark_slow_but
from tests.train.written_runs import BERT, write_run


@pytest.mark.parametrize("case", mark_slow_but([*[*TYPES][::4], "bart", "xlm"], CLASSES))
def test_every_tensor_of_a_class_comes_in_and_goes_out(tmp_path, case, capsys):
    heads = peer_of(case).heads

    for seed in seeds_with_every_tensor(case):
        folder = tmp_path / str(seed)
        theirs = saved(folder / "in", case, seed)

        assert import_model([str(folder / "in"), str(folder / "ours")]) == 0
        assert f"ours: {type_of(case)}, family" in capsys.readouterr().out

        imported = read_checkpoint(folder / "ours")

        assert imported.config == read_checkpoint(folder / "in").config
        assert imported.token_ids == read_checkpoint(folder / "in").token_ids
        assert difference(build_checkpoint(imported), theirs) < 1e-5
        assert {path.name for path in (folder / "ours").iterdir()} == {
            "model.yaml",
            "model.safetensors",
            "model.json",
        }
        assert export_model([str(folder / "ours"), str(folder / "out")]) == 0
        assert same(stored(folder / "in"), stored(folder / "out"))

        again, remarks = loaded(folder / "out", type(theirs).__name__)

        assert remarks == {}
        assert logits_apart(again, theirs, heads) < 1e-6


@pytest.mark.parametrize("model_type", ["bart", "deberta"])
def test_half_precision_comes_in_and_goes_out(tmp_path, model_type):
    """A bias of the scores is 0 in most published files; classes that compute in float32 only are
    published in half precision, too."""
    theirs = peer(model_type).half()
    for name, buffer in theirs.named_buffers():
        buffer.mul_(name != "final_logits_bias")
    theirs.save_pretrained(tmp_path / "in")

    assert import_model([str(tmp_path / "in"), str(tmp_path / "ours")]) == 0
    assert export_model([str(tmp_path / "ours"), str(tmp_path / "out")]) == 0
    assert same(stored(tmp_path / "in"), stored(tmp_path / "out"))


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

    assert import_model([str(tmp_path / "in"), str(tmp_path / "out")]) == 0

    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    said = (
        "skipped, 4 tensors of heads that bert does not have: cls.chain.*, cls.graft.*, species.*"
    )

    assert lines.count(said) == 1
    assert difference(build_checkpoint(read_checkpoint(tmp_path / "out")), theirs) < 1e-5
    assert import_model([str(tmp_path / "in"), str(tmp_path / "strict"), "--strict"]) == 65
    assert (
        "4 tensors that a model of its type does not have: cls.chain.bias,"
        in capsys.readouterr().err
    )
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
    assert import_model([str(tmp_path / "in"), str(tmp_path / "out")]) == 65
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
        (
            pickled,
            65,
            "pytorch_model.bin: the file is truncated, or contains classes",
        ),
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

    assert import_model([str(tmp_path / "in"), str(tmp_path / "out")]) == code

    message = capsys.readouterr().err

    assert said in message
    assert message.startswith("error: ")
    assert message.count("\n") == 1
    assert {path.name for path in tmp_path.iterdir()} == {"in"}  # nothing was written, no code ran


def test_an_imported_folder_is_not_imported_again(tmp_path, capsys):
    saved(tmp_path / "in", "gpt2")
    import_model([str(tmp_path / "in"), str(tmp_path / "out")])
    assert import_model([str(tmp_path / "out"), str(tmp_path / "again")]) == 64
    assert "has been imported already" in capsys.readouterr().err


def test_a_changed_or_unfinished_import_is_refused(tmp_path):
    saved(tmp_path / "in", "gpt2")
    import_model([str(tmp_path / "in"), str(tmp_path / "out")])
    weights = tmp_path / "out" / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(WeightsError, match="changed after the import"):
        read_checkpoint(tmp_path / "out")
    weights.write_bytes(whole)
    read_checkpoint(tmp_path / "out")
    (tmp_path / "out" / "model.json").unlink()
    with pytest.raises(WeightsError, match="import was not finished"):
        read_checkpoint(tmp_path / "out")


@pytest.mark.parametrize("model_type", ["roberta", "llama", "t5", "bert masked_lm+sentence"])
def test_ours_and_theirs(tmp_path, model_type, capsys):
    saved(tmp_path / "in", model_type)
    import_model([str(tmp_path / "in"), str(tmp_path / "ours")])
    capsys.readouterr()

    assert compare_logits([str(tmp_path / "ours"), str(tmp_path / "in"), "--theirs"]) == 0
    assert float(capsys.readouterr().out.split()[-1]) < 1e-5

    saved(tmp_path / "other", model_type, seed=1)

    assert compare_logits([str(tmp_path / "ours"), str(tmp_path / "other")]) == 65


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"architectures": ["GPT2Model"]}, "no heads|heads have"),
        ({"architectures": ["AutoTokenizer"]}, "transformers refuses it"),
        ({"vocab_size": 7}, "transformers refuses it"),
        (b"{", "not a valid JSON file"),
    ],
)
def test_a_folder_that_transformers_refuses_is_a_mistake_of_the_user(
    tmp_path, change, reason, capsys
):
    saved(tmp_path / "good", "gpt2")
    shutil.copytree(tmp_path / "good", tmp_path / "bad")
    file = tmp_path / "bad" / "config.json"
    file.write_bytes(
        change
        if isinstance(change, bytes)
        else json.dumps(json.loads(file.read_bytes()) | change).encode()
    )

    for pair in (("good", "bad"), ("bad", "bad")):
        capsys.readouterr()
        assert compare_logits([*(str(tmp_path / name) for name in pair), "--theirs"]) == 64
        error = capsys.readouterr().err
        assert re.search(reason, error)
        assert "Traceback" not in error


BOTH = {"use_bottleneck_attention": True, "key_query_shared_bottleneck": True}
UNREAD = [("bert", {"tie_word_embeddings": False}), ("mobilebert", BOTH)]


@pytest.mark.parametrize(
    ("case", "changes"),
    [
        *UNREAD,
        *((case, {}) for case in ("bert lm", "gpt2", "t5", "bart")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_import_then_export_gives_the_same_tensors(tmp_path, case, changes):
    """Those too that our model does not read."""
    saved(tmp_path / "in", case, **changes)

    assert import_model([str(tmp_path / "in"), str(tmp_path / "ours")]) == 0
    assert export_model([str(tmp_path / "ours"), str(tmp_path / "out")]) == 0

    before, after = (load_file(tmp_path / name / "model.safetensors") for name in ("in", "out"))

    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert export_model([str(tmp_path / "ours"), str(tmp_path / "second")]) == 0

    for path in (tmp_path / "out").iterdir():
        if path.name != "README.md":
            assert path.read_bytes() == (tmp_path / "second" / path.name).read_bytes()

    assert (tmp_path / "out" / "generation_config.json").exists() == (
        case not in ("bert", "mobilebert")
    )


def test_a_run_is_exported_with_its_facts(shard_sets, tmp_path, capsys):
    """Padding rows are cut off, special ids come from the set, and the card says what is known."""
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
        "| steps | 12 |",
        "| objective | masked_lm |",
        "tokenizer's fingerprint",
        "AutoModelForMaskedLM.from_pretrained",
    ):
        assert words in card


def test_the_body_of_a_run_alone(bert, tmp_path):
    assert export_model([str(bert), str(tmp_path / "other"), "--head", "lm"]) == 64
    assert export_model([str(bert), str(tmp_path / "other"), "--head", "masked_lm"]) == 0

    more = ["--parts", "encoder", "--pooling", "mean", "--max-shard-size", "10KB"]

    assert (
        export_model(
            [
                str(bert),
                str(tmp_path / "out"),
                "--step",
                "3",
                *more,
            ]
        )
        == 0
    )
    assert (tmp_path / "out" / "1_Pooling" / "config.json").is_file()
    assert (tmp_path / "out" / "model.safetensors.index.json").is_file()

    _, report = transformers.BertModel.from_pretrained(
        tmp_path / "out", output_loading_info=True, add_pooling_layer=False
    )

    assert not any(report.values())


def test_refusals_say_what_differs(shard_sets, tmp_path, capsys):
    write_run(tmp_path, shard_sets, [3], 1, model__qk_scale=0.3)

    assert export_model([str(tmp_path), str(tmp_path / "out")]) == 64
    assert "no model type of transformers computes what this model does" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").touch()
    assert export_model([str(tmp_path), str(tmp_path / "full")]) == 64
    assert "expected a new or empty folder" in capsys.readouterr().err


def test_a_tokenizer_with_ids_beyond_the_model_is_refused(bert, tmp_path, capsys):
    assert export_model([str(bert), str(tmp_path / "out")]) == 0

    saved(tmp_path / "small", "bert")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tmp_path / "out" / name, tmp_path / "small")
    words = [str(tmp_path / "small"), str(tmp_path / "again")]

    assert import_model(words) == 64
    assert "ids, the model 37 rows: they do not belong together" in capsys.readouterr().err
    assert not (tmp_path / "again").exists()
    assert import_model([*words, "--no-tokenizer"]) == 0
