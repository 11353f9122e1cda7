"""Word vectors that know their sentence: a frozen language model reads it, as a frozen CNN looks at the photo.

The model is MiniLM-L6 as trained for sentence similarity (`all-MiniLM-L6-v2`, Apache 2.0): a BERT of six layers, 384
wide, which has read a billion pairs of sentences. It lies in `text/minilm` with its weights in 8 bits, one scale
a row, its English word pieces, and the first 128 positions. A word's vector is the mean over its pieces.

A matcher says with `language_model = "minilm"` that its word vectors come from here instead of from a table that
it learns; it then has something to say about words that its training captions never used.
"""

import itertools
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from threading import Lock

import torch
from cachetools import LRUCache
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional

from smlstm.files import fingerprint

FOLDER = Path(__file__).parent / "minilm"
WIDTH = 384
_LAYERS, _HEADS, _POSITIONS = 6, 12, 128
_KEPT_WORDS = 300_000  # 230 MB: two dev sets
_TOGETHER = 64
_STEP = 8  # a multiple of it is also what keeps each row's products the same beside any others
_VERSION = 1  # of how words are spelled and vectors made of pieces
_PARTS = re.compile(r"[^\W_]+|[^\w\s]|_")
_LONGEST_PART = 100


@dataclass(frozen=True)
class _Spelled:
    """A sentence in pieces."""

    words: tuple[str, ...]
    rows: list[int]
    """Of all pieces between the two marks of a sentence's ends."""
    owners: list[int]
    """The word that each inner piece is of."""

    @property
    def padded(self) -> int:
        """The length at which it is read."""
        return -(-len(self.rows) // _STEP) * _STEP


class LanguageModel:
    """Reads sentences, given as words, into one vector a word; what it read lately is kept."""

    def __init__(self, folder: Path = FOLDER) -> None:
        packed = load_file(folder / "weights.safetensors")
        self._packed, self._scales = packed.pop("pieces.weight"), packed.pop("pieces.weight.scale")
        self._weights = _unpack(packed)
        lines = (folder / "pieces.txt").read_text(encoding="utf-8").splitlines()
        self._pieces = {piece: row for row, piece in enumerate(lines)}
        self._folder = folder
        self._kept: LRUCache[tuple[str, ...], Tensor] = LRUCache(_KEPT_WORDS, getsizeof=len)
        self._lock = Lock()  # a server reads in several threads

    @cached_property
    def digest(self) -> str:
        """Tells what it reads from what another version would read."""
        return fingerprint([str(_VERSION), self._folder / "weights.safetensors", self._folder / "pieces.txt"], 8)

    def read_once(self, sentences: Sequence[Sequence[str]], dtype: torch.dtype) -> list[Tensor]:
        """The same for many sentences that will not be asked for again, in a number format that may be faster."""
        asked = [tuple(words) for words in sentences]
        found: dict[tuple[str, ...], Tensor] = {}
        for part in self._alike(set(asked)):
            found.update(zip((each.words for each in part), self._read(part, dtype), strict=True))
        return [found[words] for words in asked]

    def read(self, sentences: Sequence[Sequence[str]]) -> list[Tensor]:
        """Float16 vectors of each sentence's words; words, 384.

        The order and company of sentences change nothing, not a last digit: whoever asks gets the same answer, whatever
        others ask at the same time or asked before.
        """
        asked = [tuple(words) for words in sentences]
        with self._lock:
            found = {words: self._kept[words] for words in asked if words in self._kept}
        for part in self._alike({words for words in asked if words not in found}):
            found.update(zip((each.words for each in part), self._read(part), strict=True))
        with self._lock:
            for words in asked:
                if len(words) <= self._kept.maxsize:
                    self._kept[words] = found[words]
        return [found[words] for words in asked]

    def own(self, words: Sequence[str]) -> Tensor:
        """What each word is by itself, before anything is read around it: the mean of its pieces; words, 384."""
        means = [(self._packed[rows] * self._scales[rows]).mean(0) for rows in map(self.pieces, words)]
        return torch.stack(means).half()

    def forget(self) -> None:
        """Read everything anew from now on, as benchmarks want it."""
        with self._lock:
            self._kept.clear()

    def pieces(self, word: str) -> list[int]:
        """Rows of a word's pieces, the longest that fit from its beginning on; one unknown piece if none do."""
        plain = unicodedata.normalize("NFD", word.lower())
        plain = "".join(letter for letter in plain if unicodedata.category(letter) != "Mn")
        rows = [row for part in _PARTS.findall(plain) for row in self._pieces_of_part(part)]
        return rows or [self._pieces["[UNK]"]]

    def knows(self, word: str) -> bool:
        """Whether a word is one of its pieces; others it puts together of parts, misspelt ones too."""
        return len(self.pieces(word)) == 1 and self.pieces(word) != [self._pieces["[UNK]"]]

    def _pieces_of_part(self, part: str) -> list[int]:
        unknown = [self._pieces["[UNK]"]]
        rows: list[int] = []
        start = 0
        while start < len(part) <= _LONGEST_PART:
            head = "##" if start else ""
            end = next((end for end in range(len(part), start, -1) if head + part[start:end] in self._pieces), None)
            if end is None:
                return unknown
            rows.append(self._pieces[head + part[start:end]])
            start = end
        return rows or unknown

    def _alike(self, sentences: Iterable[tuple[str, ...]]) -> Iterator[list["_Spelled"]]:
        """Sentences that are read together: those that are padded to the same length.

        A sentence's length decides its padding, not its company, since sums over other shapes differ in a last digit.
        """
        spelled = sorted(map(self._spell, sentences), key=lambda each: (each.padded, each.words))
        for _, group in itertools.groupby(spelled, key=lambda each: each.padded):
            while part := list(itertools.islice(group, _TOGETHER)):
                yield part

    def _read(self, sentences: Sequence["_Spelled"], dtype: torch.dtype = torch.float32) -> list[Tensor]:
        longest = sentences[0].padded
        ids = torch.tensor([each.rows + [0] * (longest - len(each.rows)) for each in sentences])
        mask = torch.arange(longest) < torch.tensor([len(each.rows) for each in sentences])[:, None]
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
            states = self._run(ids, mask).float()
        vectors = []
        for each, state in zip(sentences, states, strict=True):
            count = len(each.words)
            places = torch.tensor(each.owners, dtype=torch.long)
            sums = torch.zeros(count, WIDTH, dtype=torch.float32).index_add_(0, places, state[1 : 1 + len(places)])
            pieces = torch.bincount(places, minlength=count).clamp(min=1)
            vectors.append((sums / pieces[:, None]).half())
        return vectors

    def _spell(self, words: tuple[str, ...]) -> "_Spelled":
        rows: list[int] = []
        owners: list[int] = []
        for place, word in enumerate(words):
            pieces = self.pieces(word)
            rows += pieces
            owners += [place] * len(pieces)
        most = _POSITIONS - 2
        return _Spelled(words, [self._pieces["[CLS]"], *rows[:most], self._pieces["[SEP]"]], owners[:most])

    def _run(self, ids: Tensor, mask: Tensor) -> Tensor:
        """BERT (Devlin et al. 2018); N, pieces, 384."""
        weights = self._weights
        batch, length = ids.shape

        def linear(values: Tensor, name: str) -> Tensor:
            return functional.linear(values, weights[f"{name}.weight"], weights[f"{name}.bias"])

        def norm(values: Tensor, name: str) -> Tensor:
            return functional.layer_norm(
                values, (WIDTH,), weights[f"{name}.weight"], weights[f"{name}.bias"], eps=1e-12
            )

        def heads(values: Tensor) -> Tensor:
            return values.view(batch, length, _HEADS, WIDTH // _HEADS).transpose(1, 2)

        pieces = self._packed[ids] * self._scales[ids]  # unpacked where they are needed: half of all weights
        states = norm(pieces + weights["positions.weight"][:length], "norm")
        for layer in range(_LAYERS):
            query, key, value = (heads(linear(states, f"{layer}.{name}")) for name in ("query", "key", "value"))
            seen = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None, None, :])
            seen = seen.transpose(1, 2).reshape(batch, length, WIDTH)
            states = norm(states + linear(seen, f"{layer}.seen"), f"{layer}.seen_norm")
            inner = functional.gelu(linear(states, f"{layer}.wide"))
            states = norm(states + linear(inner, f"{layer}.narrow"), f"{layer}.norm")
        return states


