import pytest
import torch

from tests.model.small_models import FAMILIES, batch_for, built


def judged(family, **options):
    network = built(family, heads={"classification": {"classes": 3, **options}}).eval()
    for parameter in network.heads["classification"].parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return network


def padded_left(tensors):
    """The rows of a batch with their padding before the tokens."""
    columns = tensors["input_ids"].shape[1]
    left = columns - tensors["lengths"]
    ids = torch.stack([row.roll(int(shift)) for row, shift in zip(tensors["input_ids"], left, strict=True)])
    places = (torch.arange(columns) - left[:, None]).clamp(min=0)
    return tensors | {"input_ids": ids, "position_ids": places, "left_padding": left}


@pytest.mark.parametrize("family", FAMILIES)
def test_padding_by_seven_places_changes_no_score(family):
    network, tensors = judged(family), batch_for(family, columns=11)
    if family == "encoder_decoder":
        tensors |= {"decoder_input_ids": tensors["input_ids"], "decoder_position_ids": tensors["position_ids"]}
    wider = dict(tensors)
    for name in ("input_ids", "decoder_input_ids"):
        if name in tensors:
            wider[name] = torch.nn.functional.pad(tensors[name], (0, 7))
            wider[name.replace("input", "position")] = torch.arange(18).expand(4, 18)
    found = [network.logits(batch)["classification"] for batch in (tensors, wider)]
    assert (found[0] - found[1]).abs().max() < 1e-5


@pytest.mark.parametrize("pool", ["cls", "mean", "max", "last", "late"])
@pytest.mark.parametrize("family", ["encoder", "decoder"])
def test_both_sides_of_padding_give_the_same_scores(family, pool):
    network, tensors = judged(family, pool=pool), batch_for(family)
    found = [network.logits(batch)["classification"] for batch in (tensors, padded_left(tensors))]
    assert (found[0] - found[1]).abs().max() < 1e-5


def test_late_scores_every_token_and_takes_the_mean():
    network, tensors = judged("encoder", pool="late", hidden="gelu"), batch_for("encoder")
    found = network.logits(tensors)["classification"]
    with torch.no_grad():
        every = network.heads["classification"].logits(network.family(tensors))
    for row, length in enumerate(tensors["lengths"].tolist()):
        assert torch.allclose(found[row], sum(every[row, place] for place in range(length)) / length, atol=1e-6)
    by_text = judged("encoder", pool="mean", hidden="gelu")
    scored = network.heads["classification"].flops()
    assert network.flops(11) - by_text.flops(11) == 3 * 10 * scored
