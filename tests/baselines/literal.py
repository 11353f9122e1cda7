"""What several papers' equations share, written slowly and literally in NumPy."""

import numpy as np

Array = np.ndarray


def weights(matcher) -> dict[str, Array]:
    return {name: tensor.detach().numpy() for name, tensor in matcher.state_dict().items()}


def rms(features: Array) -> Array:
    return features / (np.sqrt((features**2).mean()) + 1e-6)


def unit(vector: Array) -> Array:
    return vector / np.sqrt((vector**2).sum())


def cosine(x: Array, y: Array) -> float:
    return float((x * y).sum() / np.sqrt((x**2).sum()) / np.sqrt((y**2).sum()))


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def gru(w: dict[str, Array], name: str, words: list[Array]) -> list[Array]:
    """States of a gated recurrent unit: reset r, update z, candidate."""
    width = w[f"{name}.weight_hh_l0"].shape[1]
    h = np.zeros(width)
    states = []
    for x in words:
        from_word = w[f"{name}.weight_ih_l0"] @ x + w[f"{name}.bias_ih_l0"]
        from_state = w[f"{name}.weight_hh_l0"] @ h + w[f"{name}.bias_hh_l0"]
        r = sigmoid(from_word[:width] + from_state[:width])
        z = sigmoid(from_word[width : 2 * width] + from_state[width : 2 * width])
        candidate = np.tanh(from_word[2 * width :] + r * from_state[2 * width :])
        h = (1 - z) * candidate + z * h
        states.append(h)
    return states


def lstm(w: dict[str, Array], name: str, words: list[Array]) -> list[Array]:
    """States of a long short-term memory: input, forget, cell, output."""
    width = w[f"{name}.weight_hh_l0"].shape[1]
    h, c = np.zeros(width), np.zeros(width)
    states = []
    for x in words:
        gates = w[f"{name}.weight_ih_l0"] @ x + w[f"{name}.bias_ih_l0"]
        gates = gates + w[f"{name}.weight_hh_l0"] @ h + w[f"{name}.bias_hh_l0"]
        i, f, g, o = np.split(gates, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        states.append(h)
    return states


def word_vectors(w: dict[str, Array], tokens, n: int) -> list[Array]:
    return [w["embedding.weight"][int(row)] for row in tokens.ids[n, : int(tokens.lengths[n])]]


def all_pairs(score, images: int, sentences: int) -> Array:
    return np.array([[score(m, n) for n in range(sentences)] for m in range(images)])
