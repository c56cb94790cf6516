"""Published weights that nobody here made, from package indexes: in, continued for six steps, and out again."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor

from clozeline.model.checkpoints import build_checkpoint
from clozeline.tools.models.export.exportable import exported_form
from clozeline.tools.models.export_model import main as export
from clozeline.tools.models.import_model import main as import_main
from clozeline.train.startup.open_run import open_run
from tests.distributed import RankPool
from tests.model.checkpoints.published import apart
from tests.tools.models.test_continued_models import continue_training

pytestmark = pytest.mark.slow


def unpack(requirement: str, folder: Path) -> Path:
    """Download a wheel and unpack it; skip the test where no index has it."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--dest", str(folder)]
    done = subprocess.run([*command, requirement], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no package index gives {requirement}: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "files")
    return folder / "files"


def write_texts(folder: Path, letters: list[str], join: str) -> str:
    """Write a few hundred sequences of these words; return the pattern of the files."""
    draw = random.Random(1)
    lines = [json.dumps({"text": join.join(draw.choices(letters, k=draw.randint(40, 120)))}) for _ in range(300)]
    folder.mkdir()
    (folder / "part.jsonl").write_text("\n".join(lines) + "\n")
    return str(folder / "*.jsonl")


def difference(folder: Path, theirs: Any, vocabulary: int) -> float:
    """Return how far the logits of our model in a folder are from those of a class of transformers, see `apart`."""
    ids = torch.randint(5, vocabulary, (4, 100), generator=torch.Generator().manual_seed(1))
    positions = torch.arange(100).expand(4, 100)
    model = build_checkpoint(exported_form(open_run(folder)))
    with torch.no_grad():
        ours: dict[str, Tensor] = model.logits(
            {"input_ids": ids, "position_ids": positions, "lengths": torch.full((4,), 100)}
        )
        (logits,) = ours.values()
        return apart(logits, theirs.eval()(input_ids=ids).logits)


def go_through(
    folder: Path, published: Path, kind: Any, objective: str, texts: str, vocabulary: int, ranks: RankPool
) -> None:
    """Import a folder, train it, export it, and compare with transformers before and after."""
    ours, exported = folder / "ours", folder / "exported"
    assert import_main([str(published), str(ours)]) == 0
    assert difference(ours, kind.from_pretrained(published, attn_implementation="eager"), vocabulary) < 1e-5
    trained = continue_training(folder, ours, objective, ranks, texts)
    assert export([str(trained), str(exported)]) == 0
    model = kind.from_pretrained(exported, attn_implementation="eager")
    assert difference(trained, model, vocabulary) < 1e-5
    assert difference(ours, model, vocabulary) > 1e-4, "it has learned"


def test_antiberty(tmp_path: Path, one_rank: RankPool, capsys: pytest.CaptureFixture[str]) -> None:
    """A BERT of 26 M parameters for antibodies: a torch file with three more heads, one piece for each amino acid."""
    files = unpack("antiberty==0.1.3", tmp_path / "wheel") / "antiberty" / "trained_models"
    published = files / "AntiBERTy_md_smooth"
    shutil.copyfile(files / "vocab.txt", published / "vocab.txt")
    stated = {"tokenizer_class": "BertTokenizer", "do_lower_case": False}
    (published / "tokenizer_config.json").write_text(json.dumps(stated))
    pieces = (files / "vocab.txt").read_text().split()
    texts = write_texts(tmp_path / "texts", [piece for piece in pieces if len(piece) == 1], " ")
    objective = "{name: masked_lm, max_length: 128}"
    go_through(tmp_path, published, transformers.BertForMaskedLM, objective, texts, len(pieces), one_rank)
    assert "left out, 6 tensors of heads that bert does not have: cls.chain.*, cls.graft.*, cls.species.*" in (
        capsys.readouterr().out
    )


def test_microformer(tmp_path: Path, one_rank: RankPool) -> None:
    """A GPT-2 of 9 M parameters for microbes: a torch file; its own tokenizer is a pickle, so ids get plain names."""
    published = unpack("microformer-mgm==0.5.8", tmp_path / "wheel") / "mgm" / "resources" / "general_model"
    rows = json.loads((published / "config.json").read_text())["vocab_size"]
    specials = ["<pad>", "<mask>", "<bos>", "<eos>"]  # the ids of config.json
    words = [*specials, *(f"g{number}" for number in range(rows - len(specials)))]
    library = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="g0"))
    library.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=library, pad_token="<pad>", mask_token="<mask>", bos_token="<bos>", eos_token="<eos>"
    )
    tokenizer.save_pretrained(published)
    texts = write_texts(tmp_path / "texts", words[4:], " ")
    objective = "{name: causal_lm, max_length: 128}"
    go_through(tmp_path, published, transformers.GPT2LMHeadModel, objective, texts, rows, one_rank)
