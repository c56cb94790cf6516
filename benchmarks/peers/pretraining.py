"""Train a small model as others would: the Trainer of transformers, or a plain loop.

    python -m benchmarks.peers.pretraining NAME DATA OUTPUT --steps N [--seed S --rate R --rows N]

DATA has a tokenizer in the form of transformers, and `rows.npy`, an array of ids [rows, 128]. Rows
for masks have [CLS] and [SEP]; others are one text when joined. OUTPUT gets the model in the same
form. The last line is JSON: CPU seconds of the training, those of one step without the first ten,
and the tokens that it saw.

`trainer_causal` and `trainer_masked` are a Trainer as the scripts run_clm.py and run_mlm.py of
transformers start it: AdamW with a rate that falls to 0, no warmup, no weight decay, dropout 0.1,
and for masks 15 % of the tokens: 80 % [MASK], 10 % others, 10 % kept. `loop_causal` and
`loop_masked` have what train.py of nanoGPT gives for a small model: AdamW with betas 0.9 and 0.95,
weight decay 0.1 of matrices, 100 steps of warmup, a cosine to a tenth, gradients of norm 1, no
dropout; masks as above. Their rates and rows are the best of those tried for a minute.
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
LAYERS: Final = 2
WIDTH: Final = 128
HEADS: Final = 4
WARMUP: Final = 100
SKIPPED: Final = 9
"""First steps that do not tell the speed."""
TUNED: Final = {
    "trainer_causal": (1e-3, 8),
    "trainer_masked": (1e-3, 8),
    "loop_causal": (6e-3, 12),
    "loop_masked": (3e-3, 12),
}
"""Learning rate and rows a step by contender."""


def read_rows(data: Path) -> torch.Tensor:
    """Return the ids of the rows in a folder, shape [rows, 128]."""
    return torch.from_numpy(np.load(data / "rows.npy").astype(np.int64))


def build_model(tokenizer: Any, *, is_masked: bool, dropout: float) -> Any:
    """Return a BERT or GPT-2 with random weights."""
    if is_masked:
        bert = BertConfig(
            vocab_size=len(tokenizer),
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            hidden_size=WIDTH,
            intermediate_size=4 * WIDTH,
            max_position_embeddings=LENGTH,
            pad_token_id=tokenizer.pad_token_id,
            hidden_dropout_prob=dropout,
            attention_probs_dropout_prob=dropout,
        )
        return transformers.BertForMaskedLM(bert)
    gpt2 = GPT2Config(
        vocab_size=len(tokenizer),
        n_layer=LAYERS,
        n_head=HEADS,
        n_embd=WIDTH,
        n_positions=LENGTH,
        activation_function="gelu_pytorch_tanh",
        bos_token_id=tokenizer.eos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        resid_pdrop=dropout,
        embd_pdrop=dropout,
        attn_pdrop=dropout,
    )
    return transformers.GPT2LMHeadModel(gpt2)


def train_by_trainer(
    data: Path, output: Path, steps: int, rate: float, rows: int, *, is_masked: bool
) -> tuple[Any, dict[str, float]]:
    """Train with the Trainer; return the model, and its CPU seconds."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(data)
    examples = [{"input_ids": row} for row in read_rows(data)]
    collator = transformers.DataCollatorForLanguageModeling(tokenizer, mlm=is_masked)
    arguments = transformers.TrainingArguments(
        str(output),
        max_steps=steps,
        seed=torch.initial_seed(),
        learning_rate=rate,
        per_device_train_batch_size=rows,
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
    )
    model = build_model(tokenizer, is_masked=is_masked, dropout=0.1)
    trainer = transformers.Trainer(model, arguments, collator, train_dataset=examples)
    return model, measure_seconds(trainer.train)


def rate_at(step: int, steps: int, peak: float) -> float:
    """Return the learning rate of the plain loop at a step, from 0."""
    if step < WARMUP:
        return peak * (step + 1) / (WARMUP + 1)
    done = (step - WARMUP) / max(1, steps - WARMUP)
    return peak * (0.1 + 0.9 * (1 + math.cos(math.pi * done)) / 2)


def mask(labels: torch.Tensor, tokenizer: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Return inputs and labels of rows: of 15 %, 80 % masked, 10 % others, 10 % kept."""
    chosen = torch.rand(labels.shape) < 0.15
    chosen[:, [0, -1]] = False
    draw = torch.rand(labels.shape)
    other = torch.randint(len(tokenizer), labels.shape)
    inputs = torch.where(chosen & (draw < 0.9), other, labels)
    inputs[chosen & (draw < 0.8)] = tokenizer.mask_token_id
    return inputs, torch.where(chosen, labels, -100)


def train_by_loop(
    data: Path, _output: Path, steps: int, peak: float, count: int, *, is_masked: bool
) -> tuple[Any, dict[str, float]]:
    """Train with a loop of a few lines; return the model, and its CPU seconds."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(data)
    model = build_model(tokenizer, is_masked=is_masked, dropout=0.0)
    rows = read_rows(data)
    stream = rows.flatten()
    matrices = [value for value in model.parameters() if value.dim() > 1]
    vectors = [value for value in model.parameters() if value.dim() < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=peak, betas=(0.9, 0.95), fused=True)
    span = torch.arange(LENGTH)

    def run_steps() -> None:
        model.train()
        for step in range(steps):
            for group in optimizer.param_groups:
                group["lr"] = rate_at(step, steps, peak)
            if is_masked:
                inputs, labels = mask(rows[torch.randint(len(rows), (count,))], tokenizer)
            else:  # windows anywhere in the text, and the tokens after each
                starts = torch.randint(len(stream) - LENGTH, (count, 1))
                inputs, labels = stream[starts + span], stream[starts + span + 1]
            logits = model(input_ids=inputs).logits
            torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    return model, measure_seconds(run_steps)


def measure_seconds(work: Callable[[], Any]) -> dict[str, float]:
    """Return the CPU seconds of a training, and of one of its steps.

    The first steps allocate, and the Trainer prepares much before them.
    """
    ends: list[float] = []
    begin = time.process_time()
    hook = register_optimizer_step_post_hook(lambda *_: ends.append(time.process_time()))
    work()
    hook.remove()
    step = (ends[-1] - ends[SKIPPED]) / (len(ends) - 1 - SKIPPED)
    return {"whole": time.process_time() - begin, "step": step}


def main() -> None:
    """Train, and write the model with its tokenizer."""
    made = argparse.ArgumentParser(description=__doc__)
    made.add_argument("name", choices=TUNED)
    made.add_argument("data", type=Path)
    made.add_argument("output", type=Path)
    made.add_argument("--steps", type=int, required=True)
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--rate", type=float)
    made.add_argument("--rows", type=int)
    options = made.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    transformers.set_seed(options.seed)
    who, kind = options.name.split("_")
    rate, rows = TUNED[options.name]
    rows = options.rows or rows
    train = train_by_trainer if who == "trainer" else train_by_loop
    model, seconds = train(
        options.data,
        options.output,
        options.steps,
        options.rate or rate,
        rows,
        is_masked=kind == "masked",
    )
    model.save_pretrained(options.output)
    transformers.AutoTokenizer.from_pretrained(options.data).save_pretrained(options.output)
    print(json.dumps(seconds | {"tokens": options.steps * rows * LENGTH}))


if __name__ == "__main__":
    main()
