"""Programs that pages show, run as a reader would: docs/python.md and compression.

The blocks of docs/python.md run one after another beside a folder `data/site`; its classes are then
resumed, where every row is trained on once.
"""

import json
import os
import random
import re
import shlex
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils.data import DataLoader

from clozeline.model.loss import Loss
from clozeline.pipeline.rows import RowBatch
from clozeline.pipeline.shards import open_shards
from clozeline.train.data.stream.labels import dense_labels
from clozeline.train.data.stream.stream import Stream
from clozeline.train.data.stream.torch_dataset import StreamDataset
from tests.distributed import Ranks, run_program
from tests.shard_sets import list_column, objective, toy_set, write_set
from tests.train.masked_set import masked_rows, write_masked_sets

ROOT = Path(__file__).parents[1]
BLOCKS = re.findall(
    r"^```python\n(.*?)^```$",
    (ROOT / "docs" / "python.md").read_text(encoding="utf-8"),
    re.M | re.S,
)


BATCH = 16
SET = "data/site/corrupt/masked_lm"
COMPARABLE = {
    '"intermediate_size": 64,': '"intermediate_size": 64, **WITHOUT_DROPOUT',
    'report_to="none"': 'report_to="none", max_grad_norm=0',
}
"""Changes of the page for a comparison of gradients."""
WITHOUT_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def read_step(shards, step):
    """Return the rows of a step as one micro-batch, read by one rank."""
    options = {"global_batch": BATCH, "micro_batch": BATCH, "io_threads": 0}
    with Stream(shards, rank=0, world_size=1, seed=1, **options) as stream:
        stream.set_position(BATCH * step)
        return stream.next_step()[0].tensors


def plain_mean(model, inputs, next_token=False):
    """Return the mean over the labels of a model of transformers."""
    labels = inputs["labels"][:, int(next_token) :]
    logits = model(**{name: value for name, value in inputs.items() if name != "labels"}).logits
    return cross_entropy(logits[:, : labels.shape[1]].flatten(0, 1), labels.flatten())


@contextmanager
def compare_steps(plain):
    """Compare the gradient of each step of any optimizer with that of `plain(number)`.

    Yield the plain losses, a list that grows with the steps.
    """
    losses = []
    gradients = []

    def weights_of(optimizer):
        return [weight for group in optimizer.param_groups for weight in group["params"]]

    def expect(optimizer, *_):
        loss = plain(len(losses))
        options = {"allow_unused": True, "materialize_grads": True}
        gradients[:] = torch.autograd.grad(loss, weights_of(optimizer), **options)
        losses.append(loss.item())

    def compare(optimizer, *_):  # a step may compute its gradient itself
        for weight, gradient in zip(weights_of(optimizer), gradients, strict=True):
            seen = torch.zeros_like(weight) if weight.grad is None else weight.grad
            torch.testing.assert_close(seen, gradient, rtol=1e-3, atol=1e-6)

    handles = [
        register_optimizer_step_pre_hook(expect),
        register_optimizer_step_post_hook(compare),
    ]
    try:
        yield losses
    finally:
        for handle in handles:
            handle.remove()


