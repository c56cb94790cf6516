"""docs/python.md, block after block, as a reader would paste it, beside a folder `data/site`.

Its classes are then resumed, and run on two processes: every row is trained on once.
"""

import json
import os
import re
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader

from clozeline.errors import StreamError
from clozeline.pipeline.shards import open_shards
from clozeline.train.data.stream.labels import dense_labels
from clozeline.train.data.stream.stream import Stream
from clozeline.train.data.stream.torch_dataset import StreamDataset
from tests.distributed import run_program, run_ranks
from tests.shard_sets import toy_set
from tests.train.masked_set import write_masked_sets

ROOT = Path(__file__).parents[1]
BLOCKS = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / "python.md").read_text(encoding="utf-8"), re.M | re.S)
LONGEST_BLOCK = 8


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """Return the lines that the page prints, run in a folder of its own."""
    folder = tmp_path_factory.mktemp("page")
    write_masked_sets(folder / "data" / "site" / "corrupt" / "masked_lm")
    done = run_program("\n".join(BLOCKS), folder)
    assert done.codes == [0], done.errors
    return done.outputs[0]


def test_blocks_are_short():
    """Imports aside."""
    for block in BLOCKS:
        lines = [line for line in block.splitlines() if line.strip() and not re.match(r"(from|import) ", line)]
        assert len(lines) <= LONGEST_BLOCK, block


def test_a_text_is_corrupted_and_restored(printed):
    assert "<extra_0>" in printed
    assert "[CLS] It is raining . [SEP]" in printed


def test_a_shard_set_is_opened(printed):
    assert "240 rows of input_ids, label_positions, label_ids; sample " in printed


def test_the_plain_loop_takes_three_steps(printed):
    steps = re.findall(r"^(\d) (\d\.\d+)$", printed, re.M)
    assert [step for step, _ in steps] == ["0", "1", "2"]


def test_a_loader_resumes_at_the_saved_position(printed):
    assert "\n16 True\n" in printed


def test_both_trainers_run(printed):
    assert printed.count("'train_loss'") == 2, "the second resumes"
    assert "45 held-out rows in 3 micro-batches" in printed
    assert "Trainable params" in printed


BATCH, STEPS, ROWS = 16, 11, 176


def of_page(**names):
    """Return the classes of the page, which read these names."""
    names |= {"torch": torch, "DataLoader": DataLoader}
    for block in BLOCKS:
        if re.search("^class ", block, re.M):
            exec(compile(block, "docs/python.md", "exec"), names)
    return names


def open_dataset(shards, rank=0, world=1, **options):
    """Two micro-batches in each step of a rank."""
    sizes = {"global_batch": BATCH, "micro_batch": BATCH // world // 2, "lanes": BATCH}
    return StreamDataset(Stream(shards, rank=rank, world_size=world, seed=1, io_threads=0, **sizes), **options)


def rows_of(tensors):
    return tensors["input_ids"].tolist()


def train_by_transformers(trainer, dataset, folder, collate, **how):
    """Train a tiny GPT-2; return the trainer and the rows of each micro-batch that it trained on."""
    from transformers import GPT2Config, GPT2LMHeadModel, TrainingArguments

    trained = []

    class Recording(trainer):
        def training_step(self, model, inputs, *rest):
            trained.append(rows_of(inputs))
            return super().training_step(model, inputs, *rest)

    model = GPT2LMHeadModel(GPT2Config(vocab_size=1000, n_positions=8, n_embd=8, n_layer=1, n_head=1))
    options = {"max_steps": STEPS, "save_steps": 2, "gradient_accumulation_steps": 2, "ignore_data_skip": True}
    options |= {"per_device_train_batch_size": 1, "remove_unused_columns": False}  # for loaders that are not the page's
    options |= {"report_to": "none", "use_cpu": True, "disable_tqdm": True}
    callbacks = [of_page()["SaveStream"]()]
    made = Recording(
        model, TrainingArguments(str(folder), **options), callbacks=callbacks, train_dataset=dataset,
        data_collator=collate,
    )  # fmt: skip
    made.train(**how)
    return made, trained


ONE = partial(dense_labels, next_token=True)


def first_of(samples):
    return ONE(samples[0])


@pytest.mark.parametrize("plain", [True, False], ids=["the page's trainer", "a loader that accelerate prepared"])
def test_transformers_resumes_where_it_stopped(tmp_path, plain):
    from transformers import Trainer

    kind, collate = (of_page()["StreamTrainer"], ONE) if plain else (Trainer, first_of)
    shards = toy_set(tmp_path / "set", [ROWS])
    _, entire = train_by_transformers(kind, open_dataset(shards), tmp_path / "run", collate)
    assert len({tuple(row) for rows in entire for row in rows}) == ROWS
    checkpoint, dataset = tmp_path / "run" / "checkpoint-4", open_dataset(shards)
    state = json.loads((checkpoint / "stream.json").read_text())
    assert (state["step"], state["samples"]) == (4, 4 * BATCH)
    dataset.load_state_dict(state)
    _, rest = train_by_transformers(kind, dataset, tmp_path / "run", collate, resume_from_checkpoint=str(checkpoint))
    assert rest == entire[8:]
    later = json.loads((tmp_path / "run" / "checkpoint-10" / "stream.json").read_text())
    assert later["samples"] == 10 * BATCH, "steps count across the resume"


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
        callbacks, quiet = [page["StreamPosition"](), saves], {"logger": False, "enable_progress_bar": False}
        options = {"max_steps": STEPS, "accumulate_grad_batches": 2, "accelerator": "cpu", **quiet}
        page["Lightning"](callbacks=callbacks, **options).fit(module, DataLoader(dataset, batch_size=None), **how)
        return trained

    entire = train(open_dataset(shards))
    assert len({tuple(row) for rows in entire for row in rows}) == ROWS
    assert train(open_dataset(shards), ckpt_path=str(tmp_path / "run" / "step=4.ckpt")) == entire[8:]


@pytest.mark.slow
def test_two_processes_train_on_the_rows_of_one(tmp_path):
    """A loader that accelerate prepared would read rows of one process twice, and others never."""
    toy_set(tmp_path / "set", [ROWS])
    done = run_ranks(2, _train_on_two, str(tmp_path), folder=tmp_path)
    assert done.codes == [0, 0], done.errors
    found = [json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in range(2)]
    read = Counter(tuple(row) for rank in found for rows in rank["trained"] for row in rows)
    assert (len(read), set(read.values())) == (ROWS, {1})
    assert found[0]["loss"] == found[1]["loss"] == pytest.approx(found[0]["losses_of_one"])
    assert [rank["refused"] for rank in found] == [True, True]


def _train_on_two(folder):
    rank, shards = int(os.environ["RANK"]), open_shards(f"{folder}/set")
    page = of_page()
    made, trained = train_by_transformers(
        page["StreamTrainer"], open_dataset(shards, rank, 2), Path(folder, "run"), ONE
    )
    loss = made.evaluate(open_dataset(shards, rank, 2, passes=1))["eval_loss"]
    with torch.no_grad():
        losses = [float(made.model(**ONE(tensors)).loss) for tensors in open_dataset(shards, passes=1)]
    refused = False
    try:
        train_by_transformers(page["Trainer"], open_dataset(shards, rank, 2), Path(folder, "other"), first_of)
    except StreamError:
        refused = True
    result = {"trained": trained, "loss": loss, "losses_of_one": sum(losses) / len(losses), "refused": refused}
    Path(folder, f"rank{rank}.json").write_text(json.dumps(result))
    return 0
