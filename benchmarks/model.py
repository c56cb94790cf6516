"""Compare forward and backward passes with transformers on a CPU.

Both have the same sizes and rows in the same run.

    python -m benchmarks.model [--rounds 3] [--json FILE]
        [--cases bert_base gpt2_small t5_base packed]

fp32, no dropout, one thread: threads that wait for each other would count as work. The sides of a
case take turns step by step in one process, so that other work on the machine slows all of them;
the best step of each counts, by CPU time. Memory is measured in a process per side: its peak beyond
model and rows. The rows:

- bert_base: 8 rows of 128 tokens, 15 % of them labels. transformers computes the scores of all
  positions. `gathered head` compares our head with the same head over all positions.
- gpt2_small: 4 rows of 256 tokens, all of them labels.
- t5_base: 8 rows of 128 tokens, and targets of 29.
- packed: six layers of BERT-base's size on 16 documents of natural lengths (the texts that come
  with Python, cut at 512 tokens), packed into rows without attention across documents and read one
  by one, against one row per document, padded to the longest of its batch of 8.
"""

import argparse
import json
import resource
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.harness import (
    Claim,
    finish,
    parser,
    resident_bytes,
    run_script,
    system_load,
    take_turns,
)

import numpy as np
import torch
from pydantic import TypeAdapter

from clozeline.model.build import build_model
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.configuration.sizes import read_size

SMALLEST = "--rounds 1 --cases packed"
VOCABULARY = {"bert_base": 30522, "tinybert_6": 30522, "gpt2_small": 50257, "t5_base": 32128}
LABELS = 0.15
Step = Callable[[], None]


def rates(case: str, rounds: int) -> dict[str, float]:
    """Return tokens per CPU second of each side, from its best step; the sides take turns."""
    steps = {side: build() for side, build in SIDES[case].items()}
    seconds = take_turns({side: step for side, (step, _) in steps.items()}, rounds)
    return {side: tokens / min(seconds[side]) for side, (_, tokens) in steps.items()}


def peak(case: str, side: str) -> float:
    """Return the megabytes that a step adds to this process."""
    step, _ = SIDES[case][side]()
    before = resident_bytes()
    step()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before / 2**20


def ours(preset: str, *batches: Mapping[str, torch.Tensor]) -> Step:
    """Return a step of one of our preset models over some batches, without dropout."""
    plain = read_size(preset) | {"dropout": {}}
    model = build_model(TypeAdapter(ModelConfig).validate_python(plain), VOCABULARY[preset], {})

    def step() -> None:
        for tensors in batches:
            (loss,) = model(tensors).values()
            (loss.total / loss.count).backward()
        model.zero_grad()

    return step


def theirs(kind: str, settings: dict[str, Any], tensors: dict[str, torch.Tensor]) -> Step:
    """Return a step of a transformers model, without dropout."""
    import transformers

    model = getattr(transformers, kind)(transformers.AutoConfig.for_model(**settings))

    def step() -> None:
        model(**tensors).loss.backward()
        model.zero_grad()

    return step


