import pytest
import torch

from tests.extensions.compression.methods.compressed_models import compressed, odd_checkpoint

CASE = {"sparsity": 0.5}
PRUNED = ("query", "key", "value", "out", "up", "gate", "down")


def matrices(checkpoint):
    """The linear maps of the layers, by the words in their names."""
    return {
        name: t
        for name, t in checkpoint.tensors.items()
        if name.split(".")[-2] in PRUNED and t.ndim == 2
    }


@pytest.mark.parametrize("sparsity", [0.1, 0.5, 0.9])
def test_each_matrix_loses_its_share(sparsity):
    dense = odd_checkpoint()
    pruned = compressed(dense, "magnitude", sparsity=sparsity).checkpoint

    assert len(matrices(dense)) == 5 * 6

    for name, tensor in dense.tensors.items():
        if name not in matrices(dense):
            assert torch.equal(pruned.tensors[name], tensor)
            continue

        zeros = pruned.tensors[name] == 0

        assert int(zeros.sum()) == round(sparsity * tensor.numel())
        assert torch.equal(pruned.tensors[name][~zeros], tensor[~zeros])
        assert tensor[zeros].abs().max() <= tensor[~zeros].abs().min()


def test_a_global_share_takes_the_smallest_of_all_matrices():
    dense = odd_checkpoint()
    pruned = matrices(compressed(dense, "magnitude", sparsity=0.3, scope="global").checkpoint)
    every = torch.cat([tensor.flatten() for tensor in matrices(dense).values()])
    zeros = torch.cat([tensor.flatten() for tensor in pruned.values()]) == 0

    assert int(zeros.sum()) == round(0.3 * every.numel())
    assert every[zeros].abs().max() <= every[~zeros].abs().min()

    shares = {float((tensor == 0).double().mean()) for tensor in pruned.values()}

    assert len(shares) > 1
