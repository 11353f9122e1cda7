"""The paper's equations, slow and literal, in NumPy: one pair at a time, one unit at a time where it matters.

Written from the paper and `model/`'s docstrings, not from `model/`'s code: nothing is precomputed, shared
between pairs, or reordered. Weights come as a plain dictionary from a torch model's state.
"""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Weights = dict[str, Array]


def weights_of(module) -> Weights:
    return {name: tensor.detach().double().numpy() for name, tensor in module.state_dict().items()}


def part(weights: Weights, prefix: str) -> Weights:
    return {name[len(prefix) + 1 :]: array for name, array in weights.items() if name.startswith(prefix + ".")}


def sig(x):
    return 1 / (1 + np.exp(-x))


def linear(weights: Weights, name: str, x: Array) -> Array:
    result = x @ weights[f"{name}.weight"].T
    return result + weights[f"{name}.bias"] if f"{name}.bias" in weights else result


def lstm_states(weights: Weights, vectors: Array) -> Array:
    """A torch-layout LSTM (gates i, f, g, o) over one sentence; J, in -> J, out."""
    width = weights["weight_hh_l0"].shape[1]
    h = c = np.zeros(width)
    states = []
    for x in vectors:
        gates = (
            weights["weight_ih_l0"] @ x + weights["bias_ih_l0"] + weights["weight_hh_l0"] @ h + weights["bias_hh_l0"]
        )
        i, f, g, o = np.split(gates, 4)
        c = sig(f) * c + sig(i) * np.tanh(g)
        h = sig(o) * np.tanh(c)
        states.append(h)
    return np.array(states)


def words(weights: Weights, vectors: Array) -> Array:
    ahead = lstm_states(part(weights, "words.forwards"), vectors)
    back = lstm_states(part(weights, "words.backwards"), vectors[::-1])[::-1]
    return np.concatenate([ahead, back], axis=1)


def sentence_context(weights: Weights, vectors: Array) -> Array:
    return lstm_states(part(weights, "sentence_context.lstm"), vectors)[-1]


def scale(regions: Array, context: Array) -> tuple[Array, Array]:
    return (
        regions / (np.sqrt(np.mean(regions**2)) + 1e-6),
        context / (np.sqrt(np.mean(context**2)) + 1e-6),
    )


def attention_logit(weights: Weights, modulation: str, context: Array | None, candidate: Array, h: Array) -> float:
    """f_p(m, a_i, h_{t-1}) for one candidate, as the paper or NOTES writes it."""
    a = linear(weights, "candidate", candidate)
    m = np.zeros_like(a) if context is None else linear(weights, "context", context)
    hidden = linear(weights, "hidden", h)
    w_p, b_p = weights["output.weight"][0], weights["output.bias"][0]
    if modulation == "separate":
        return w_p @ ((0 if context is None else sig(m)) + sig(a) + sig(hidden)) + b_p
    if modulation == "joint":
        return w_p @ sig(m + a + hidden) + b_p
    return (w_p * np.tanh(m + hidden)) @ sig(a) + b_p


def searched(weights: Weights, regions: Array, said: Array) -> Array:
    """g (a~_i U + b_u) . unit(w'_t V + b_v) for every region, with its neighbours where regions are a square grid."""
    kernel = softmax(weights["search.kernel"]).reshape(3, 3)
    side = round(len(regions) ** 0.5)
    query = linear(weights, "comparison.sentence", said)
    found = []
    for i, region in enumerate(regions):
        place = linear(weights, "comparison.image", region)
        if side * side == len(regions) and side > 1:
            y, x = divmod(i, side)
            place = np.zeros_like(place)
            for dy in (-1, 0, 1):
                for dx in (-1, 0, 1):
                    if 0 <= y + dy < side and 0 <= x + dx < side:
                        near = linear(weights, "comparison.image", regions[(y + dy) * side + x + dx])
                        place = place + kernel[dy + 1, dx + 1] * near
        found.append(weights["search.gain"] * place @ query / np.linalg.norm(query))
    return np.array(found)


def softmax(logits: Array) -> Array:
    e = np.exp(logits - logits.max())
    return e / e.sum()


def attend(  # noqa: PLR0917 - as the equation has them
    weights: Weights, modulation: str, context: Array | None, candidates: Array, h: Array, more: Array | float = 0.0
) -> Array:
    return softmax(np.array([attention_logit(weights, modulation, context, x, h) for x in candidates]) + more)


def compare(weights: Weights, form: str, image: Array, sentence: Array) -> Array:
    u, v = linear(weights, "image", image), linear(weights, "sentence", sentence)
    return sig(u + v) if form == "additive" else np.tanh(u * v)


def aggregate(weights: Weights, s: Array, h: Array, c: Array) -> tuple[Array, Array]:
    gates = linear(weights, "similarity", s) + linear(weights, "hidden", h)
    i, f, g, o = np.split(gates, 4)
    c = sig(f) * c + sig(i) * np.tanh(g)
    return sig(o) * np.tanh(c), c


