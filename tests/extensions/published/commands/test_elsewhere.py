"""Exports in other programs, each in its own environment, as docs/elsewhere.md says."""

import json
import subprocess
import sys
import sysconfig

import numpy as np
import pytest

from clozeline.extensions.inference.commands.extract_features import main as extract_features
from clozeline.extensions.inference.feature_files import open_features
from clozeline.extensions.published.commands.export_model import main as export_model
from tests.train.written_runs import write_run

PACKAGES = (
    "sentence-transformers==6.2.0",
    "onnx==1.23.2",
    "onnxruntime==1.32.0",
    "ctranslate2==4.8.5",
)
TEXTS = ["the page of the book", "to the people of the time"]
VECTORS = """
import json, sys
from sentence_transformers import SentenceTransformer
folder, texts = sys.argv[1], json.loads(sys.argv[2])
print(json.dumps(SentenceTransformer(folder).encode(texts).tolist()))
"""
ONNX = """
import json, sys
import onnxruntime, torch, transformers
folder, texts = sys.argv[1], json.loads(sys.argv[2])
model = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()
batch = transformers.AutoTokenizer.from_pretrained(folder)(texts, padding=True, return_tensors="pt")
names = ["input_ids", "attention_mask"]
axes = {name: {0: "rows", 1: "tokens"} for name in names}
inputs = tuple(batch[name] for name in names)
torch.onnx.export(model, inputs, f"{folder}/model.onnx", input_names=names, output_names=["logits"],
                  dynamic_axes=axes, dynamo=False)
session = onnxruntime.InferenceSession(f"{folder}/model.onnx", providers=["CPUExecutionProvider"])
(found,) = session.run(None, {name: batch[name].numpy() for name in names})
wanted = model(**{name: batch[name] for name in names}).logits.detach().numpy()
real = batch["attention_mask"].numpy().astype(bool)
print(json.dumps(float(abs(found - wanted)[real].max())))
"""
CTRANSLATE2 = """
import json, sys
import ctranslate2, numpy, torch, transformers
folder, texts = sys.argv[1], json.loads(sys.argv[2])
model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
ctranslate2.converters.TransformersConverter(folder).convert(f"{folder}/ct2")
ids = tokenizer(texts[0])["input_ids"]
found = ctranslate2.Generator(f"{folder}/ct2").forward_batch([tokenizer.convert_ids_to_tokens(ids)])
wanted = model(torch.tensor([ids])).logits.detach().numpy()
print(json.dumps(float(abs(numpy.array(found) - wanted).max())))
"""

GPT2 = {
    "model__family": "decoder",
    "model__heads": {"lm": 1.0},
    "model__norm_place": "pre",
    "model__final_norm": True,
    "model__activation": "gelu_tanh",
}


@pytest.fixture(scope="module")
def other_python(tmp_path_factory):
    """The interpreter of an environment that sees the packages of this one, torch among them, and
    has the others."""
    folder = tmp_path_factory.mktemp("elsewhere") / "environment"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    (libraries,) = folder.glob("lib/python*/site-packages")
    (libraries / "ours.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    install = [f"{folder}/bin/python", "-m", "pip", "install", "-q", *PACKAGES]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"the packages cannot be installed: {done.stderr.strip().splitlines()[-1]}")
    return folder / "bin/python"


def run_elsewhere(python, program, folder):
    command = [str(python), "-c", program, str(folder), json.dumps(TEXTS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_vectors_of_sentence_transformers_are_ours(other_python, bert, tmp_path):
    assert export_model([str(bert), f"{tmp_path}/out", "parts=encoder", "pooling=mean"]) == 0

    texts = tmp_path / "texts.jsonl"
    texts.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    words = [f"input={texts}", f"output={tmp_path}/vectors", "pool=mean", "max_length=32"]

    assert extract_features([str(bert), *words]) == 0

    found = run_elsewhere(other_python, VECTORS, tmp_path / "out")

    assert np.abs(np.array(found) - open_features(tmp_path / "vectors").vectors).max() < 1e-5


@pytest.mark.slow
def test_onnx_has_the_logits_of_transformers(other_python, bert, tmp_path):
    assert export_model([str(bert), f"{tmp_path}/out"]) == 0
    assert run_elsewhere(other_python, ONNX, tmp_path / "out") < 1e-4


@pytest.mark.slow
def test_ctranslate2_has_the_logits_of_transformers(other_python, shard_sets, tmp_path):
    write_run(tmp_path / "gpt", shard_sets, [3], 1, "causal_lm", **GPT2)
    assert export_model([f"{tmp_path}/gpt", f"{tmp_path}/out"]) == 0
    assert run_elsewhere(other_python, CTRANSLATE2, tmp_path / "out") < 1e-4
