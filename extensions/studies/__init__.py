"""Compare many trainings: variants at equal FLOPs, finished runs, and tasks in sequence.

Files outside of `commands` import torch.
"""

NEEDS = ("evaluation", "tasks")
PARTS = {"study": {"flops", "orderings"}}
