"""Models of runs and of imported folders, as transformers loads them."""

import json
import shutil

import pytest
import torch
import transformers
from safetensors.torch import load_file

from clozeline.pipeline.tokenize.tokenizers import load_tokenizer
from clozeline.tools.models.compare_logits import main as compare
from clozeline.tools.models.export_model import main
from clozeline.tools.models.import_model import main as import_main
from tests.model.checkpoints.published import saved
from tests.train.written_runs import write_run

BERT = {
    "model__type_vocab_size": 2, "model__norm_place": "post", "model__final_norm": False, "model__emb_norm": True,
    "model__eps": 1e-12,
}  # fmt: skip


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
    assert import_main([str(tmp_path / "in"), str(tmp_path / "ours")]) == 0
    assert main([str(tmp_path / "ours"), str(tmp_path / "out")]) == 0
    before, after = (load_file(tmp_path / name / "model.safetensors") for name in ("in", "out"))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert main([str(tmp_path / "ours"), str(tmp_path / "second")]) == 0
    for path in (tmp_path / "out").iterdir():
        if path.name != "README.md":
            assert path.read_bytes() == (tmp_path / "second" / path.name).read_bytes()
    assert (tmp_path / "out" / "generation_config.json").exists() == (case not in ("bert", "mobilebert"))


def test_a_run_is_exported_with_its_facts(shard_sets, tmp_path, capsys):
    """Padding rows are cut off, special ids come from the set, and the card says what is known."""
    model = write_run(tmp_path, shard_sets, [3, 12], 2, **BERT, model__vocab_multiple=128)
    folder = tmp_path / "out"
    words = [str(tmp_path), str(folder), "--licence", "cc-by-4.0", "--language", "en"]
    assert main(words) == 0
    assert "BertForMaskedLM" in capsys.readouterr().out
    theirs, report = transformers.BertForMaskedLM.from_pretrained(folder, output_loading_info=True)
    assert not any(report.values())
    draw = torch.Generator().manual_seed(1)
    ids = torch.randint(10, model.vocab_size, (2, 9), generator=draw)
    ours = {"input_ids": ids, "position_ids": torch.arange(9).expand(2, 9), "lengths": torch.tensor([9, 9])}
    with torch.no_grad():
        logits = model.eval().logits(ours)["masked_lm"]
        assert (theirs(input_ids=ids).logits - logits).abs().max() < 1e-5
    config, card = json.loads((folder / "config.json").read_text()), (folder / "README.md").read_text()
    assert config["vocab_size"] == model.vocab_size == len(theirs.bert.embeddings.word_embeddings.weight)
    assert config["mask_token_id"] is not None
    for words in ("license: \"cc-by-4.0\"", 'language: ["en"]', "| steps | 12 |", "| objective | masked_lm |",
                  "tokenizer's fingerprint", "AutoModelForMaskedLM.from_pretrained"):  # fmt: skip
        assert words in card


def test_the_body_of_a_run_alone(shard_sets, tmp_path):
    write_run(tmp_path, shard_sets, [3], 1, **BERT)
    assert main([str(tmp_path), str(tmp_path / "other"), "--head", "lm"]) == 64
    assert main([str(tmp_path), str(tmp_path / "other"), "--head", "masked_lm"]) == 0
    more = ["--parts", "encoder", "--pooling", "mean", "--max-shard-size", "10KB"]
    assert main([str(tmp_path), str(tmp_path / "out"), "--step", "3", *more]) == 0
    assert (tmp_path / "out" / "1_Pooling" / "config.json").is_file()
    assert (tmp_path / "out" / "model.safetensors.index.json").is_file()
    _, report = transformers.BertModel.from_pretrained(
        tmp_path / "out", output_loading_info=True, add_pooling_layer=False
    )
    assert not any(report.values())


def test_refusals_say_what_differs(shard_sets, tmp_path, capsys):
    write_run(tmp_path, shard_sets, [3], 1)
    assert main([str(tmp_path), str(tmp_path / "out")]) == 64
    assert "no model type of transformers computes what this model does" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert main([str(tmp_path), str(tmp_path)]) == 64
    assert "expected a new or empty folder" in capsys.readouterr().err
    assert main([str(tmp_path / "nowhere"), str(tmp_path / "out")]) == 64
    assert main([str(tmp_path), str(tmp_path / "out"), "--step", "9"]) == 64
    assert "no checkpoint of step 9" in capsys.readouterr().err


def test_the_tokenizer_goes_out_and_comes_in_with_the_model(shard_sets, tmp_path):
    """Ids of the exported tokenizer, by transformers, and of the one imported again are those of the run's."""
    write_run(tmp_path, shard_sets, [3], 1, **BERT)
    out, again = tmp_path / "out", tmp_path / "again"
    assert main([str(tmp_path), str(out)]) == 0
    assert import_main([str(out), str(again)]) == 0
    own = load_tokenizer(shard_sets / "train_tokenizer" / "tokenizer")
    theirs = transformers.AutoTokenizer.from_pretrained(out)
    imported = load_tokenizer(again / "tokenizer")
    for text in ("The cat sat.", "naïve  café\n¿qué?", "<mask> [MASK]"):
        ids = own.encode([text])[0].ids.tolist()
        assert imported.encode([text])[0].ids.tolist() == ids
        if "mask" not in text:
            assert theirs(text, add_special_tokens=False)["input_ids"] == ids
    assert json.loads((again / "model.json").read_text())["tokenizer"] == "tokenizer"
    assert "AutoTokenizer.from_pretrained" in (out / "README.md").read_text()
    assert compare([str(again), str(tmp_path), "--text", "The cat sat."]) == 0


def test_a_tokenizer_with_ids_beyond_the_model_is_refused(shard_sets, tmp_path, capsys):
    write_run(tmp_path, shard_sets, [3], 1, **BERT)
    assert main([str(tmp_path), str(tmp_path / "out")]) == 0
    saved(tmp_path / "small", "bert")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tmp_path / "out" / name, tmp_path / "small")
    words = [str(tmp_path / "small"), str(tmp_path / "again")]
    assert import_main(words) == 64
    assert "ids, the model 37 rows: they do not belong together" in capsys.readouterr().err
    assert not (tmp_path / "again").exists()
    assert import_main([*words, "--no-tokenizer"]) == 0
