import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.data.made_features import fill
from tests.data.test_layouts import FLICKR8K, write


def smlstm(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from smlstm.cli import main; main()", "data", "check", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_check_prints_what_a_dataset_holds(tmp_path: Path) -> None:
    write(tmp_path, FLICKR8K)
    done = smlstm(tmp_path)
    assert done.returncode == 0
    assert done.stdout == (
        f"flickr8k in {tmp_path}\n"
        "  split      images  captions\n"
        "  train           1         2\n"
        "  dev             1         1\n"
        "  all             2         3\n"
        "captions an image: 1 to 2, mean 1.50 (1 with 1, 1 with 2)\n"
        "missing images: 1, the first:\n"
        f"  {tmp_path}/Images/2_b.jpg\n"
        'note: 1 listed images have no caption and were left out, the first is "4_d.jpg"\n'
        'note: 1 images with captions are in no split, the first is "3_c.jpg"\n'
        "sample rows:\n"
        "  1_a.jpg  train  A dog .\n"
        "  2_b.jpg  dev  A café\n"
    )
    content = json.loads(smlstm(tmp_path, "--json").stdout)
    assert content["splits"] == {"train": {"images": 1, "captions": 2}, "dev": {"images": 1, "captions": 1}}
    assert content["captions_per_image"] == {"1": 1, "2": 1}
    assert content["missing"] == 1


@pytest.mark.slow
def test_check_prints_file_names_that_are_not_unicode(tmp_path: Path) -> None:
    (tmp_path / "\udce9.jpg").touch()
    done = smlstm(tmp_path)
    assert done.returncode == 0
    assert "\\udce9.jpg  train" in done.stdout


@pytest.mark.slow
def test_check_of_a_wrong_layout_is_a_sentence_and_code_3(tmp_path: Path) -> None:
    done = smlstm(tmp_path)
    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr.startswith(f"smlstm: {tmp_path} has no layout that is known. Looked for:\n  - Flickr8k")
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_check_reads_a_feature_store_to_its_end(tmp_path: Path) -> None:
    fill(tmp_path / "store", [["a", "b"]])
    content = json.loads(smlstm(tmp_path / "store", "--json").stdout)
    assert (content["images"], content["bytes_per_image"], content["backbone"]) == (2, 54, "efficientnet-lite0")
    with (tmp_path / "store" / "records.f16").open("r+b") as file:
        file.write(b"zz")
    done = smlstm(tmp_path / "store")
    assert done.returncode == 3
    assert 'the features of "a" (row 0) do not fit their checksum' in done.stderr
