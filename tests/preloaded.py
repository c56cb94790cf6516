"""Imported once by the server from which ranks are forked: what each rank would import by itself
otherwise."""

import gc
import importlib
import os

os.environ["CUDA_VISIBLE_DEVICES"] = (
    ""  # a forked rank cannot use the GPU that its server has looked for
)

import torch

from clozeline.train.distributed.process_group import load_deepspeed
from clozeline.train.logs.cost_estimate import operations_per_second
from tests.allowed_files import refuse_other_files

refuse_other_files()
for name in (
    "pytest",
    "torch._dynamo",
    "clozeline.train.run",
    "tests.train.faulty",
    "tests.train.synthetic",
):
    importlib.import_module(name)
torch.set_num_threads(1)
operations_per_second(torch.device("cpu"), "fp32")
os.fsync = lambda descriptor: None  # as in conftest.py
load_deepspeed()
gc.collect()
gc.freeze()  # ZeRO stage 3 collects garbage when an engine is built
gc.get_freeze_count = lambda: 1  # they are counted one by one, at the start of every run
