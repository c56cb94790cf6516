"""Imported once by the server from which ranks are forked."""

from __future__ import annotations

import importlib

import torch

import train.command
from train.distributed import load_deepspeed

torch.set_num_threads(1)
load_deepspeed()
importlib.import_module("deepspeed.runtime.zero.muon.original_muon")  # at the first engine otherwise
__all__ = ["train"]
