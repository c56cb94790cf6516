"""Time of a student's step: without a teacher, with stored scores, and with a live teacher.

    python -m benchmarks.distillation [--dim 256] [--layers 12] [--tokens 128] [--repeats 9] [--json FILE]

BERT-like encoders with random weights and 8,192 ids; the student has half the layers of the teacher. A step is forward,
backward and AdamW on 16 rows, 15 % of them labels, on one thread. The three students take turns in one process; reading
the data is not timed. Times are CPU time of the process, which other programs on the machine disturb less.
"""

import sys
from collections.abc import Callable
from statistics import median

from benchmarks.harness import Claim, finish, parser, print_table, take_turns

import torch
from torch import Tensor

from clozeline.model.build import Model, build_model
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.registry import choose
from clozeline.tools.runs.inference.teacher_scores import keep_best
from clozeline.train.compression.distillation.student import Student
from clozeline.train.compression.distillation.teacher import Teacher

VOCABULARY, ROWS, K = 8192, 16, 16


def encoder(dim: int, layers: int) -> Model:
    config = ModelConfig(
        family="encoder", dim=dim, layers=layers, attention_heads=dim // 64, ffn_dim=4 * dim, heads={"masked_lm": 1.0}
    )
    return build_model(config, VOCABULARY, {}, seed=0)


def masked_rows(tokens: int) -> dict[str, Tensor]:
    labels = max(1, tokens * 15 // 100)
    index = (torch.arange(ROWS)[:, None] * tokens + torch.arange(labels)).reshape(-1)
    draw = torch.Generator().manual_seed(0)
    return {
        "input_ids": torch.randint(VOCABULARY, (ROWS, tokens), generator=draw),
        "position_ids": torch.arange(tokens).expand(ROWS, -1),
        "lengths": torch.full((ROWS,), tokens),
        "row_weight": torch.ones(ROWS),
        "label_index": index,
        "label_ids": torch.randint(VOCABULARY, index.shape, generator=draw),
    }


def stepper(model: Model, read: Callable[[], dict[str, Tensor]]) -> Callable[[], None]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step() -> None:
        losses = model(read())
        torch.stack([loss.total / loss.divisor for loss in losses.values()]).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def main() -> int:
    args = parser(__doc__, dim=256, layers=12, tokens=128, repeats=9).parse_args()
    torch.set_num_threads(1)
    batch, size = masked_rows(args.tokens), args.layers // 2
    scores = choose("clozeline.train.compression.distillation.losses", "scores")
    source = encoder(args.dim, args.layers)
    live = Student(encoder(args.dim, size), [scores], source.config)
    teacher = Teacher(source, live.needed_of_teacher)
    ids, weights = keep_best(teacher(batch)["teacher_logits_masked_lm"], K, 1.0)
    stored = {**batch, "teacher_ids": ids, "teacher_weights": weights.half().float()}
    steps = {
        "without": stepper(encoder(args.dim, size), lambda: batch),
        "stored": stepper(Student(encoder(args.dim, size), [scores], None), lambda: stored),
        "live": stepper(live, lambda: {**batch, **teacher(batch)}),
    }
    medians = {name: median(values) for name, values in take_turns(steps, args.repeats).items()}
    print_table(
        ["student", "step", "compared with stored"],
        [[name, f"{1000 * own:.0f} ms", f"{own / medians['stored']:.2f}"] for name, own in medians.items()],
    )
    own = 1000 * medians["stored"]
    claims = [
        Claim("step with stored scores, at most 1.15 x", "ms", own, 1000 * medians["without"], "without", 1 / 1.15),
        Claim("step with stored scores, 1.5 x faster", "ms", own, 1000 * medians["live"], "a live teacher", 1.5),
    ]
    return finish(claims, args.json)


if __name__ == "__main__":
    sys.exit(main())
