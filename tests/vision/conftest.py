from pathlib import Path

import numpy as np
import pytest
import skimage
from PIL import Image


@pytest.fixture(scope="session")
def real_photos() -> list[Path]:
    """Real photos that come inside a published package; none is kept in this repository."""
    folder = Path(skimage.__file__).parent / "data"
    return [folder / name for name in ("astronaut.png", "chelsea.png", "coffee.png", "motorcycle_left.png")]


@pytest.fixture(scope="session")
def scene() -> Image.Image:
    """A smooth picture whose four corners differ, so that turning it wrongly shows."""
    down, across = np.mgrid[0:48, 0:64]
    channels = (across * 4, down * 5, np.full_like(down, 96))
    return Image.fromarray(np.stack(channels, -1).clip(0, 255).astype(np.uint8))


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory):
    """Converted networks go into a folder of this run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SMLSTM_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
