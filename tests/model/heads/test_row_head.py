import torch

from tests.model.small_models import batch_for, built


def judged(family, **options):
    network = built(family, heads={"classification": {"classes": 3, **options}}).eval()
    for parameter in network.heads["classification"].parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return network


def test_late_scores_every_token_and_takes_the_mean():
    network = judged("encoder", pool="late", hidden="gelu")
    tensors = batch_for("encoder")
    found = network.logits(tensors)["classification"]
    with torch.no_grad():
        every = network.heads["classification"].logits(network.family(tensors))
    for row, length in enumerate(tensors["lengths"].tolist()):
        assert torch.allclose(
            found[row], sum(every[row, place] for place in range(length)) / length, atol=1e-6
        )

    by_text = judged("encoder", pool="mean", hidden="gelu")
    scored = network.heads["classification"].flops()

    assert network.flops(11) - by_text.flops(11) == 3 * 10 * scored


def test_the_vectors_of_both_orders_of_a_pair_are_added():
    """Four rows are two pairs: their scores are those of the sums, and the bias counts once
    (Radford et al. 2018)."""
    network = judged("decoder")
    tensors = batch_for("decoder")
    head = network.heads["classification"].classifier.out
    alone = network.logits(tensors)["classification"] - head.bias
    found = network.logits(tensors | {"choices": torch.tensor([2, 2])})["classification"]

    assert torch.allclose(
        found,
        alone.view(2, 2, 3).sum(1) + head.bias,
        atol=1e-5,
    )
