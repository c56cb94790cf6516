"""Updates of optimizers, written from their papers with plain torch."""

import math


def adamw(o, state, w, g, rate, decay):
    """Update by Adam with decoupled decay (arXiv 1711.05101)."""
    (first, second), t = o["betas"], state.get("t", 0) + 1
    mean = first * state.get("mean", 0.0) + (1 - first) * g
    square = second * state.get("square", 0.0) + (1 - second) * g * g
    state |= {"t": t, "mean": mean, "square": square}
    w.mul_(1 - rate * decay).sub_(
        rate * (mean / (1 - first**t)) / ((square / (1 - second**t)).sqrt() + o["eps"])
    )


def muon_adamw(o, state, w, g, rate, decay):
    adamw(
        {**o, "betas": (0.9, 0.95)},
        state,
        w,
        g,
        rate * o["adam_rate"],
        decay,
    )


def muon(o, state, w, g, rate, decay):
    """Update by orthogonalized Nesterov momentum, as long as AdamW's steps (Jordan 2024.

    ArXiv 2502.16982).
    """
    mu, (a, b, c) = o["momentum"], (3.4445, -4.7750, 2.0315)
    state["momentum"] = mu * state.get("momentum", 0.0) + (1 - mu) * g
    x = mu * state["momentum"] + (1 - mu) * g
    x = x / max(float(x.norm()), 1e-7)
    x = x.T if len(w) > len(w.T) else x
    for _ in range(5):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x

    x = x.T if len(w) > len(w.T) else x
    w.mul_(1 - rate * decay).sub_(rate * 0.2 * math.sqrt(max(w.shape)) * x)


def adafactor(o, state, w, g, rate, decay):
    """Update by factored second moments, relative to the size of the weight (arXiv 1804.04235)."""
    t = state["t"] = state.get("t", 0) + 1
    kept = 1 - t**-0.8
    squares = g.square() + o["eps"] ** 2

    if w.dim() == 2:
        for key, axis in (("rows", 1), ("columns", 0)):
            state[key] = kept * state.get(key, 0.0) + (1 - kept) * squares.mean(axis)
        square = state["rows"][:, None] * state["columns"] / state["rows"].mean()
    else:
        square = state["square"] = kept * state.get("square", 0.0) + (1 - kept) * squares

    x = g / square.sqrt()
    size = max(1e-3, root_mean_square(w))
    w.mul_(1 - rate * decay).sub_(size * min(rate, t**-0.5) * x / max(1.0, root_mean_square(x)))


def sgd(o, state, w, g, rate, decay):
    w.sub_(rate * (g + decay * w))


def root_mean_square(x):
    return math.sqrt(float(x.square().mean()))
