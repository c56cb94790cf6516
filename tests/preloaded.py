"""Imported once by the server from which ranks are forked."""

from __future__ import annotations

import torch
import torch._dynamo  # loaded by the first optimizer otherwise

import train.command
from train.distributed import load_deepspeed

torch.set_num_threads(1)
load_deepspeed()
__all__ = ["train"]
