import json
import subprocess
from pathlib import Path

import pytest
from tests.command_line import smlstm, smlstm_process
from tests.data.made_features import fill
from tests.data.test_layouts import FLICKR8K, write
from tests.permissions import bounded_by_permissions


def check(*arguments: object) -> subprocess.CompletedProcess[str]:
    return smlstm("data", "check", *arguments)


def test_check_prints_what_a_dataset_holds(tmp_path: Path) -> None:
    write(tmp_path, FLICKR8K)
    done = check(tmp_path)
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
    content = json.loads(check(tmp_path, "--json").stdout)
    assert content["splits"] == {"train": {"images": 1, "captions": 2}, "dev": {"images": 1, "captions": 1}}
    assert content["captions_per_image"] == {"1": 1, "2": 1}
    assert content["missing"] == 1


def test_check_prints_file_names_that_are_not_unicode(tmp_path: Path) -> None:
    (tmp_path / "\udce9.jpg").touch()
    done = check(tmp_path)
    assert done.returncode == 0
    assert "\\udce9.jpg  train" in done.stdout


def test_check_of_a_wrong_layout_is_a_sentence_and_code_3(tmp_path: Path) -> None:
    done = check(tmp_path)
    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr.startswith(f"smlstm: {tmp_path} has no layout that is known. Looked for:\n  - Flickr8k")
    assert "Traceback" not in done.stderr


def test_check_reads_a_feature_store_to_its_end(tmp_path: Path) -> None:
    fill(tmp_path / "store", [["a", "b"]])
    content = json.loads(check(tmp_path / "store", "--json").stdout)
    assert (content["images"], content["bytes_per_image"], content["backbone"]) == (2, 54, "efficientnet-lite0")
    with (tmp_path / "store" / "records.f16").open("r+b") as file:
        file.write(b"zz")
    done = check(tmp_path / "store")
    assert done.returncode == 3
    assert 'the features of "a" (row 0) do not fit their checksum' in done.stderr


@pytest.mark.parametrize(
    ("failure", "code", "sentence"),
    [
        (KeyboardInterrupt(), 130, "smlstm: interrupted\n"),
        (OSError(5, "Input/output error", "disk"), 1, "smlstm: disk: Input/output error\n"),
        (OSError(28, "No space left on device"), 1, "smlstm: No space left on device\n"),
    ],
)
def test_what_may_happen_to_any_command_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException, code: int, sentence: str
) -> None:
    def fail(_: object) -> None:
        raise failure

    write(tmp_path, FLICKR8K)
    monkeypatch.setattr("smlstm.cli.data.summarise", fail)
    done = check(tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", sentence)


def test_wrong_usage_keeps_its_code_and_its_message(tmp_path: Path) -> None:
    done = check(tmp_path, "--no-such-option")
    assert done.returncode == 2
    assert "No such option" in done.stderr
    assert check().returncode == 2
    assert check(write(tmp_path, FLICKR8K), "--split-scheme", "kiros").returncode == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["store.json", "journal.log", "records.f16"])
def test_a_store_that_may_not_be_read_is_a_sentence(tmp_path: Path, name: str) -> None:
    fill(tmp_path / "store", [["a", "b"]])
    (tmp_path / "store" / name).chmod(0)
    done = smlstm_process("data", "check", tmp_path / "store", before=bounded_by_permissions())
    assert done.returncode == 3
    assert done.stderr == f"smlstm: {tmp_path / 'store' / name} cannot be read: Permission denied\n"
