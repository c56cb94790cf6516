"""A recipe of a published training and the class of transformers with its architecture compute the
same, and where the source begins as that class does, the first weights are alike."""

import pytest
import torch

from clozeline.configuration.config import read_composed, validate
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.train.configuration.config import TrainConfig
from tests.extensions.published.test_export_plan import IDS, exported, outputs_apart
from tests.published.tables import TRAININGS, facts_of
from tests.recipes import RECIPES

CLASSES = {
    name: facts_of(name)["transformers_class"]
    for name in TRAININGS
    if facts_of(name)["transformers_class"]
}
ALIKE = ("babyllama", "dnabert")
"""Trainings whose source is the class itself."""
LEAST = 2000
"""Elements of a tensor whose deviation is compared."""


def model_of(name, **sizes):
    keys = read_composed(TrainConfig, RECIPES / name / "train.yaml", ["variant=tiny"])["model"]
    return validate(ModelConfig, keys | {"vocab_multiple": 1} | sizes, "model")


@pytest.mark.parametrize("name", CLASSES)
def test_a_forward_pass(name, tmp_path):
    ((_, _, theirs, remarks, ours),) = exported(model_of(name), IDS, tmp_path)

    # MT5 is T5 under another name
    assert type(theirs).__name__ == CLASSES[name].replace("MT5", "T5")
    assert not remarks
    assert outputs_apart(ours, theirs) < 1e-4


@pytest.mark.parametrize("name", ALIKE)
def test_the_first_weights(name, tmp_path):
    """Deviations of matrices and tables within 5 %, and the same constants."""
    init = read_composed(TrainConfig, RECIPES / name / "train.yaml")["model"]["init"]
    config = model_of(name, dim=256, ffn_dim=512, init=init)
    ((_, _, theirs, _, _),) = exported(config, IDS, tmp_path, noise=0.0)
    torch.manual_seed(0)
    fresh = dict(type(theirs)(theirs.config).named_parameters())
    for key, tensor in theirs.named_parameters():
        error = 0.1 / tensor.numel() ** 0.5  # five of a mean of deviation 0.02
        assert tensor.mean().item() == pytest.approx(fresh[key].mean().item(), abs=error), key
        if tensor.numel() > LEAST:
            assert tensor.std().item() == pytest.approx(fresh[key].std().item(), rel=0.05), key