@cache
def language_model() -> LanguageModel:
    """The one that comes with smlstm, loaded at first need."""
    return LanguageModel()


_NAMES = {
    "attention.self.query": "query",
    "attention.self.key": "key",
    "attention.self.value": "value",
    "attention.output.dense": "seen",
    "attention.output.LayerNorm": "seen_norm",
    "intermediate.dense": "wide",
    "output.dense": "narrow",
    "output.LayerNorm": "norm",
}


def pack(source: Path, folder: Path = FOLDER) -> None:
    """Make `text/minilm` of the published files (`model.safetensors`, `vocab.txt`)."""
    pieces = (source / "vocab.txt").read_text(encoding="utf-8").splitlines()
    kept = [row for row, piece in enumerate(pieces) if piece.isascii() and not piece.startswith("[unused")]
    with safe_open(source / "model.safetensors", framework="pt") as file:
        embeddings = {name: file.get_tensor(f"embeddings.{name}.weight").float() for name in _EMBEDDINGS}
        tensors = {
            "pieces.weight": embeddings["word_embeddings"][kept],
            "positions.weight": embeddings["position_embeddings"][:_POSITIONS] + embeddings["token_type_embeddings"][0],
        }
        for kind in ("weight", "bias"):
            tensors[f"norm.{kind}"] = file.get_tensor(f"embeddings.LayerNorm.{kind}").float()
            for layer in range(_LAYERS):
                for theirs, ours in _NAMES.items():
                    found = file.get_tensor(f"encoder.layer.{layer}.{theirs}.{kind}")
                    tensors[f"{layer}.{ours}.{kind}"] = found.float()
    folder.mkdir(parents=True, exist_ok=True)
    save_file(_pack(tensors), folder / "weights.safetensors")
    (folder / "pieces.txt").write_text("".join(f"{pieces[row]}\n" for row in kept), encoding="utf-8")


_EMBEDDINGS = ("word_embeddings", "position_embeddings", "token_type_embeddings")


def _pack(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    packed: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if tensor.dim() == 2:
            scale = tensor.abs().amax(1, keepdim=True) / 127
            packed[name] = (tensor / scale).round().to(torch.int8)
            packed[f"{name}.scale"] = scale
        else:
            packed[name] = tensor
    return packed


def _unpack(packed: dict[str, Tensor]) -> dict[str, Tensor]:
    scales = {name: tensor for name, tensor in packed.items() if name.endswith(".scale")}
    return {
        name: tensor.float().mul_(scales[f"{name}.scale"]) if f"{name}.scale" in scales else tensor
        for name, tensor in packed.items()
        if name not in scales
    }
