"""Whom the hour's verdict names, and that the other contenders learn and come over unchanged."""

import json

import numpy as np
import pytest

pytest.importorskip("transformers")
pytest.importorskip("accelerate")
import transformers
from tokenizers import Tokenizer, models

from benchmarks import hour
from benchmarks.peers import pretraining
from clozeline.extensions.published.commands import compare_logits, import_model
from tests.sealed_lines import sealed

_SPECIAL = {"pad": "<pad>", "cls": "<cls>", "sep": "<sep>", "mask": "<mask>", "eos": "<eos>"}


def test_a_difference_within_two_standard_errors_is_undecided():
    """Means differ by 2; the standard error of the difference is 0.71, or 1.41."""
    nats = {name: [20.0, 20.0] for name in hour.CONTENDERS} | {"loop_causal": [8.5, 9.5]}
    decided, _ = hour.judge(nats | {"template_causal": [6.5, 7.5]})
    assert "+2.000 nats below loop_causal (standard error 0.707): decided" in decided
    close = {"template_causal": [6.0, 8.0], "loop_causal": [8.0, 10.0]}
    assert hour.judge(nats | close)[0].endswith("(standard error 1.414): undecided")
    assert hour.judge(nats | {"template_causal": [7.0]})[0].endswith("(one seed): undecided")


def test_the_picture_shows_means_over_minutes(tmp_path):
    """Two seeds of 6 and 5 nats after a minute, and one of 4.5 after ten."""
    one = [{"cpu_minutes": 1.0, "nats": nats} for nats in (6.0, 5.0)]
    results = {
        "1": {"template_causal": one},
        "10": {"template_causal": [{"cpu_minutes": 10.0, "nats": 4.5}]},
    }
    probe = tmp_path / "probes" / "template_causal" / hour.METRICS
    probe.parent.mkdir(parents=True)
    heldout = {"": {"loss": 7.0, "unigram_entropy": 6.59, "labels": 9}}
    probe.write_text(sealed(step=40, heldout=heldout), encoding="utf-8")
    hour.draw(tmp_path, results)

    shown = (tmp_path / "causal.svg").read_text(encoding="utf-8")
    assert "template_causal 1 CPU minutes 5.5, 10 CPU minutes 4.5" in shown
    assert "unigram entropy 6.59" in shown
    assert not (tmp_path / "masked.svg").exists()


def test_rate_of_the_plain_loop():
    """Warmup to the peak, and at the end a tenth of it."""
    rates = [pretraining.rate_at(step, 1000, 2.0) for step in range(1001)]
    assert max(rates) == rates[100] == 2
    assert rates[-1] == pytest.approx(0.2)
    assert rates[550] == pytest.approx(1.1)


@pytest.mark.parametrize("name", pretraining.TUNED)
def test_others_learn_and_come_over_unchanged(name, tmp_path, monkeypatch, capsys):
    """Rows that repeat one token: its loss falls; then imported and original agree."""
    monkeypatch.setattr(pretraining, "LAYERS", 1)
    data = tmp_path / "data"
    vocabulary = {token: number for number, token in enumerate([*_SPECIAL.values(), *"abcdef"])}
    backend = Tokenizer(models.WordLevel(vocabulary, "<pad>"))
    names = {f"{key}_token": token for key, token in _SPECIAL.items()}
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=backend, **names)
    tokenizer.save_pretrained(data)
    rows = np.full((32, pretraining.LENGTH), 6, np.uint16)
    np.save(data / "rows.npy", rows)

    run = tmp_path / "run"
    words = [name, str(data), str(run), "--steps", "12", "--rate", "1e-3"]
    monkeypatch.setattr("sys.argv", ["pretraining", *words])
    pretraining.main()
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["tokens"] == 12 * pretraining.TUNED[name][1] * pretraining.LENGTH
    assert 0 < 12 * found["step"] < 2 * found["whole"]
    model = (
        transformers.AutoModelForMaskedLM if "masked" in name else transformers.AutoModelForCausalLM
    )
    model = model.from_pretrained(run)
    ids = pretraining.read_rows(data)[:2]
    transformers.set_seed(0)
    fresh = type(model)(model.config)
    losses = [one.eval()(input_ids=ids, labels=ids).loss.item() for one in (fresh, model)]
    assert losses[1] < losses[0]

    imported = tmp_path / "imported"
    assert not import_model.main([str(run), str(imported), "--no-tokenizer"])
    assert not compare_logits.main([str(run), str(imported), "--theirs"])