def run_page(folder):
    """Run the blocks; compare their losses and gradients with plain ones.

    An epoch ends in each second step, and the last half of that step is filler.
    """
    os.chdir(folder)
    shards = open_shards(f"{SET}/train")
    printed = []
    names = {"__name__": "__main__", "WITHOUT_DROPOUT": WITHOUT_DROPOUT}

    def record(*words):
        printed.append(words)
        print(*words)
        if isinstance(words[0], float):
            heldout = open_shards(f"{SET}/heldout")
            with Stream(
                heldout, rank=0, world_size=1, seed=1, global_batch=64, micro_batch=64
            ) as stream:
                tensors = next(stream.one_pass())[0].tensors
            expected = plain_mean(names["bert"], dense_labels(tensors)).item()
            assert words[0] == pytest.approx(expected, rel=1e-5), "held-out loss"

    def plain(number):
        if 3 <= number < 9:
            step = number - 3 if number < 7 else number - 5  # resumed after the second
            return plain_mean(names["bert"], dense_labels(read_step(shards, step)))
        loss = names["model"](read_step(shards, number % 9))["masked_lm"]
        return loss.total / loss.count

    names["print"] = record
    code = "\n".join(BLOCKS)
    for old, new in COMPARABLE.items():
        assert code.count(old) == 1
        code = code.replace(old, new)
    with compare_steps(plain) as losses:
        exec(compile(code, "docs/python.md", "exec"), names)

    assert len(losses) == 12
    assert [words[1] for words in printed if words[1:] and isinstance(words[1], float)] == (
        pytest.approx(losses[:3], rel=1e-5)
    )

    *logged, last = names["trainer"].state.log_history

    assert [line["loss"] for line in logged if "loss" in line] == pytest.approx(
        [*losses[3:5], *losses[7:9]], rel=1e-3
    )
    assert last["train_loss"] == pytest.approx(sum(losses[7:9]) / 2, rel=1e-3)
    assert names["lightning"].callback_metrics["loss"].item() == pytest.approx(losses[-1], rel=1e-5)
    return 0


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2])
def test_the_blocks_run_one_after_another(tmp_path, ranks):
    """A text is corrupted and restored, a set opened, three steps taken, a loader resumed, and both
    trainers run."""
    write_masked_sets(tmp_path / SET, rows=24, heldout=34)
    launched = {"TORCHELASTIC_RUN_ID": "page"} if ranks > 1 else {}
    done = Ranks(ranks, run_page, [tmp_path], tmp_path, launched).finish()

    assert done.codes == [0] * ranks, done.errors

    for printed in done.outputs:
        assert "<extra_0>" in printed
        assert "[CLS] It is raining . [SEP]" in printed
        assert "24 rows of input_ids, label_positions, label_ids; sample " in printed
        assert "\n16 True\n" in printed
        assert f"34 held-out rows in {12 // ranks} micro-batches" in printed

    assert done.outputs[0].count("'train_loss'") == 2, "the second resumes"


def test_sequences_become_an_exported_model_in_the_five_commands_of_their_page(tmp_path):
    """Each is typed as it stands; only the number of steps is less.

    The k-mer model of the page reads their rows.
    """
    page = (ROOT / "docs" / "sequences.md").read_text(encoding="utf-8")
    commands = re.search(r"^```sh\n(.*?)^```$", page, re.M | re.S)[1].splitlines()

    assert len(commands) == 5

    draw = random.Random(1)
    letters = "ACDEFGHIKLMNPQRSTVWY"

    with (tmp_path / "proteins.faa").open("w") as file:
        for number in range(300):
            protein = "M" + "".join(
                draw.choices(letters, weights=range(20, 0, -1), k=draw.randrange(40, 200))
            )
            lines = [protein[first : first + 60] for first in range(0, len(protein), 60)]
            file.write("\n".join([f">made|{number} by a test", *lines]).lower() + "*\n")

    printed = []

    for command in commands:
        program, *words = shlex.split(command)

        assert program == "clozeline"

        steps = ["steps=3", "schedule.warmup=1"] if words[0] == "train" else []
        done = run_program(
            "import sys\nfrom clozeline.__main__ import main\nsys.argv = "
            f"{[program, *words, *steps]}\nsys.exit(main())",
            tmp_path,
        )

        assert done.codes == [0], done.errors

        printed += done.outputs

    assert "300 final_stop" in printed[1]
    assert "guesses:" in printed[3]
    assert "loaded by AutoModelForMaskedLM" in printed[4]

    vocabulary = json.loads(
        (tmp_path / "mine" / "exported" / "tokenizer.json").read_text(encoding="utf-8")
    )

    assert set(letters) <= set(vocabulary["model"]["vocab"])
    assert len(vocabulary["model"]["vocab"]) == 8 + len(letters)

    program = re.search(r"^```python\n(.*?)^```$", page, re.M | re.S)[1]
    words = ["kmer.py", "mine/data/group/packed-126-sep", "400"]
    done = run_program(
        program.replace("import sys\n", f"import sys\nsys.argv = {words}\n", 1), tmp_path
    )

    assert done.codes == [0], done.errors

    single, *_ = re.findall(r"^0 neighbors: (\S+) nats", done.outputs[0], re.M)
    weights = np.arange(20, 0, -1) / 210

    assert abs(float(single) + float(weights @ np.log(weights))) < 0.05, (
        "the entropy of the letters drawn"
    )


