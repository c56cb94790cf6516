"""Exported models in lm-eval (EleutherAI's harness): the log-likelihoods that the run's own model computes.

The harness is no dependency of the project; where it is not installed, these tests are skipped.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from clozeline.tools.models.export_model import main
from clozeline.train.startup.open_run import Run, open_run
from tests.pipeline.miniature import text
from tests.train.written_runs import write_run

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # warnings of the harness are not ours

NO_BIAS = {"qkv": False, "out": False, "ffn": False}
DECODER = {"model__family": "decoder", "model__heads": {"lm": 1.0}}
MODELS: dict[str, dict[str, Any]] = {
    "gpt2": {**DECODER, "model__activation": "gelu_tanh"},
    "llama": {
        **DECODER, "model__norm": "rms", "model__activation": "silu", "model__gated": True, "model__bias": NO_BIAS,
        "model__position": {"kind": "rope", "maximum": 64}, "model__kv_heads": 2, "model__tied": False,
    },
    "t5": {
        "label": "span_corruption", "model__family": "encoder_decoder", "model__heads": {"lm": 1.0},
        "model__norm": "rms", "model__activation": "relu", "model__bias": NO_BIAS, "model__qk_scale": 1.0,
        "model__out_scale": True, "model__position": {"kind": "t5", "buckets": 8, "max_distance": 12},
    },
}  # fmt: skip
"""Types of models that the harness scores, as models are trained here."""


def items() -> list[tuple[str, str]]:
    """Twenty contexts and continuations: text, blanks at the border, letters of two bytes, a whole word or a part."""
    words = [text(number, 2).split()[:18] for number in range(16)]
    found = [(" ".join(line[:cut]), " " + " ".join(line[cut : cut + 4])) for cut, line in enumerate(words, 2)]
    return [*found, ("The cat sat ", "down"), ("naïve café", " à la carte"), ("under", "stand"), ("A", " b")]


def own_score(trained: Run, context: str, continuation: str) -> tuple[float, bool]:
    """The sum of log p of a continuation's tokens in nats, and whether each is the likeliest, by the run's model."""
    blanks = len(context) - len(context.rstrip())
    if blanks:  # the harness gives them to the continuation
        context, continuation = context[:-blanks], context[-blanks:] + continuation
    ids = {words: trained.tokenizer.encode([words])[0].ids.tolist()
           for words in (context, continuation, context + continuation)}  # fmt: skip
    special = trained.tokenizer.vocabulary.specials
    if trained.model.config.architecture == "decoder":
        row = ids[context + continuation] if context else [special.get("bos", special["eos"]), *ids[continuation]]
        first = len(ids[context]) if context else 1
        batch, targets = {"input_ids": torch.tensor([row])}, row[first:]
    else:
        objective = trained.objectives[0]
        source, targets = [*ids[context], special["eos"]], ids[continuation]
        batch = {"input_ids": torch.tensor([source])}
        batch["decoder_input_ids"] = torch.tensor([[objective.frame.decoder_start, *targets[:-1]]])
        batch["decoder_position_ids"] = torch.arange(len(targets))[None]
        first = 1
    length = batch["input_ids"].shape[1]
    batch |= {"position_ids": torch.arange(length)[None], "lengths": torch.tensor([length])}
    with torch.no_grad():
        scores = trained.model.logits(batch)["lm"][0, first - 1 :][: len(targets)].log_softmax(-1)
    chosen = torch.tensor(targets)
    return scores.gather(1, chosen[:, None]).sum().item(), bool((scores.argmax(-1) == chosen).all())


@pytest.mark.parametrize("model_type", MODELS)
def test_log_likelihoods_are_those_of_the_run(shard_sets: Path, tmp_path: Path, model_type: str) -> None:
    """Twenty items to 1e-4 nats; the tolerance is a small part of what tells two items apart."""
    pytest.importorskip("lm_eval", reason="lm-eval is not installed: pip install lm-eval==0.4.13")
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    changes = {"label": "causal_lm", "model__init": {"std": 0.3}} | MODELS[model_type]
    run, folder = tmp_path / "run", tmp_path / "hf"
    run.mkdir()
    write_run(run, shard_sets, [3], 1, **changes)
    assert main([str(run), str(folder), "--type", model_type]) == 0
    harness = HFLM(pretrained=str(folder), device="cpu", dtype="float32", batch_size=4)
    given = items() + ([("", "The cat")] if model_type != "t5" else [])
    requests = [Instance(request_type="loglikelihood", doc={}, arguments=item, idx=0) for item in given]
    found, trained = harness.loglikelihood(requests, disable_tqdm=True), open_run(run)
    expected = [own_score(trained, *item) for item in given]
    assert [score for score, _ in found] == pytest.approx([score for score, _ in expected], abs=1e-4)
    assert [greedy for _, greedy in found] == [greedy for _, greedy in expected]
    ordered = sorted(score for score, _ in expected)
    assert min(second - first for first, second in pairwise(ordered)) > 1e-3
    assert len(items()) == 20
