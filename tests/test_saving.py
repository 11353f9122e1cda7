import json
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file

from smlstm import Matcher
from smlstm.errors import ConfigurationError, InputError, SmlstmError
from smlstm.matching.batch import ImageFeatures
from smlstm.model import MNLM, SMLSTM, Ensemble, MNLMConfig, SMLSTMConfig
from smlstm.text import Vocabulary
from tests.ensembles import standardise

SENTENCES = ["a red dog", "runs on the beach"]


def smlstm(**changes) -> SMLSTM:
    torch.manual_seed(0)
    config = SMLSTMConfig(
        **{
            **dict(region_width=6, context_width=7, word_width=8, sentence_width=9, attention_width=4),
            **dict(similarity_width=3, hidden_width=5, embedding_width=5),
            **changes,
        }
    )
    return SMLSTM(config, Vocabulary.build(SENTENCES))


def scores(matcher: Matcher) -> torch.Tensor:
    generator = torch.Generator().manual_seed(5)
    features = ImageFeatures(torch.randn(3, 4, 6, generator=generator), torch.randn(3, 7, generator=generator))
    with torch.no_grad():
        return matcher.score(matcher.encode_images(features), matcher.encode_sentences([*SENTENCES, "a café dog"]))


@pytest.fixture
def folder(tmp_path):
    smlstm().save(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("variant", ["mean", "att", "ctx", "full"])
def test_round_trip_is_bit_for_bit(tmp_path, variant):
    model = smlstm(variant=variant).eval()
    model.save(tmp_path / "m")
    loaded = Matcher.load(tmp_path / "m")
    assert loaded.config == model.config
    assert loaded.vocabulary == model.vocabulary
    for name, tensor in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor), name
    assert torch.equal(scores(loaded), scores(model))
    assert sorted(path.name for path in (tmp_path / "m").iterdir()) == [
        "config.json",
        "model.safetensors",
        "vocabulary.json",
    ]
    loaded.save(tmp_path / "again")
    for name in ("config.json", "model.safetensors", "vocabulary.json"):
        assert (tmp_path / "m" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_ensemble_round_trip(tmp_path):
    baseline = MNLM(MNLMConfig(region_width=6, context_width=7, sentence_width=9), Vocabulary(("dog", "café")))
    ensemble = Ensemble([smlstm(), smlstm(variant="ctx"), baseline]).eval()
    features = ImageFeatures(torch.randn(3, 4, 6), torch.randn(3, 7))
    standardise(ensemble, ensemble.encode_images(features), ensemble.encode_sentences(SENTENCES))
    ensemble.save(tmp_path / "e")
    assert torch.equal(scores(Matcher.load(tmp_path / "e")), scores(ensemble))


def test_saving_replaces_a_model_whole(folder):
    other = smlstm(hidden_width=6).eval()
    other.save(folder)
    assert torch.equal(scores(Matcher.load(folder)), scores(other))
    assert [path.name for path in folder.parent.iterdir()] == ["model"], "nothing half-written is left"


def test_only_a_model_is_ever_replaced(tmp_path, monkeypatch):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match="holds thesis.txt"):
        smlstm().save(tmp_path / "run")
    assert (tmp_path / "run" / "thesis.txt").read_text() == "years of work"
    (tmp_path / "note").write_text("a file")
    with pytest.raises(InputError, match="is a file"):
        smlstm().save(tmp_path / "note")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    smlstm().save(".")
    assert torch.equal(scores(Matcher.load(tmp_path / "empty")), scores(smlstm().eval()))


def test_a_link_is_followed_not_replaced(folder, tmp_path):
    (tmp_path / "link").symlink_to(folder)
    other = smlstm(hidden_width=6).eval()
    other.save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert torch.equal(scores(Matcher.load(folder)), scores(other))


def test_a_failed_save_keeps_the_old_model(folder, monkeypatch):
    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("smlstm.saving._write", fail)
    with pytest.raises(OSError, match="disk full"):
        smlstm(hidden_width=6).save(folder)
    assert torch.equal(scores(Matcher.load(folder)), scores(smlstm().eval()))


def test_a_loaded_model_does_not_drop_out(tmp_path):
    smlstm(dropout=0.5).save(tmp_path / "m")
    loaded = Matcher.load(tmp_path / "m")
    assert not loaded.training
    assert torch.equal(scores(loaded), scores(loaded))


