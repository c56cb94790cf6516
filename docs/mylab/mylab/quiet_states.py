"""Keep the states of a model small by a loss whose weight follows a target (arXiv 1708.02182)."""

from clozeline.model.build import AuxiliaryLoss, Model
from clozeline.model.loss import Loss
from clozeline.train.hooks import Hook


class QuietModel(Model):
    """A model with a further loss: the mean square of its last states."""

    def __init__(self, model, weight):
        self.adopt_parts(model)
        self.weight = weight
        self.squares = (0.0, 0)
        """sum over the tokens of the last micro-batch, and their number"""

    @property
    def auxiliary(self):
        own = AuxiliaryLoss([self.family], self.weight, self._sum_squares)
        return {**super().auxiliary, "quiet": own}

    def _sum_squares(self, outputs, weights):
        total = (outputs[-1].float().square().mean(-1) * weights).sum()
        self.squares = (total.detach(), weights.sum())
        return Loss(total, weights.sum().long())


class QuietStates(Hook):
    """Raises the weight of the loss while the mean square is above the target, else lowers it."""

    def wrap(self, new):
        saved = {} if new.saved is None else new.saved.added["quiet"]
        self.model = QuietModel(new.model, saved.get("weight", self.options.weight))
        self.lines = [f"quiet      mean squares of states approach {self.options.target:g}"]
        return self.model

    def attach(self, context):
        self.world = context.world

    def end(self, step, norm):
        total, count = self.world.sum_over_ranks([float(each) for each in self.model.squares])
        self.model.weight *= 1.1 if total / count > self.options.target else 1 / 1.1
        return {"quiet_weight": self.model.weight}

    @property
    def in_state(self):
        return {"quiet": {"weight": self.model.weight}}
