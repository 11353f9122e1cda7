from pathlib import Path

import pytest

from smlstm.pair import Pair, load_pair
from smlstm.search import Library
from tests.search.made import draw, make_pair


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_pair(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="session")
def pair(model: Path) -> Pair:
    return load_pair(model)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    draw(tmp_path / "photos", 6)
    return tmp_path / "photos"


@pytest.fixture
def library(tmp_path: Path, pair: Pair) -> Library:
    return Library(tmp_path / "library", model=pair, runtime="torch")
