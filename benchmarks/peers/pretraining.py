"""Train a small model as others would: the Trainer of transformers, or a plain loop.

    python -m benchmarks.peers.pretraining NAME DATA OUTPUT --steps N [--seed S]

DATA has a tokenizer in the form of transformers, and `rows.npy`, an array of ids [rows, 128]. Rows
for masks have [CLS] and [SEP]; others are one text when joined. OUTPUT gets the model in the same
form. The last line is JSON: CPU and wall seconds of the training, those of one step without the
first ten, and the tokens that it saw.

`trainer_causal` and `trainer_masked` are a Trainer without options, as the scripts run_clm.py and
run_mlm.py of transformers start it: AdamW with 5e-5 that falls to 0, no warmup, no weight decay,
8 rows a step, dropout 0.1, and for masks 15 % of the tokens: 80 % [MASK], 10 % others, 10 % kept.
`plain_loop` has what the README and train.py of nanoGPT give for a small model on a CPU: 12 rows,
AdamW with 1e-3, betas 0.9 and 0.95, weight decay 0.1 of matrices, 100 steps of warmup, a cosine to
a tenth, gradients of norm 1, no dropout.
"""

import argparse
import json
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
import transformers
from torch.optim.optimizer import register_optimizer_step_post_hook
from transformers import BertConfig, GPT2Config

LENGTH: Final = 128
LAYERS: Final = 4
WIDTH: Final = 128
HEADS: Final = 4
PLAIN_ROWS: Final = 12
PLAIN_RATE: Final = 1e-3
PLAIN_WARMUP: Final = 100
SKIPPED: Final = 9
"""First steps that do not tell the speed."""


def read_rows(data: Path) -> torch.Tensor:
    """Return the ids of the rows in a folder, shape [rows, 128]."""
    return torch.from_numpy(np.load(data / "rows.npy").astype(np.int64))


def build_gpt2(tokenizer: Any, **options: Any) -> Any:
    """Return a GPT-2 with random weights."""
    ids = {"bos_token_id": tokenizer.eos_token_id, "eos_token_id": tokenizer.eos_token_id}
    sizes = {"n_layer": LAYERS, "n_head": HEADS, "n_embd": WIDTH, "n_positions": LENGTH}
    config = GPT2Config(vocab_size=len(tokenizer), **sizes, **ids, **options)
    return transformers.GPT2LMHeadModel(config)


def build_bert(tokenizer: Any) -> Any:
    """Return a BERT with random weights."""
    sizes = {"num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "hidden_size": WIDTH}
    config = BertConfig(
        vocab_size=len(tokenizer),
        intermediate_size=4 * WIDTH,
        max_position_embeddings=LENGTH,
        pad_token_id=tokenizer.pad_token_id,
        **sizes,
    )
    return transformers.BertForMaskedLM(config)


def train_by_trainer(name: str, data: Path, output: Path, steps: int, seed: int) -> Any:
    """Train with the defaults of transformers; return the model, seconds and tokens."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(data)
    is_masked = name == "trainer_masked"
    rows = read_rows(data)
    examples = [{"input_ids": row} for row in rows]
    collator = transformers.DataCollatorForLanguageModeling(tokenizer, mlm=is_masked)
    arguments = transformers.TrainingArguments(
        str(output), max_steps=steps, seed=seed, report_to="none", disable_tqdm=True, use_cpu=True
    )
    model = build_bert(tokenizer) if is_masked else build_gpt2(tokenizer)
    trainer = transformers.Trainer(model, arguments, collator, train_dataset=examples)
    seconds = measure_seconds(trainer.train)
    return model, seconds, steps * arguments.per_device_train_batch_size * LENGTH


def rate_at(step: int, steps: int) -> float:
    """Return the learning rate of the plain loop at a step, from 0."""
    if step < PLAIN_WARMUP:
        return PLAIN_RATE * (step + 1) / (PLAIN_WARMUP + 1)
    done = (step - PLAIN_WARMUP) / max(1, steps - PLAIN_WARMUP)
    return PLAIN_RATE * (0.1 + 0.9 * (1 + math.cos(math.pi * done)) / 2)


def train_by_loop(name: str, data: Path, output: Path, steps: int, seed: int) -> Any:
    """Train with a loop of a few lines; return the model, seconds and tokens."""
    none = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    tokenizer = transformers.AutoTokenizer.from_pretrained(data)
    model = build_gpt2(tokenizer, activation_function="gelu_pytorch_tanh", **none)
    stream = read_rows(data).flatten()
    matrices = [value for value in model.parameters() if value.dim() > 1]
    vectors = [value for value in model.parameters() if value.dim() < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=PLAIN_RATE, betas=(0.9, 0.95), fused=True)
    span = torch.arange(LENGTH)

    def run_steps() -> None:
        model.train()
        for step in range(steps):
            for group in optimizer.param_groups:
                group["lr"] = rate_at(step, steps)
            # windows anywhere in the text, and the tokens after each
            starts = torch.randint(len(stream) - LENGTH, (PLAIN_ROWS, 1))
            logits = model(input_ids=stream[starts + span]).logits
            labels = stream[starts + span + 1]
            torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    return model, measure_seconds(run_steps), steps * PLAIN_ROWS * LENGTH


def read_clocks() -> np.ndarray:
    """Return the CPU seconds of this process, and the wall seconds."""
    return np.array([time.process_time(), time.perf_counter()])


def measure_seconds(work: Callable[[], Any]) -> dict[str, dict[str, float]]:
    """Return the seconds of a training, and of one of its steps, by clock.

    The first steps allocate, and the Trainer prepares much before them.
    """
    ends: list[Any] = []
    begin = read_clocks()
    hook = register_optimizer_step_post_hook(lambda *_: ends.append(read_clocks()))
    work()
    hook.remove()
    whole = read_clocks() - begin
    step = (ends[-1] - ends[SKIPPED]) / (len(ends) - 1 - SKIPPED)
    return {
        name: dict(zip(("cpu", "wall"), map(float, spent), strict=True))
        for name, spent in (("whole", whole), ("step", step))
    }


TRAINERS: Final[dict[str, Callable[..., Any]]] = {
    "trainer_causal": train_by_trainer,
    "trainer_masked": train_by_trainer,
    "plain_loop": train_by_loop,
}


def main() -> None:
    """Train, and write the model with its tokenizer."""
    made = argparse.ArgumentParser(description=__doc__)
    made.add_argument("name", choices=TRAINERS)
    made.add_argument("data", type=Path)
    made.add_argument("output", type=Path)
    made.add_argument("--steps", type=int, required=True)
    made.add_argument("--seed", type=int, default=0)
    options = made.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    transformers.set_seed(options.seed)
    train = TRAINERS[options.name]
    model, seconds, tokens = train(
        options.name, options.data, options.output, options.steps, options.seed
    )
    model.save_pretrained(options.output)
    transformers.AutoTokenizer.from_pretrained(options.data).save_pretrained(options.output)
    print(json.dumps(seconds | {"tokens": tokens}))


if __name__ == "__main__":
    main()
