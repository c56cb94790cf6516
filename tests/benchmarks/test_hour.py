"""Whom the hour's verdict names, and that the other contenders learn and come over unchanged."""

import numpy as np
import pytest

pytest.importorskip("transformers")
pytest.importorskip("accelerate")
import transformers
from tokenizers import Tokenizer, models

from benchmarks import hour
from benchmarks.peers import pretraining
from clozeline.extensions.published.commands import compare_logits, import_model

_SPECIAL = {"pad": "<pad>", "cls": "<cls>", "sep": "<sep>", "mask": "<mask>", "eos": "<eos>"}


def _results(**values):
    """Return results whose scores are all those given, less of nats being better."""
    return {
        name: [{"nats": -one, "pairs": one, "tuned": one} for one in values.get(name, [0.0, 1.0])]
        for name in hour.CONTENDERS
    }


def test_a_difference_within_the_seeds_picks_nobody():
    """Means 9 and 7 differ by 2; two standard deviations of seeds are 1.41, or 2.83."""
    ahead = {"plain_loop": [8.5, 9.5], "template_causal": [6.5, 7.5], "trainer_causal": [0, 1]}
    assert hour.is_beyond_chance(ahead["plain_loop"], ahead["template_causal"])
    assert any("pick plain_loop" in line for line in hour.judge(_results(**ahead)))
    close = ahead | {"plain_loop": [8.0, 10.0], "template_causal": [6.0, 8.0]}
    assert not any("pick plain_loop" in line for line in hour.judge(_results(**close)))
    assert not hour.is_beyond_chance([9.0], [7.0])  # one seed says nothing of chance


def test_less_nats_are_better():
    results = _results(trainer_masked=[5.0, 5.1])
    assert [one["nats"] for one in results["trainer_masked"]] == [-5.0, -5.1]
    assert any("pick trainer_masked" in line for line in hour.judge(results))


def test_rate_of_the_plain_loop():
    """Warmup to the peak, and at the end a tenth of it."""
    rates = [pretraining.rate_at(step, 1000) for step in range(1001)]
    assert max(rates) == rates[100] == pretraining.PLAIN_RATE
    assert rates[-1] == pytest.approx(pretraining.PLAIN_RATE / 10)
    assert rates[550] == pytest.approx(0.55 * pretraining.PLAIN_RATE)


@pytest.mark.parametrize("name", pretraining.TRAINERS)
def test_others_learn_and_come_over_unchanged(name, tmp_path, monkeypatch):
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

    transformers.set_seed(0)
    run = tmp_path / "run"
    model, seconds, tokens = pretraining.TRAINERS[name](name, data, run, 12, 0)
    assert tokens == 12 * (12 if name == "plain_loop" else 8) * pretraining.LENGTH
    assert 0 < 12 * seconds["step"]["cpu"] < 2 * seconds["whole"]["cpu"]
    ids = pretraining.read_rows(data)[:2]
    transformers.set_seed(0)
    fresh = type(model)(model.config)
    losses = [one.eval()(input_ids=ids, labels=ids).loss.item() for one in (fresh, model)]
    assert losses[1] < losses[0]

    model.save_pretrained(run)
    imported = tmp_path / "imported"
    assert not import_model.main([str(run), str(imported), "--no-tokenizer"])
    assert not compare_logits.main([str(run), str(imported), "--theirs"])