def random_labels(rows: int, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ids [rows, columns] and flat positions of labels, equally many in each row."""
    ids = torch.randint(5, 30_000, (rows, columns))
    chosen = (
        torch.rand(rows, columns).argsort(dim=1)[:, : round(LABELS * columns)].sort(dim=1).values
    )
    return ids, (chosen + torch.arange(rows)[:, None] * columns).flatten()


def encoder_batch(ids: torch.Tensor, positions: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return our batch of full rows with labels at flat positions."""
    rows, columns = ids.shape
    return {
        "input_ids": ids,
        "position_ids": torch.arange(columns)[None],
        "lengths": torch.full((rows,), columns),
        "row_weight": torch.ones(rows),
        "label_index": positions,
        "label_ids": ids.flatten()[positions],
    }


def dense(ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Return labels as transformers takes them: -100 where there is none."""
    labels = torch.full_like(ids, -100).flatten()
    labels[positions] = ids.flatten()[positions]
    return labels.view_as(ids)


def bert_ours(share: float = LABELS) -> tuple[Step, int]:
    """Return a step of BERT-base; with a share of 1, all positions are labels."""
    ids, positions = random_labels(8, 128)
    if share == 1:
        positions = torch.arange(ids.numel())
    return ours("bert_base", encoder_batch(ids, positions)), ids.numel()


def bert_theirs() -> tuple[Step, int]:
    ids, positions = random_labels(8, 128)
    settings = {
        "model_type": "bert",
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }
    return theirs(
        "BertForMaskedLM", settings, {"input_ids": ids, "labels": dense(ids, positions)}
    ), ids.numel()


def gpt2_ours() -> tuple[Step, int]:
    ids = torch.randint(0, 50_000, (4, 256))
    positions = (torch.arange(255)[None] + 256 * torch.arange(4)[:, None]).flatten()
    batch = encoder_batch(ids, positions) | {"label_ids": ids[:, 1:].flatten()}
    return ours("gpt2_small", batch), ids.numel()


def gpt2_theirs() -> tuple[Step, int]:
    ids = torch.randint(0, 50_000, (4, 256))
    settings = {
        "model_type": "gpt2",
        "attn_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "resid_pdrop": 0.0,
        "use_cache": False,
    }
    return theirs("GPT2LMHeadModel", settings, {"input_ids": ids, "labels": ids}), ids.numel()


def t5_ours() -> tuple[Step, int]:
    ids = torch.randint(0, 32_000, (8, 128))
    targets = torch.randint(0, 32_000, (8, 29))
    batch = encoder_batch(ids, torch.arange(targets.numel())) | {"label_ids": targets.flatten()}
    batch |= {
        "decoder_input_ids": targets.roll(1, dims=1),
        "decoder_position_ids": torch.arange(29)[None],
    }
    return ours("t5_base", batch), ids.numel() + targets.numel()


def t5_theirs() -> tuple[Step, int]:
    ids = torch.randint(0, 32_000, (8, 128))
    targets = torch.randint(0, 32_000, (8, 29))
    settings = {
        "model_type": "t5",
        "d_model": 768,
        "d_ff": 3072,
        "num_layers": 12,
        "num_heads": 12,
        "d_kv": 64,
        "dropout_rate": 0.0,
        "use_cache": False,
        "pad_token_id": 0,
        "decoder_start_token_id": 0,
    }

    step = theirs("T5ForConditionalGeneration", settings, {"input_ids": ids, "labels": targets})
    return step, ids.numel() + targets.numel()


def document_sizes(count: int = 16) -> list[int]:
    from benchmarks.texts import natural_texts

    texts = natural_texts()
    chosen = np.random.default_rng(1).choice(len(texts), count, replace=len(texts) < count)
    return [min(512, max(4, len(texts[number]) // 4)) for number in chosen]


def short_rows(lengths: Sequence[int]) -> dict[str, torch.Tensor]:
    """Return our batch of rows padded to the longest."""
    ids, positions = random_labels(len(lengths), max(lengths))
    sizes = torch.tensor(lengths)
    inside = (positions % max(lengths)) < sizes[positions // max(lengths)]
    return encoder_batch(ids, positions[inside]) | {"lengths": sizes}


def pack_documents(sizes: Sequence[int]) -> list[list[int]]:
    """Pack complete documents into rows of up to 512 tokens, first fit.

    Return the lengths in each row.
    """
    rows: list[list[int]] = []
    for size in sizes:
        room = next((row for row in rows if sum(row) + size <= 512), None)
        if room is None:
            rows.append([size])
        else:
            room.append(size)
    return rows


def batch_packed_rows(rows: Sequence[Sequence[int]]) -> dict[str, torch.Tensor]:
    """Return our batch of packed rows without attention across documents.

    Padding is a document of its own.
    """
    batch = short_rows([sum(row) for row in rows])
    columns = batch["input_ids"].shape[1]
    filled = [[*row, columns - sum(row)] if sum(row) < columns else row for row in rows]
    sizes = [size for row in filled for size in row]
    indices = [torch.repeat_interleave(torch.arange(len(row)), torch.tensor(row)) for row in filled]
    return batch | {
        "position_ids": torch.cat([torch.arange(size) for size in sizes]).view(len(rows), columns),
        "document_ids": torch.stack(indices),
        "cu_seqlens": torch.tensor(np.cumsum([0, *sizes]), dtype=torch.int32),
        "max_seqlen": torch.tensor(max(sizes)),
    }


def step_packed() -> tuple[Step, int]:
    """Return a step over rows of up to 512 tokens that hold complete documents."""
    sizes = document_sizes()
    return ours("tinybert_6", *(batch_packed_rows([row]) for row in pack_documents(sizes))), sum(
        sizes
    )


def step_padded() -> tuple[Step, int]:
    """Return a step over batches of 8 documents, each padded to its longest."""
    sizes = document_sizes()
    return ours(
        "tinybert_6", *(short_rows(sizes[first : first + 8]) for first in range(0, len(sizes), 8))
    ), sum(sizes)


SIDES: dict[str, dict[str, Callable[[], tuple[Step, int]]]] = {
    "bert_base": {
        "ours": bert_ours,
        "transformers": bert_theirs,
        "gathered head": lambda: bert_ours(1),
    },
    "gpt2_small": {"ours": gpt2_ours, "transformers": gpt2_theirs},
    "t5_base": {"ours": t5_ours, "transformers": t5_theirs},
    "packed": {"ours": step_packed, "padded": step_padded},
}
TARGETS = {"bert_base": 1.2, "gpt2_small": 1.0, "t5_base": 1.0, "packed": 1.6}


def compare(cases: list[str], rounds: int) -> list[Claim]:
    """Measure the sides of each case; return the comparisons with ours."""
    claims = []

    for case in cases:
        rate: dict[str, float] = run_script(__file__, "--case", case, "--rounds", rounds)
        memory: dict[str, float] = {
            side: run_script(__file__, "--case", case, "--side", side) for side in SIDES[case]
        }

        for side in [side for side in rate if side != "ours"]:
            target = TARGETS[case] if side != "gathered head" else 1.0
            claims.append(
                Claim(
                    case, "tokens per CPU second", rate["ours"], rate[side], side, target, more=True
                )
            )
            claims.append(
                Claim(
                    case, "MB at the peak of a step", memory["ours"], memory[side], side, target=0.9
                )
            )

    return claims


def main() -> int:
    """Print a table of claims; the exit code is 1 if one does not hold."""
    made = parser(__doc__, rounds=3)
    made.add_argument("--cases", nargs="*", choices=list(SIDES), default=list(SIDES))
    made.add_argument("--case", choices=list(SIDES), help=argparse.SUPPRESS)
    made.add_argument("--side", help=argparse.SUPPRESS)
    options = made.parse_args()
    if options.case:
        torch.set_num_threads(1)
        torch.manual_seed(0)
        print(
            json.dumps(
                peak(options.case, options.side)
                if options.side
                else rates(options.case, options.rounds)
            )
        )
        return 0

    print(system_load())
    return finish(compare(options.cases, options.rounds), options.json)


if __name__ == "__main__":
    raise SystemExit(main())