STEPS = 11
ROWS = 176


def of_page(**names):
    """Return the classes of the page, which read these names."""
    names |= {"torch": torch, "DataLoader": DataLoader}
    for block in BLOCKS:
        if re.search("^class ", block, re.M):
            exec(compile(block, "docs/python.md", "exec"), names)
    return names


def open_dataset(shards, micro_batches=2):
    sizes = {"global_batch": BATCH, "micro_batch": BATCH // micro_batches, "lanes": BATCH}
    return StreamDataset(Stream(shards, rank=0, world_size=1, seed=1, io_threads=0, **sizes))


def rows_of(tensors):
    return tensors["input_ids"].tolist()


def train_by_transformers(model, dataset, folder, *, next_token=False, resume=None, **options):
    """Train by the page's trainer; return the rows of each micro-batch, and the trainer."""
    from transformers import TrainingArguments

    page = of_page()
    trained = []

    class Recording(page["StreamTrainer"]):
        def training_step(self, model, inputs, *rest):
            trained.append(rows_of(inputs))
            return super().training_step(model, inputs, *rest)

    options |= {"ignore_data_skip": True, "report_to": "none"}
    arguments = TrainingArguments(str(folder), use_cpu=True, disable_tqdm=True, **options)
    callbacks = [page["SaveStream"]()]
    trainer = Recording(
        model, arguments, next_token=next_token, callbacks=callbacks, train_dataset=dataset
    )
    trainer.train(resume)
    return trained, trainer


GPT2 = {"n_embd": 8, "n_layer": 1, "n_head": 2}
GPT2 |= dict.fromkeys(["resid_pdrop", "embd_pdrop", "attn_pdrop"], 0.0)
LAYER = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
LAYER |= {"intermediate_size": 16, "pad_token_id": 0}
T5 = {"d_model": 8, "d_kv": 4, "d_ff": 16, "num_layers": 1, "num_heads": 2, "dropout_rate": 0.0}
MODELS = {
    "BertForMaskedLM": (LAYER | WITHOUT_DROPOUT, ["label_positions", "label_ids"]),
    "RobertaForMaskedLM": (LAYER | WITHOUT_DROPOUT, ["label_positions", "label_ids"]),
    "GPT2LMHeadModel": (GPT2, []),
    "LlamaForCausalLM": (LAYER, []),
    "T5ForConditionalGeneration": (T5, ["target_ids"]),
}
"""Sizes, and the columns of rows that the model learns from; without any it is causal."""


def small_model(name):
    import transformers

    made = getattr(transformers, name)
    torch.manual_seed(1)
    return made(made.config_class(vocab_size=1000, **MODELS[name][0]))


@pytest.mark.parametrize("name", MODELS)
def test_the_trainer_of_the_page_computes_the_mean_over_a_step(tmp_path, name):
    """Four micro-batches a step; those at the end of the epoch are filler alone."""
    _, columns = MODELS[name]
    rows = masked_rows(1, 24)
    lists = {"target_ids": rows.columns["input_ids"], **rows.columns}
    kept = {column: lists[column] for column in ["input_ids", *columns]}
    architecture = "encoder_decoder" if "target_ids" in columns else "encoder"
    shards = write_set(
        tmp_path / "set",
        [RowBatch(rows.fixed, kept)],
        columns=[list_column(column) for column in kept],
        objective=objective(architecture if columns else "decoder"),
    )
    model = small_model(name)
    causal = not columns

    def plain(number):
        inputs = dense_labels(read_step(shards, number), next_token=causal)
        return plain_mean(model, inputs, causal)

    options = {"gradient_accumulation_steps": 4, "max_steps": 3, "max_grad_norm": 0}
    with compare_steps(plain) as losses:
        _, trainer = train_by_transformers(
            model,
            open_dataset(shards, 4),
            tmp_path / "run",
            next_token=causal,
            logging_steps=1,
            save_strategy="no",
            **options,
        )

    logged = [line["loss"] for line in trainer.state.log_history if "loss" in line]

    assert logged == pytest.approx(losses, rel=1e-3)


def test_transformers_resumes_where_it_stopped(tmp_path):
    shards = toy_set(tmp_path / "set", [ROWS])
    options = {"max_steps": STEPS, "save_steps": 2, "gradient_accumulation_steps": 2}

    def train(dataset, resume=None):
        model = small_model("GPT2LMHeadModel")
        how = {"next_token": True, "resume": resume, **options}
        return train_by_transformers(model, dataset, tmp_path / "run", **how)[0]

    entire = train(open_dataset(shards))

    assert len({tuple(row) for rows in entire for row in rows}) == ROWS

    checkpoint = tmp_path / "run" / "checkpoint-4"
    dataset = open_dataset(shards)
    state = json.loads((checkpoint / "stream.json").read_text())

    assert (state["step"], state["samples"]) == (4, 4 * BATCH)

    dataset.load_state_dict(state)

    assert train(dataset, str(checkpoint)) == entire[8:]

    later = json.loads((tmp_path / "run" / "checkpoint-10" / "stream.json").read_text())

    assert later["samples"] == 10 * BATCH, "steps count across the resume"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Lightning, about its own use of torch
def test_lightning_resumes_where_it_stopped(tmp_path):
    from pytorch_lightning.callbacks import ModelCheckpoint

    shards = toy_set(tmp_path / "set", [ROWS])

    def train(dataset, **how):
        trained = []
        page = of_page(dataset=dataset)

        class Recording(page["MaskedLM"]):
            def training_step(self, tensors, number):
                trained.append(rows_of(tensors))
                return super().training_step(tensors, number)

        def count(tensors):
            return {"masked_lm": Loss(weight(tensors["input_ids"].float()).sum(), BATCH)}

        module = Recording()
        module.weight = weight = torch.nn.Linear(8, 1)
        module.model = count
        saves = ModelCheckpoint(tmp_path / "run", "{step}", every_n_train_steps=2, save_top_k=-1)
        callbacks = [page["StreamPosition"](), saves]
        quiet = {"logger": False, "enable_progress_bar": False}
        options = {"max_steps": STEPS, "accumulate_grad_batches": 2, "accelerator": "cpu", **quiet}
        page["Lightning"](callbacks=callbacks, **options).fit(
            module, DataLoader(dataset, batch_size=None), **how
        )
        return trained

    entire = train(open_dataset(shards))

    assert len({tuple(row) for rows in entire for row in rows}) == ROWS
    assert (
        train(open_dataset(shards), ckpt_path=str(tmp_path / "run" / "step=4.ckpt")) == entire[8:]
    )


@pytest.mark.slow
def test_early_exit_and_token_pruning_trade_arithmetic_for_accuracy(tmp_path):
    page = (ROOT / "extensions" / "compression" / "early-exit.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"^```python\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL))
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "CUDA_VISIBLE_DEVICES": "",
            "OMP_NUM_THREADS": "1",
        },
    )

    assert done.returncode == 0, done.stderr

    flops = [
        int(number.replace(",", ""))
        for number in re.findall(r"([\d,]+) FLOPs per row", done.stdout)
    ]
    depths = [float(depth) for depth in re.findall(r"depth (\d\.\d\d)", done.stdout)]
    accuracies = [float(score) for score in re.findall(r": (0\.\d{3})", done.stdout)]

    assert depths[0] == 4 > depths[1] > depths[2] >= 1
    assert flops[0] > flops[1] > flops[2]
    assert all(pruned < flops[0] for pruned in flops[4:])
    assert (len(flops), len(accuracies)) == (5, 5)
    assert min(accuracies) > 0.8
