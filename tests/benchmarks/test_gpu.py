"""The script for a GPU: its lines on small models, what it skips, and its rows of documents."""

import json
import subprocess
import sys

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import gpu
from benchmarks.gpu_models import SMALL, Experiment
from benchmarks.model import batch_packed_rows, pack_documents
from clozeline.model.compilation.host_shapes import add_host_shapes
from tests.model.small_models import FAMILIES, batch_for, built, only


@pytest.mark.slow
def test_every_experiment_runs_in_small(tmp_path):
    output = tmp_path / "gpu.jsonl"
    command = [
        sys.executable,
        "-m",
        "benchmarks.gpu",
        "--device",
        "cpu",
        "--warm",
        "0",
        "--steps",
        "2",
    ]

    subprocess.run(
        [*command, "--minutes", "60", "--json", str(output)],
        cwd=gpu.ROOT,
        check=True,
    )
    lines = [json.loads(line) for line in output.read_text().splitlines()]

    assert [line["name"] for line in lines if line["tiny"]] == list(gpu.experiments())


def test_operations_are_those_that_torch_counts():
    """Full rows.

    Torch counts products of attention in neither pass where a fused kernel on a CPU does them.
    """
    one = Experiment(preset="bert_base", rows=2, columns=20)
    step, tokens, operations = gpu.steps(one, torch.device("cpu"), tiny=True)
    with FlopCounterMode(display=False) as counted:
        step()
    attention = 3 * SMALL["layers"] * 4 * SMALL["dim"] * 20 * 20 * 2

    assert tokens == 40
    assert counted.get_total_flops() + attention == pytest.approx(operations, rel=0.01)


def test_rows_of_documents_are_laid_end_to_end():
    assert pack_documents([300, 200, 20, 12, 500]) == [[300, 200, 12], [20], [500]]

    batch = batch_packed_rows([[3, 2], [4]])

    assert batch["cu_seqlens"].tolist() == [0, 3, 5, 9, 10]
    assert batch["document_ids"].tolist() == [[0, 0, 0, 1, 1], [0, 0, 0, 0, 1]]
    assert batch["position_ids"].tolist() == [[0, 1, 2, 0, 1], [0, 1, 2, 3, 0]]
    assert batch["lengths"].tolist() == [5, 4]
    assert not set(batch["label_index"].tolist()) & {9}


class Products(TorchDispatchMode):
    """Notes the types of what is multiplied by weights."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.overloadpacket.__name__ in ("mm", "addmm"):
            self.types |= {tensor.dtype for tensor in args if isinstance(tensor, torch.Tensor)}
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("family", [*FAMILIES, "elmo", "mobilebert"])
def test_no_weights_are_multiplied_in_fp32(family):
    """A model in bf16 on the meta device, where a read of a value or a tensor of another device is
    an error, too."""
    network = built(family).to("meta", torch.bfloat16)
    products = Products()
    products.types = set()
    batch = add_host_shapes(batch_for(family), network.config.position.limit)
    with products:
        only(network({name: tensor.to("meta") for name, tensor in batch.items()})).total.backward()

    assert products.types == {torch.bfloat16}
