import json
import shutil

import pytest
from tests.command_line import smlstm, smlstm_process
from tests.search.made import draw, make_pair


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return make_pair(tmp_path_factory.mktemp("model"))


@pytest.fixture
def options(tmp_path, model):
    photos = tmp_path / "photos"
    draw(photos, 4)
    shutil.copy(photos / "000.png", photos / "copy.png")
    (photos / "text.jpg").write_text("hello")
    options = ("--library", tmp_path / "library", "--model", model)
    assert smlstm("index", photos, "--runtime", "torch", *options).returncode == 0
    return options


def test_list_shows_files_skipped_ones_and_copies(options, tmp_path):
    library = options[:2]
    listed = smlstm("library", "list", *library).stdout.splitlines()
    assert listed == sorted(str(path) for path in (tmp_path / "photos").glob("*.png"))
    assert smlstm("library", "list", "--skipped", *library).stdout.startswith(
        f"{tmp_path}/photos/text.jpg: its content"
    )
    copies = json.loads(smlstm("library", "list", "--copies", "--json", *library).stdout)
    assert [row["path"].rpartition("/")[2] for row in copies] == ["000.png", "copy.png"]
    assert copies[0]["content"] == copies[1]["content"]


def test_stats_count(options, tmp_path):
    found = json.loads(smlstm("library", "stats", "--json", *options).stdout)
    counts = {name: found[name] for name in ("files", "photos", "copies", "skipped", "unused")}
    assert counts == {"files": 5, "photos": 4, "copies": 1, "skipped": 1, "unused": 0}
    assert found["folder"] == str(tmp_path / "library") and found["folders"][0]["path"] == str(tmp_path / "photos")
    assert found["bytes"] > 4 * found["bytes_per_photo"] > 0
    assert f"library          {tmp_path / 'library'}" in smlstm("library", "stats", *options).stdout


def test_prune_lets_go_of_what_no_file_has_and_of_other_models(options, tmp_path):
    photos = tmp_path / "photos"
    other = make_pair(tmp_path / "other", seed=1)
    smlstm("index", "--runtime", "torch", *options[:2], "--model", other)
    (photos / "001.png").unlink()
    smlstm("index", *options)
    assert json.loads(smlstm("library", "stats", "--json", *options).stdout)["unused"] == 1
    found = json.loads(smlstm("library", "prune", "--json", *options).stdout)
    assert found["photos"] == 1 and found["bytes"] > 0
    assert len(list((tmp_path / "library").glob("photos-*"))) == 1
    assert len(smlstm("search", "a red circle", "--no-index", *options).stdout.splitlines()) == 3
    assert smlstm("library", "check", *options).stdout == "the library is whole\n"


def test_forget_takes_a_folder_out(options, tmp_path):
    assert smlstm("library", "forget", tmp_path / "photos", *options[:2]).stdout == "6 files forgotten\n"
    assert smlstm("library", "list", *options[:2]).stdout == ""
    again = smlstm("library", "forget", tmp_path / "photos", *options[:2])
    assert again.returncode == 3 and "is not a folder of the library" in again.stderr


def test_check_ends_with_a_code_when_something_is_wrong_and_repair_mends_it(options, tmp_path):
    assert smlstm("library", "check", *options).returncode == 0
    (tmp_path / "library" / "library.json").write_text("{")
    found = smlstm("library", "check", *options)
    assert found.returncode == 3 and "library.json is damaged" in found.stdout
    assert "mended" in smlstm("library", "repair", *options).stdout
    assert smlstm("library", "check", *options).returncode == 0


def test_damaged_tables_end_every_command_in_one_sentence_and_repair_mends_them(options, tmp_path):
    library = tmp_path / "library"
    manifest = min(library.glob("files.lance/_versions/*.manifest"))
    content = bytearray(manifest.read_bytes())
    content[137] = 32 if content[137] != 32 else 33
    manifest.write_bytes(content)
    data = next(library.glob("photos-*/data/*.lance"))
    data.write_bytes(data.read_bytes()[:-100])
    for command in (("search", "a dog"), ("search", "a dog", "--no-index"), ("index",), ("library", "stats")):
        run = smlstm_process if command[-1] == "--no-index" else smlstm  # Rust writes past Python's stderr
        done = run(*command, *options)
        assert done.returncode == 3 and "`smlstm library repair`" in done.stderr.splitlines()[-1]
        assert "Traceback" not in done.stderr and "panicked" not in done.stderr
    found = smlstm("library", "check", *options)
    assert found.returncode == 3 and found.stdout.count("checksum does not fit") == 2
    mended = smlstm("library", "repair", *options)
    assert mended.returncode == 0 and mended.stdout.count("mended: ") == 2 and "written anew" in mended.stdout
    assert smlstm("library", "check", *options).returncode == 0
    assert smlstm("index", "--runtime", "torch", *options).returncode == 0
    assert len(smlstm("search", "a red circle", "--no-index", *options).stdout.splitlines()) == 4
    assert smlstm("library", "check", *options).stdout == "the library is whole\n"
