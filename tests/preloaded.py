"""Imported once by the server from which ranks are forked."""

from __future__ import annotations

import torch
import torch._dynamo  # loaded by the first optimizer otherwise

from clozeline.report.charts import canvas
from clozeline.train.distributed.process_group import load_deepspeed

torch.set_num_threads(1)
load_deepspeed()
canvas(1, lambda axes: None)  # matplotlib is loaded by the report of each run otherwise