def final_score(weights: Weights, h: Array) -> float:
    return linear(weights, "output", sig(linear(weights, "unit", h)))[0]


def smlstm(config, weights: Weights, regions: Array, context: Array, ids: list[int]):
    """Score and maps of one pair: s, p (T, I), q (T, J)."""
    regions, context = scale(regions, context)
    vectors = np.array([weights["embedding.weight"][row] for row in ids])
    w = None if config.variant == "ctx" else words(weights, vectors)
    n = sentence_context(weights, vectors) if config.variant in ("ctx", "full") or config.global_score else None
    whole = 0.0
    if config.global_score:
        x = linear(weights, "image_whole", context)
        if config.image_pooling == "max":
            x = x + np.array([weights["region_whole.weight"] @ a for a in regions]).max(axis=0)
        whole = (x / np.linalg.norm(x)) @ (n / np.linalg.norm(n))
    h, c = np.zeros(config.hidden_width), np.zeros(config.hidden_width)
    p_maps, q_maps, scores, cosines = [], [], [], []
    for _ in range(config.steps):
        if config.variant == "ctx":
            seen, said = context, n
        else:
            if config.variant == "mean":
                p, q = np.full(len(regions), 1 / len(regions)), np.full(len(w), 1 / len(w))
            else:
                in_context = config.variant == "full"
                held = offered = 0.0
                if config.modulation == "paired" and q_maps:
                    held = -weights["search.held"] * sum(q_maps)
                own, asking = n if in_context else None, part(weights, "sentence_attention")
                if config.modulation == "paired":
                    asking["output.weight"] = 8 * asking["output.weight"]
                q = attend(asking, config.modulation, own, w, h, held)
                if config.modulation == "paired":
                    offered = searched(weights, regions, sum(q[j] * w[j] for j in range(len(w))))
                own, asking = context if in_context else None, part(weights, "image_attention")
                if config.modulation == "paired":
                    asking["output.weight"] = 0.2 * asking["output.weight"] / np.abs(asking["output.weight"]).sum()
                p = attend(asking, config.modulation, own, regions, h, offered)
            p_maps.append(p)
            q_maps.append(q)
            seen = sum(p[i] * regions[i] for i in range(len(regions)))
            said = sum(q[j] * w[j] for j in range(len(w)))
        s = compare(part(weights, "comparison"), config.comparison, seen, said)
        h, c = aggregate(part(weights, "aggregation"), s, h, c)
        if config.instance_score:
            u, v = linear(weights, "comparison.image", seen), linear(weights, "comparison.sentence", said)
            cosines.append(u @ v / np.linalg.norm(u) / np.linalg.norm(v))
        agreement = sum(cosines) / len(cosines) if cosines else 0.0
        scores.append(final_score(part(weights, "aggregation"), h) + whole + agreement)
    return np.array(scores), np.array(p_maps), np.array(q_maps)


def mnlm(config, weights: Weights, context: Array, ids: list[int]) -> float:
    context = context / (np.sqrt(np.mean(context**2)) + 1e-6)
    x = linear(weights, "image", context)
    v = sentence_context(weights, np.array([weights["embedding.weight"][row] for row in ids]))
    return x @ v / np.linalg.norm(x) / np.linalg.norm(v)


def contrast_loss(scores: Array, rows: list[int], columns: list[int], temperature: float) -> float:
    """-log of the matched pair's share among it and the mismatched ones, both ways; mean over matched pairs."""
    total, matched = 0.0, 0
    for i, image in enumerate(rows):
        for k, described in enumerate(columns):
            if image != described:
                continue
            matched += 1
            own = np.exp(scores[i, k] / temperature)
            sentences = [np.exp(scores[i, j] / temperature) for j, of in enumerate(columns) if of != image]
            images = [np.exp(scores[j, k] / temperature) for j, of in enumerate(rows) if of != described]
            total += -np.log(own / (own + sum(sentences))) - np.log(own / (own + sum(images)))
    return total / matched


def ranking_loss(scores: Array, rows: list[int], columns: list[int], margin: float, form: str) -> float:
    """max(0, m - s_ii + s_ik) both ways, other captions of the same image left out; mean over matched pairs."""
    total, matched = 0.0, 0
    for i, image in enumerate(rows):
        for k, described in enumerate(columns):
            if image != described:
                continue
            matched += 1
            other_sentences = [
                max(0.0, margin - scores[i, k] + scores[i, j]) for j, of in enumerate(columns) if of != image
            ]
            other_images = [
                max(0.0, margin - scores[i, k] + scores[j, k]) for j, of in enumerate(rows) if of != described
            ]
            for costs in (other_sentences, other_images):
                total += sum(costs) if form == "sum" else max(costs, default=0.0)
    return total / matched


def doubly_stochastic(p: Array, real: int, power: int) -> float:
    """sum_i (1 - sum_t p_ti)^power over the real candidates of one pair; the print has power 1."""
    return sum((1 - p[:, i].sum()) ** power for i in range(real))
