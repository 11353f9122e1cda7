"""What each stage of a run learns from: published features, lower ones, or those of a backbone tuned before."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from smlstm.matching.matcher import Matcher
from smlstm.text import Vocabulary
from smlstm.training.config import RunConfig
from smlstm.training.distributed import Processes
from smlstm.training.examples import Examples
from smlstm.training.folder import RunFolder
from smlstm.training.read_examples import PhotoStores, feature_stores, read_examples
from smlstm.training.reading import ReadingStoppedError
from smlstm.training.stopping import Stopping
from smlstm.training.tuned_features import extract_tuned, tuned_stores
from smlstm.training.tuning import dev_as_seen_by, lower_stores
from smlstm.training.tuning_config import TunedFeaturesConfig
from smlstm.training.watchers import Watcher


@dataclass(frozen=True)
class Source:
    """Captions and images, and the words that are known."""

    training: Examples
    dev: Examples
    minimum_count: int
    tuned: Mapping[str, Tensor] | None = None
    """What was tuned of the backbone that made the features."""

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Of the training captions."""
        return Vocabulary.build(self.training.captions, self.minimum_count)


class Sources:
    """Of all stages; each is read once."""

    def __init__(
        self, config: RunConfig, run: RunFolder, processes: Processes, stopping: Stopping, watcher: Watcher
    ) -> None:
        self._config, self._run = config, run
        self._processes, self._stopping, self._watcher = processes, stopping, watcher
        self._read: dict[str, Source] = {}

    def check(self, name: str) -> None:
        """Read what a stage learns from, as far as it is there already: what is wrong with it is said early."""
        if self._config.stage[name].features is None:
            self.of(name)

    def of(self, name: str) -> Source:
        """What a stage learns from; features of a tuned backbone are extracted now, or found."""
        stage = self._config.stage[name]
        key = "lower" if stage.tuning is not None else "features"
        if stage.features is not None:
            key = stage.features.model_dump_json()
        if key not in self._read:
            tuned = None if stage.features is None else self._extracted(stage.features)
            training, dev, notices = read_examples(self._config.data, self._stores(name))
            for notice in notices:
                self._watcher.notice(notice)
            self._read[key] = Source(training, dev, self._config.vocabulary.minimum_count, tuned)
        return self._read[key]

    def dev_of(self, name: str, matcher: Matcher, number: int) -> Examples:
        """Dev examples of one dataset as a stage's saved matcher sees them."""
        _, dev, _ = read_examples([self._config.data[number]], [self._stores(name)[number]])
        return dev if self._config.stage[name].tuning is None else dev_as_seen_by(matcher, dev)

    def _stores(self, name: str) -> list[PhotoStores]:
        stage, data = self._config.stage[name], self._config.data
        if stage.features is not None:
            return tuned_stores(stage.features, len(data), self._run.features)
        return feature_stores(data) if stage.tuning is None else lower_stores(data)

    def _extracted(self, wanted: TunedFeaturesConfig) -> Mapping[str, Tensor] | None:
        matcher, stopped = Matcher.load(self._run.trained(wanted.of)), ""
        if self._processes.first:
            try:
                extract_tuned(
                    matcher,
                    wanted,
                    self._config.data,
                    self._run.features,
                    stopping=self._stopping,
                    watcher=self._watcher,
                )
            except ReadingStoppedError as error:
                stopped = str(error)
        if self._processes.agree(bool(stopped)):
            raise ReadingStoppedError(stopped or "interrupted")
        return matcher.tuned
