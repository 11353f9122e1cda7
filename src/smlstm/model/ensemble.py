"""Ensembles (section 4.2): sm-LSTM* adds the similarity matrices of its four variants.

    s = sum_k s_k                              the paper's
    s = sum_k (s_k - mean_k) / deviation_k     standardised: no member counts more because its scores are wider

`Ensemble` is a `Matcher`: its means and deviations are fixed numbers, 0 and 1 unless set, so that a pair's score does
not depend on its batch. Whole matrices are added by `evaluation/matrices.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Tensor, nn

from smlstm.errors import ConfigurationError, InputError
from smlstm.matching.batch import Batch, ImageFeatures, Saliency, Tokens
from smlstm.matching.matcher import Matcher, MatcherConfig, refuse_single_sentence


@dataclass(frozen=True)
class EncodedByMembers(Batch):
    """The same items as each member encodes them."""

    members: tuple[Batch, ...]


class Ensemble(Matcher):
    """Several matchers of any kind on the same features; vocabularies may differ."""

    kind: ClassVar[str] = "ensemble"
    config_type = MatcherConfig

    def __init__(self, members: Sequence[Matcher]) -> None:
        if not members:
            raise ConfigurationError("an ensemble needs at least one member")
        first = members[0].config
        for member in members[1:]:
            for field in ("region_width", "context_width", "backbone"):
                ours, theirs = getattr(first, field), getattr(member.config, field)
                if ours != theirs:
                    raise ConfigurationError(
                        f"members of an ensemble must read the same features: {field} is {ours} and {theirs}"
                    )
        shared = {name: getattr(first, name) for name in MatcherConfig.model_fields}
        super().__init__(MatcherConfig(**shared), members[0].vocabulary)
        self.members = nn.ModuleList(members)
        self.tuned = members[0].tuned  # all read the features of one backbone
        self.attends = any(member.attends for member in members)  # type: ignore[misc]
        self.register_buffer("means", torch.zeros(len(members)))
        self.register_buffer("deviations", torch.ones(len(members)))

    means: Tensor
    deviations: Tensor

    def _matchers(self) -> list[Matcher]:
        return [cast(Matcher, member) for member in self.members]

    def _encode_images(self, features: ImageFeatures) -> EncodedByMembers:
        return EncodedByMembers(tuple(member.encode_images(features) for member in self._matchers()))

    def encode_sentences(self, sentences: Sequence[str] | Tokens) -> Batch:
        """Each member reads the sentences with its own vocabulary."""
        if isinstance(sentences, Tokens):
            raise InputError("an ensemble takes sentences as text, since its members' vocabularies may differ")
        refuse_single_sentence(sentences)
        return EncodedByMembers(tuple(member.encode_sentences(sentences) for member in self._matchers()))

    def _encode_tokens(self, tokens: Tokens) -> Batch:
        raise AssertionError("an ensemble encodes text")

    def scores(self, images: Batch, sentences: Batch) -> list[Tensor]:
        """Each member's own scores of all pairs; one M, N matrix a member."""
        parts = zip(_parts(images), _parts(sentences), strict=True)
        return [member.score(*part) for member, part in zip(self._matchers(), parts, strict=True)]

    def score(self, images: Batch, sentences: Batch) -> Tensor:
        """The sum of the members' (standardised) scores; M, N."""
        matrices = torch.stack(self.scores(images, sentences))  # K, M, N
        return ((matrices - self.means[:, None, None]) / self.deviations[:, None, None]).sum(0)

    def _attend(self, images: Batch, sentences: Batch) -> Saliency:
        """The maps of the first member that attends."""
        index, member = next((k, member) for k, member in enumerate(self._matchers()) if member.attends)
        return member._attend(_parts(images)[index], _parts(sentences)[index])


def members_of(matcher: Matcher) -> list[Matcher]:
    """Of an ensemble its members, of any other matcher itself."""
    return matcher._matchers() if isinstance(matcher, Ensemble) else [matcher]


def _parts(batch: Batch) -> tuple[Batch, ...]:
    return cast(EncodedByMembers, batch).members
