import torch

from clozeline.model.compression.wanda import mask_row_wise
from tests.model.compression.compressed_models import compressed, model_of, odd_checkpoint
from tests.model.compression.test_magnitude import matrices
from tests.model.small_models import batch_for

CASE = {"sparsity": 0.4}


def published(dense, batches, share):
    """The published loop, written out: collect the inputs of a layer's maps, cut the layer, go on to the next."""
    model = model_of(dense)
    for layer in model.family.stack.layers:
        maps = [module for module in layer.modules() if isinstance(module, torch.nn.Linear)]
        inputs = {module: [] for module in maps}
        handles = [module.register_forward_pre_hook(lambda m, x, to=inputs: to[m].append(x[0])) for module in maps]
        real = []
        with torch.no_grad():
            for batch in batches:
                model(batch)
                real.append(torch.arange(batch["input_ids"].shape[1]) < batch["lengths"][:, None])
            for module, handle in zip(maps, handles, strict=True):
                handle.remove()
                tokens = torch.cat([x[mask] for x, mask in zip(inputs[module], real, strict=True)])
                score = module.weight.abs() * tokens.pow(2).sum(0).sqrt()
                for output in range(len(score)):
                    smallest = score[output].argsort()[: round(share * score.shape[1])]
                    module.weight[output, smallest] = 0
    return dict(model.named_parameters())


def test_layers_are_cut_in_turn_by_the_inputs_of_real_tokens():
    dense, batches = odd_checkpoint(), [batch_for("encoder", seed=seed) for seed in (1, 2)]
    expected = published(dense, batches, 0.4)
    pruned = compressed(dense, "wanda", batches, sparsity=0.4).checkpoint
    for name, tensor in pruned.tensors.items():
        assert torch.equal(tensor, expected[name]), name


def test_each_output_loses_its_share():
    dense = odd_checkpoint("encoder_decoder")
    pruned = compressed(dense, "wanda", [batch_for("encoder_decoder")], sparsity=0.4).checkpoint
    for name, tensor in matrices(pruned).items():
        assert ((tensor == 0).sum(1) == round(0.4 * tensor.shape[1])).all(), name


def test_the_content_of_padding_changes_nothing():
    dense, batch = odd_checkpoint(), batch_for("encoder", lengths=[11, 4, 7])
    other = dict(batch)
    other["input_ids"] = batch["input_ids"].clone()
    other["input_ids"][1, 4:] = 9
    first, second = (compressed(dense, "wanda", [given]).checkpoint for given in (batch, other))
    assert all(torch.equal(tensor, second.tensors[name]) for name, tensor in first.tensors.items())


def test_without_input_norms_it_is_the_magnitude_of_each_row():
    weight = torch.randn(5, 9, generator=torch.Generator().manual_seed(0))
    mask = mask_row_wise(weight, torch.ones(9), 4)
    assert (mask.sum(1) == 4).all()
    for row, masked in zip(weight.abs(), mask, strict=True):
        assert row[masked].max() <= row[~masked].min()
