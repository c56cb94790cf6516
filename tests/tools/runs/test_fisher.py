"""Fisher information of a small run, measured by the command, and a training that keeps what it
says."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from clozeline.errors import ConfigurationError
from clozeline.pipeline.shards import open_shards
from clozeline.tools.runs.fisher import main as fisher_main
from clozeline.tools.runs.inference.fisher_information import (
    diagonal_fisher,
    require_drawable_labels,
)
from clozeline.tools.start.contracts.heads import full_batch
from clozeline.train.checkpoint.trained_model import TrainedModel
from tests.model.small_models import built
from tests.shard_sets import change_manifest
from tests.tools.small_run import compute_row_scores


def test_the_file_holds_weights_and_squares(tuned, tmp_path, capsys):
    """The same from the same seed.

    With all rows and the labels of the data it is the mean over the set, by a loop.
    """
    files = [tmp_path / name for name in ("a", "b", "c", "all")]
    for path, words in zip(
        files, (["seed=1"], ["seed=1"], ["seed=2"], ["rows=999", "empirical=true"]), strict=True
    ):
        assert fisher_main([str(tuned), f"output={path}", "rows=20", *words]) == 0

    assert "60 rows at step 6, mean " in capsys.readouterr().out
    assert files[0].read_bytes() == files[1].read_bytes() != files[2].read_bytes()

    words = [f"output={tmp_path / 'both'}", "rows=20", "seed=2", f"add={files[0]}"]

    assert fisher_main([str(tuned), *words]) == 0

    first, second, both = (load_file(path) for path in (files[0], files[2], tmp_path / "both"))

    for name, values in both.items():
        added = first[name] if name.startswith("fisher/") else 0
        assert torch.equal(values, second[name] + added)

    trained = TrainedModel.open(tuned)
    names = [name for name, _ in trained.model.named_parameters()]

    with safe_open(files[3], framework="pt") as opened:
        assert json.loads(opened.metadata()["fisher"]) == {
            "step": 6,
            "rows": 60,
            "empirical": True,
        }
        assert sorted(opened.keys()) == sorted(
            f"{kind}/{name}" for kind in ("fisher", "weight") for name in names
        )

        for name, parameter in trained.model.named_parameters():
            assert torch.equal(opened.get_tensor(f"weight/{name}"), parameter)
        bias = opened.get_tensor("fisher/heads.classification.classifier.out.bias")

    errors = []

    for row in open_shards(Path(trained.sets[0].path)):
        shares = compute_row_scores(trained, row["input_ids"].tolist(), "classification").softmax(
            -1
        )
        shares[int(row["label"][0])] -= 1.0
        errors.append(shares)

    torch.testing.assert_close(
        bias,
        torch.stack(errors).square().mean(0),
        rtol=1e-4,
        atol=1e-7,
    )


def test_a_set_that_is_not_there_is_refused(tuned, capsys, tmp_path):
    assert fisher_main([str(tuned), f"output={tmp_path / 'f'}", "data=nowhere"]) in (64, 74)
    assert "nowhere" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("several", [False, True])
def test_the_bias_of_a_class_has_its_variance(several):
    """Of a softmax and of independent classes E (y - p)² = p (1 - p), and with label y of the data
    (y - p)²."""
    model = built(
        "encoder", heads={"classification": {"classes": 3, "multi_label": several}}
    ).eval()
    require_drawable_labels(model.heads)
    bias = model.heads["classification"].classifier.out.bias
    torch.nn.init.normal_(bias, std=1.5, generator=torch.Generator().manual_seed(0))
    tensors = full_batch()
    row = {
        name: value[:1]
        for name, value in tensors.items()
        if len(value) == len(tensors["input_ids"])
    }

    row["label"] = torch.tensor([[0, 0, 0]] if several else [1])
    logits = model.logits(row)["classification"][0].detach()
    shares = logits.sigmoid() if several else logits.softmax(-1)
    found = diagonal_fisher(model, [row] * 200, 1)["heads.classification.classifier.out.bias"]
    variance = shares * (1 - shares)
    spread = variance * (1 - 2 * shares) ** 2  # variance of a draw

    assert ((found - variance).abs() < 3 * (spread / 200).sqrt()).all()

    found = diagonal_fisher(model, [row], 1, empirical=True)[
        "heads.classification.classifier.out.bias"
    ]
    gold = torch.tensor([0.0, 0.0, 0.0] if several else [0.0, 1.0, 0.0])

    torch.testing.assert_close(found, (gold - shares).square())


def test_only_one_head_with_a_distribution_is_drawn_from():
    head = built("encoder", heads={"masked_lm": 1.0}).heads["masked_lm"]
    require_drawable_labels({"masked_lm": head})
    with pytest.raises(ConfigurationError, match=r"has a, b; set empirical=true"):
        require_drawable_labels({"a": head, "b": head})
    with pytest.raises(ConfigurationError, match=r"model.heads.token: labels cannot be sampled"):
        require_drawable_labels(built("encoder", heads={"token": 1.0}).heads)


def test_rows_with_the_classes_in_another_order(tuned, tmp_path, capsys):
    sets = shutil.copytree(tuned.parent / "out/tasks/sst2/train", tmp_path / "train")
    change_manifest(
        sets, lambda manifest: manifest["objective"]["options"]["task"].update(labels=["1", "0"])
    )

    assert fisher_main([str(tuned), f"data={sets}", f"output={tmp_path}/fisher"]) == 64
    assert "class 0 of the head classification is '1'" in capsys.readouterr().err
