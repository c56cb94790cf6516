"""Encoders whose rows are read from left to right."""

import pytest
import torch

from model.build import build_model
from model.config import PositionConfig
from tests.model.small_models import VOCABULARY, batch_for, small_config


@pytest.mark.parametrize("kind", ["learned", "rope"])
def test_causal_rows_in_an_encoder_equal_a_decoder(kind):
    """The same weights give the same scores, loss and gradients, beside a row that is read in both directions."""
    changes = {"heads": {"lm": 1.0}, "position": PositionConfig(kind=kind, maximum=16), "type_vocab_size": 0}
    torch.manual_seed(0)
    decoder = build_model(small_config("decoder", **changes), VOCABULARY, {})
    encoder = build_model(small_config("decoder", family="encoder", **changes), VOCABULARY, {})
    encoder.load_state_dict(decoder.state_dict())
    tensors = batch_for("decoder", lengths=[11, 7, 4])
    places = [(row, place) for row, length in enumerate((11, 7, 4)) for place in range(1, length)]
    tensors["label_index"] = torch.tensor([row * 11 + place - 1 for row, place in places])
    tensors["label_ids"] = torch.stack([tensors["input_ids"][row, place] for row, place in places])
    expected = decoder(tensors)["lm"]
    expected.total.backward()
    rows = {name: torch.cat((value, value[:1])) for name, value in tensors.items() if not name.startswith("label")}
    rows |= {"attention": torch.tensor([1, 1, 1, 0]), "prefix_length": torch.zeros(4, dtype=torch.int64)}
    mixed = tensors | rows
    found = encoder(mixed)["lm"]
    found.total.backward()
    assert found.count == expected.count == 10 + 6 + 3
    assert found.total.item() == pytest.approx(expected.total.item(), rel=1e-6)
    with torch.no_grad():
        scores, theirs = encoder.logits(mixed)["lm"], decoder.logits(tensors)["lm"]
    for row, length in enumerate((11, 7, 4)):
        assert torch.allclose(scores[row, :length], theirs[row, :length], atol=1e-6)
    for name, parameter in encoder.named_parameters():
        assert torch.allclose(parameter.grad, decoder.get_parameter(name).grad, rtol=1e-5, atol=1e-6), name


def test_a_causal_score_reads_no_later_token():
    torch.manual_seed(0)
    encoder = build_model(small_config("encoder", type_vocab_size=0), VOCABULARY, {}).eval()
    tensors = batch_for("encoder", lengths=[11, 11])
    tensors |= {"attention": torch.tensor([1, 0]), "prefix_length": torch.zeros(2, dtype=torch.int64)}
    before = encoder.logits(tensors)["masked_lm"]
    for place in range(11):
        ids = tensors["input_ids"].clone()
        ids[:, place] = (ids[:, place] + 1) % VOCABULARY
        after = encoder.logits(tensors | {"input_ids": ids})["masked_lm"]
        same = (before == after).all(-1)
        assert same[0].tolist() == [query < place for query in range(11)]
        assert not same[1].any(), "the row beside it is read in both directions"
