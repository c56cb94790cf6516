"""Starts of a configuration, before and after its data sets are open."""

import torch

from clozeline.train.startup.fill_in import Start, fill_in, resolve_branch


def start_of(config, *, world_size=1, device="cpu", datasets=None):
    """Return a start; an earlier one is that of the output."""
    config, earlier = resolve_branch(config)
    return Start(config, config, earlier, world_size, torch.device(device), datasets)


def filled(config, **facts):
    """Return the configuration as the rules for these facts fill it in."""
    return fill_in(start_of(config, **facts)).config
