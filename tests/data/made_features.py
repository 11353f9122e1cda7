from pathlib import Path

import numpy as np

from smlstm.data import FeatureSpec, FeatureStore

SPEC = FeatureSpec("efficientnet-lite0", "ab12", "224 px, squashed", regions=4, region_width=6, context_width=3)


def features(keys: list[str], spec: FeatureSpec = SPEC) -> tuple[np.ndarray, np.ndarray]:
    """Features that are a function of the key, so that a mix-up shows."""
    regions, context = [], []
    for key in keys:
        rng = np.random.default_rng(list(key.encode("utf-8", "surrogateescape")))
        regions.append(rng.standard_normal((spec.regions, spec.region_width)).astype(np.float16))
        context.append(rng.standard_normal(spec.context_width).astype(np.float16))
    return np.array(regions), np.array(context)


def fill(path: Path, batches: list[list[str]]) -> None:
    with FeatureStore.open(path, SPEC) as store:
        for keys in batches:
            store.append(keys, *features(keys))


def assert_holds(store: FeatureStore, keys: list[str]) -> None:
    assert store.keys() == keys
    for got, expected in zip(store.read(keys), features(keys), strict=True):
        np.testing.assert_array_equal(got, expected)
    store.verify()
