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
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from clozeline.train.data.stream.labels import dense_labels
from clozeline.train.data.stream.stream import Stream
from clozeline.train.data.stream.torch_dataset import StreamDataset
from tests.distributed import run_program
from tests.shard_sets import toy_set
from tests.train.masked_set import write_masked_sets

ROOT = Path(__file__).parents[1]
BLOCKS = re.findall(
    r"^```python\n(.*?)^```$",
    (ROOT / "docs" / "python.md").read_text(encoding="utf-8"),
    re.M | re.S,
)


@pytest.mark.slow
def test_the_blocks_run_one_after_another(tmp_path):
    """A text is corrupted and restored, a set opened, three steps taken, a loader resumed, and both
    trainers run."""
    write_masked_sets(tmp_path / "data" / "site" / "corrupt" / "masked_lm")
    done = run_program("\n".join(BLOCKS), tmp_path)

    assert done.codes == [0], done.errors

    (printed,) = done.outputs

    assert "<extra_0>" in printed
    assert "[CLS] It is raining . [SEP]" in printed
    assert "240 rows of input_ids, label_positions, label_ids; sample " in printed
    assert re.findall(r"^(\d) \d\.\d+$", printed, re.M) == ["0", "1", "2"]
    assert "\n16 True\n" in printed
    assert printed.count("'train_loss'") == 2, "the second resumes"
    assert "45 held-out rows in 3 micro-batches" in printed
    assert "Trainable params" in printed


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


BATCH = 16
STEPS = 11
ROWS = 176


def of_page(**names):
    """Return the classes of the page, which read these names."""
    names |= {"torch": torch, "DataLoader": DataLoader}
    for block in BLOCKS:
        if re.search("^class ", block, re.M):
            exec(compile(block, "docs/python.md", "exec"), names)
    return names


def open_dataset(shards):
    """Two micro-batches in each step."""
    sizes = {"global_batch": BATCH, "micro_batch": BATCH // 2, "lanes": BATCH}
    return StreamDataset(Stream(shards, rank=0, world_size=1, seed=1, io_threads=0, **sizes))


def rows_of(tensors):
    return tensors["input_ids"].tolist()


def train_by_transformers(dataset, folder, **how):
    """Train a tiny GPT-2 by the page's trainer.

    Return the rows of each micro-batch that it trained on.
    """
    from transformers import GPT2Config, GPT2LMHeadModel, TrainingArguments

    trained = []

    class Recording(of_page()["StreamTrainer"]):
        def training_step(self, model, inputs, *rest):
            trained.append(rows_of(inputs))
            return super().training_step(model, inputs, *rest)

    model = GPT2LMHeadModel(
        GPT2Config(vocab_size=1000, n_positions=8, n_embd=8, n_layer=1, n_head=1)
    )
    options = {
        "max_steps": STEPS,
        "save_steps": 2,
        "gradient_accumulation_steps": 2,
        "ignore_data_skip": True,
    }

    options |= {"remove_unused_columns": False}
    options |= {"report_to": "none", "use_cpu": True, "disable_tqdm": True}
    callbacks = [of_page()["SaveStream"]()]
    made = Recording(
        model,
        TrainingArguments(str(folder), **options),
        callbacks=callbacks,
        train_dataset=dataset,
        data_collator=partial(dense_labels, next_token=True),
    )

    made.train(**how)
    return trained


def test_transformers_resumes_where_it_stopped(tmp_path):
    shards = toy_set(tmp_path / "set", [ROWS])
    entire = train_by_transformers(open_dataset(shards), tmp_path / "run")

    assert len({tuple(row) for rows in entire for row in rows}) == ROWS

    checkpoint = tmp_path / "run" / "checkpoint-4"
    dataset = open_dataset(shards)
    state = json.loads((checkpoint / "stream.json").read_text())

    assert (state["step"], state["samples"]) == (4, 4 * BATCH)

    dataset.load_state_dict(state)
    rest = train_by_transformers(dataset, tmp_path / "run", resume_from_checkpoint=str(checkpoint))

    assert rest == entire[8:]

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
                return self.weight(tensors["input_ids"].float()).mean()

        module = Recording()
        module.weight = torch.nn.Linear(8, 1)
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
    assert (len(flops), len(accuracies)) == (6, 8), "what is learned prints tokens per layer"
    assert min(accuracies) > 0.8