def change_config(folder, **changes):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    for name, value in changes.items():
        target = config["model"] if name in config["model"] or name == "colour" else config
        target[name] = value
    path.write_text(json.dumps(config))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"format": 2}, '"format" is 2'),
        ({"kind": "os.system"}, "\"kind\" is 'os.system', known kinds are"),
        ({"hidden_width": 6}, r'tensor "\S+\.\S+" has shape'),
        ({"hidden_width": "many"}, '"model.hidden_width"'),
        ({"variant": "ctx"}, 'tensor "\\S+" is unexpected in'),
        ({"colour": 1}, '"model.colour"'),
        ({"format": True}, '"format" is True'),
        ({"kind": []}, '"kind" is '),
        ({"hidden_width": 10**12}, '"model.hidden_width"'),
        ({"steps": 10**9}, '"model.steps"'),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused_by_the_fields_name(folder, changes, named):
    change_config(folder, **changes)
    with pytest.raises(ConfigurationError, match=named):
        Matcher.load(folder)


def test_a_vocabulary_of_another_size_is_refused(folder):
    (folder / "vocabulary.json").write_text(Vocabulary(("dog",)).to_json())
    with pytest.raises(ConfigurationError, match='tensor "embedding.weight" has shape'):
        Matcher.load(folder)


def test_a_missing_tensor_is_named(folder):
    tensors = load_file(folder / "model.safetensors")
    del tensors["aggregation.output.bias"]
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(ConfigurationError, match=r'"aggregation.output.bias" is missing'):
        Matcher.load(folder)


@pytest.mark.parametrize("name", ["config.json", "vocabulary.json", "model.safetensors"])
def test_a_missing_or_broken_file_is_named(folder, name):
    path = folder / name
    whole = path.read_bytes()
    for broken in (b"", whole[: len(whole) // 2], b"\x80\x04\x95 not what it says"):
        path.write_bytes(broken)
        with pytest.raises(SmlstmError, match=name.replace(".", r"\.")):
            Matcher.load(folder)
    path.unlink()
    with pytest.raises(InputError, match=f"has no {name}"):
        Matcher.load(folder)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda tensor: tensor.double(), "one type"),
        (lambda tensor: tensor.long(), "is torch.int64"),
        (lambda tensor: tensor * float("nan"), "not finite"),
    ],
)
def test_odd_weights_are_refused_by_name(folder, change, named):
    tensors = load_file(folder / "model.safetensors")
    tensors["aggregation.unit.bias"] = change(tensors["aggregation.unit.bias"])
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(ConfigurationError, match=f'(?s)tensor ".*{named}'):
        Matcher.load(folder)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"members": True}, "members"),
        ({"members": 0}, "members"),
        ({"means": [0.0]}, "means"),
        ({"means": [0.0, 10**400]}, "means"),
        ({"deviations": [1.0, 0.0]}, "deviations"),
        ({"deviations": [1.0, None]}, "deviations"),
    ],
)
def test_an_odd_ensemble_is_refused_by_the_fields_name(tmp_path, changes, named):
    Ensemble([smlstm(), smlstm(variant="att")]).save(tmp_path / "e")
    path = tmp_path / "e" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(ConfigurationError, match=f'"{named}"'):
        Matcher.load(tmp_path / "e")


def test_json_that_cannot_be_read_is_named(folder):
    for text in ("[" * 100_000, '{"format": ' + "9" * 5000 + "}"):
        (folder / "config.json").write_text(text)
        with pytest.raises(ConfigurationError, match=r"config\.json is not JSON"):
            Matcher.load(folder)


def test_a_pickle_is_not_run(folder):
    torch.save({"x": torch.zeros(1)}, folder / "model.safetensors")
    with pytest.raises(ConfigurationError, match="not a readable safetensors file"):
        Matcher.load(folder)


def test_half_precision_weights_are_read_as_float32(folder):
    tensors = {name: tensor.half() for name, tensor in load_file(folder / "model.safetensors").items()}
    save_file(tensors, folder / "model.safetensors")
    loaded = Matcher.load(folder)
    assert {parameter.dtype for parameter in loaded.parameters()} == {torch.float32}
    torch.testing.assert_close(scores(loaded), scores(smlstm().eval()), atol=1e-2, rtol=1e-2)


def test_loading_does_not_import_torchs_compiler(tmp_path):
    # It takes longer than all else, and is drawn in by the random start of weights that are read from the file.
    torch.manual_seed(0)
    config = MNLMConfig(region_width=3, context_width=3, embedding_width=4, sentence_width=5)
    MNLM(config, Vocabulary(("a", "dog"))).save(tmp_path / "model")
    code = "import sys; from smlstm import Matcher; Matcher.load(sys.argv[1]); print('torch._dynamo' in sys.modules)"
    command = [sys.executable, "-c", code, str(tmp_path / "model")]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "False\n"
