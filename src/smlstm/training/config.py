"""What a training run is: data, vocabulary, and stages that are trained one after the other.

Read from TOML. All problems of a file are gathered and shown together, each with the name of its field.

    [[data]]                 one or several datasets with their features
    [vocabulary]             from training captions only
    [stage.mnlm]             any name, any number of stages, any kind of matcher, in the order of the file
    [stage.smlstm]           start_from = "mnlm"
"""

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError, ValidationError

from smlstm.data import FeatureSpec
from smlstm.matching.matcher import MatcherConfig
from smlstm.model import Ensemble, ObjectiveConfig, compact, paper
from smlstm.saving import KINDS
from smlstm.training.data_config import DataConfig
from smlstm.training.settings import Positive, Settings
from smlstm.training.tuning_config import TunedFeaturesConfig, TuningConfig

Share = Annotated[float, Field(ge=0, lt=1)]
NotNegative = Annotated[float, Field(ge=0)]
FROM_FEATURES = ("region_width", "context_width", "regions", "backbone")
TRAINABLE = tuple(sorted(set(KINDS) - {Ensemble.kind}))
_FOLDERS = ("model", "pair", "sentences", "features")
_KINDS_BY_STAGE = {"smlstm": "sm-lstm", "vsepp": "vse++"}


class VocabularyConfig(Settings):
    """Which words of the training captions are known."""

    minimum_count: Positive = Field(
        default=4,
        description="times a word must be seen: fewer than 4 sights teach a vector nothing but its own captions",
    )


class StageConfig(Settings):
    """One matcher and how it is trained."""

    kind: str = Field(default="sm-lstm", description="which matcher: by default the stage's name says it")
    preset: Literal["compact", "paper"] = Field(
        default="compact", description="sizes and objective to begin with; `compact` is what two CPU cores can train"
    )
    model: dict[str, Any] = Field(
        default_factory=dict,
        validate_default=True,
        description="settings of the matcher that differ from the preset; F, D and backbone are the features'",
    )
    objective: ObjectiveConfig = Field(
        default_factory=lambda: {},
        validate_default=True,
        description="what differs from the preset's objective, or from the paper's of a baseline",
    )
    start_from: str | list[str] | None = Field(
        default=None,
        description="an earlier stage or the folder of a saved model: an sm-LSTM takes what it shares with an MNLM. Of "
        "several, each gives what it shares, the last one's counts",
    )
    tuning: TuningConfig | None = Field(
        default=None,
        description="with this table, the backbone's last blocks learn too, from the lower features of `data.lower`",
    )
    features: TunedFeaturesConfig | None = Field(
        default=None, description="with this table, the stage reads features of a backbone that an earlier stage tuned"
    )
    epochs: Positive = Field(default=10, description="passes over all captions; early stopping may end them sooner")
    epoch_batches: Positive | None = Field(
        default=None,
        description="batches that make an epoch; by default those of all captions. Of much data, a part is enough to "
        "measure dev again, and the next epoch draws another part",
    )
    batch_size: int = Field(
        default=101, ge=2, description="captions a batch: 101 gives each pair the paper's 100 others"
    )
    negatives: Literal["batch", "uniform"] = Field(
        default="batch",
        description="mismatched pairs: all others of the batch, or `objective.negatives` of them, drawn",
    )
    captions_together: Positive = Field(
        default=1,
        description="captions of one image that come in the same batch: with 5, a batch has a fifth of the images and "
        "of the pairs, and as many mismatched sentences, but few mismatched images. 1: as many of both",
    )
    stepped_captions: Positive | None = Field(
        default=None,
        description="of each image's captions in a batch, score so many step by step; all are ranked by global_score, "
        "which costs less. With captions_together = 3 and 1 here, pairs cost a third",
    )
    region_dropout: Share = Field(
        default=0.0, description="share of an image's regions left out at random: another view of it in every epoch"
    )
    word_dropout: Share = Field(
        default=0.0,
        description="share of words made unknown (zero vectors, with a language model) at random: no caption is known "
        "by one rare word",
    )
    phrases: NotNegative = Field(
        default=0.0,
        description="weight of a second ranking: photos by the noun phrases of captions, about one per caption; it "
        "teaches an sm-LSTM's attention where the words are",
    )
    boxes: bool = Field(
        default=False,
        description="with `phrases`: teach their maps from the boxes of `data.entities` too; the paper needs none",
    )
    learning_rate: float = Field(default=1e-3, gt=0, description="the peak; Adam's usual, and what first trials used")
    weight_decay: NotNegative = Field(default=0.0, description="off: dropout did more against over-fitting")
    warmup_steps: int = Field(
        default=100, ge=0, description="steps of linear rise: Adam's second moments are unknown at first"
    )
    final_share: float = Field(
        default=0.05,
        ge=0,
        le=1,
        description="of the peak rate, reached at the end along a cosine, whose slow end settles the ranking; not 0, "
        "so the last epoch counts",
    )
    clip: NotNegative = Field(
        default=2.0, description="largest norm of the gradient, as in VSE++ and SCAN; a recurrent net spikes. 0: none"
    )
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        default="auto",
        description="bfloat16 autocast where the processor multiplies it natively, float32 elsewhere; "
        "the environment variable SMLSTM_PRECISION decides otherwise",
    )
    dev_images: Positive = Field(
        default=500, description="dev images measured after each epoch: all pairs of 1000 cost four times as much"
    )
    patience: int = Field(
        default=3,
        ge=0,
        description="epochs without a better dev Sum before stopping early, since they cost hours; 0: never",
    )
    checkpoint_seconds: NotNegative = Field(
        default=120.0, description="time between checkpoints within an epoch: what a power cut may cost"
    )
    log_steps: Positive = Field(default=20, description="steps averaged into one line of the metrics")

    @field_validator("kind")
    @classmethod
    def _kind_is_known(cls, kind: str) -> str:
        if kind not in TRAINABLE:
            raise PydanticCustomError("kind", "known kinds are {known}", {"known": ", ".join(TRAINABLE)})
        return kind

    @field_validator("model")
    @classmethod
    def _fill_model(cls, given: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        if "kind" not in info.data or "preset" not in info.data:
            return given  # reported already
        own = [name for name in FROM_FEATURES if name in given]
        if own:
            raise PydanticCustomError("model", "{own} comes from the features: leave it out", {"own": own[0]})
        config_type = KINDS[info.data["kind"]].config_type
        try:
            settings = config_type.model_validate({**_preset_sizes(config_type, info.data["preset"]), **given})
        except ValidationError as error:
            text = "; ".join(describe(problem) for problem in error.errors())
            raise PydanticCustomError("model", "{text}", {"text": text}) from None
        return settings.model_dump(mode="json", exclude=set(FROM_FEATURES))

    @field_validator("objective", mode="before")
    @classmethod
    def _fill_objective(cls, given: Any, info: ValidationInfo) -> Any:
        if not isinstance(given, dict) or "kind" not in info.data or "preset" not in info.data:
            return given
        matcher = KINDS[info.data["kind"]]
        if hasattr(matcher, "objective"):
            base: ObjectiveConfig = matcher.objective()
        else:
            base = _preset(info.data["preset"]).objective
        fields = base.model_dump()
        if matcher.kind == "mnlm":
            fields["regulariser"] = 0.0  # it has no maps
        return {**fields, "negatives": None, **given}

    @model_validator(mode="after")
    def _fits_together(self) -> "StageConfig":
        drawn = self.objective.negatives
        if (drawn is not None) != (self.negatives == "uniform"):
            raise PydanticCustomError(
                "negatives", 'objective.negatives and negatives = "uniform" go together: give both or neither', {}
            )
        if self.phrases and (self.kind != "sm-lstm" or self.model.get("variant") not in ("att", "full")):
            raise PydanticCustomError(
                "phrases", "phrases teach attention: only an sm-lstm of variant att or full has it", {}
            )
        if self.phrases and self.model.get("modulation") != "paired":
            raise PydanticCustomError(
                "phrases",
                "phrases are sought in photos, which only the modulation `paired` does: set model.modulation so",
                {},
            )
        if self.tuning is not None and self.features is not None:
            raise PydanticCustomError(
                "tuning",
                "tuning starts from lower features, not from those of a tuned backbone: leave `features` out",
                {},
            )
        if self.stepped_captions is not None and not self.model.get("global_score"):
            raise PydanticCustomError(
                "stepped_captions",
                "captions that no step sees are ranked by the global score: set model.global_score, or leave "
                "stepped_captions out",
                {},
            )
        if self.boxes and not self.phrases:
            raise PydanticCustomError("boxes", "boxes are those of phrases: give phrases a weight too, such as 1", {})
        return self

    @property
    def sources(self) -> list[str]:
        """All that `start_from` names."""
        return [self.start_from] if isinstance(self.start_from, str) else list(self.start_from or ())

    def matcher_config(self, features: FeatureSpec) -> MatcherConfig:
        """The matcher's whole configuration, once the features are known."""
        known = {name: getattr(features, name) for name in FROM_FEATURES}
        return KINDS[self.kind].config_type.model_validate({**self.model, **known})


class PairConfig(Settings):
    """Two of the stages as one model: the folder `pair`, for search, for the page, for all that takes a model."""

    shortlist: str = Field(
        default="mnlm",
        description="the stage whose vectors find candidates: an MNLM or a VSE++, or the reranker itself, if it has a "
        "`global_score`",
    )
    reranker: str = Field(default="smlstm", description="the stage that looks closely at them")
    fit_terms: bool = Field(
        default=False,
        description="how much each term of the reranker's score counts (`term_weights`) is fitted on dev images, at "
        "most 300 of each dataset; only an sm-LSTM with global_score or instance_score has several",
    )
    half: bool = Field(default=True, description="store weights in half precision: half the size, the same ranking")


class RunConfig(Settings):
    """A whole run."""

    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", description="the run's folder, in `runs/` unless told otherwise"
    )
    seed: int = Field(default=0, ge=0, lt=2**31, description="decides start, order and dropout: the same, the same run")
    device: str = Field(default="auto", description="cpu, cuda, cuda:1, mps; auto takes the first GPU, else the CPU")
    data: list[DataConfig] = Field(min_length=1, description="joined; every image counts once")
    vocabulary: VocabularyConfig = Field(default=VocabularyConfig(), description="which words are known")
    stage: dict[str, StageConfig] = Field(min_length=1, description="trained in this order")
    pair: PairConfig | None = Field(
        default=None, description="once all stages are trained, calibrate two of them on dev and put them together"
    )

    @model_validator(mode="before")
    @classmethod
    def _name_kinds(cls, raw: Any) -> Any:
        """A stage called mnlm is an MNLM unless it says otherwise."""
        if not isinstance(raw, dict) or not isinstance(raw.get("stage"), dict):
            return raw
        stages = {}
        for name, stage in raw["stage"].items():
            kind = name if name in TRAINABLE else _KINDS_BY_STAGE.get(name)
            stages[name] = {"kind": kind, **stage} if kind is not None and isinstance(stage, dict) else stage
        return {**raw, "stage": stages}

    @field_validator("stage")
    @classmethod
    def _names_are_folders(cls, stages: dict[str, StageConfig]) -> dict[str, StageConfig]:
        for name in stages:
            if not name.replace("-", "").replace("_", "").isalnum() or name in _FOLDERS:
                raise PydanticCustomError("stage", "{name} cannot name a stage: use letters and digits", {"name": name})
        return stages

    @model_validator(mode="after")
    def _stages_find_features(self) -> "RunConfig":
        earlier: dict[str, StageConfig] = {}
        for name, stage in self.stage.items():
            if stage.features is not None:
                source = earlier.get(stage.features.of)
                if source is None or source.tuning is None:
                    raise PydanticCustomError(
                        "features",
                        'stage.{name}.features.of: "{of}" is no earlier stage that tunes; those are: {known}',
                        {
                            "name": name,
                            "of": stage.features.of,
                            "known": ", ".join(each for each, one in earlier.items() if one.tuning) or "none",
                        },
                    )
            else:
                wanted = "features" if stage.tuning is None else "lower"
                for number, entry in enumerate(self.data):
                    if not getattr(entry, wanted):
                        raise PydanticCustomError(
                            "data",
                            "data.{number}.{wanted}: is missing, and stage {name} reads it",
                            {"number": number, "wanted": wanted, "name": name},
                        )
            earlier[name] = stage
        return self

    @staticmethod
    def _several_terms(stage: StageConfig) -> bool:
        return bool(stage.model.get("global_score") or stage.model.get("instance_score"))

    @model_validator(mode="after")
    def _pairs_what_is_there(self) -> "RunConfig":
        if self.pair is None:
            return self
        for role, name in (("shortlist", self.pair.shortlist), ("reranker", self.pair.reranker)):
            if name not in self.stage:
                raise PydanticCustomError(
                    "pair",
                    'pair.{role}: there is no stage "{name}"; this run has {stages}',
                    {"role": role, "name": name, "stages": ", ".join(self.stage)},
                )
        if self.pair.fit_terms and not self._several_terms(self.stage[self.pair.reranker]):
            raise PydanticCustomError(
                "pair",
                "pair.fit_terms: the score of {name} has one term: give its model global_score or instance_score, or "
                "leave this out",
                {"name": self.pair.reranker},
            )
        finder = self.stage[self.pair.shortlist]
        if self.pair.shortlist == self.pair.reranker and finder.model.get("global_score"):
            return self
        if finder.kind not in ("mnlm", "vse++"):
            raise PydanticCustomError(
                "pair",
                "pair.shortlist: {name} is of kind {kind}, but a shortlist needs unit vectors: mnlm or vse++, or the "
                "reranker itself with a global_score",
                {"name": self.pair.shortlist, "kind": self.stage[self.pair.shortlist].kind},
            )
        return self


def _preset(name: str) -> Any:
    return paper() if name == "paper" else compact()


def _preset_sizes(config_type: type[MatcherConfig], name: str) -> dict[str, Any]:
    """What a preset says about a kind of matcher; baselines take what they share with its MNLM."""
    preset = _preset(name)
    base = preset.model if config_type is type(preset.model) else preset.baseline
    known = set(config_type.model_fields)
    return {field: value for field, value in base.model_dump().items() if field in known}


def describe(problem: Any) -> str:
    """One problem as a sentence that names its field."""
    place = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        return f"{place}: there is no such setting"
    if problem["type"] == "missing":
        return f"{place}: is missing"
    found = problem.get("input")
    shown = f" (found {found!r})" if isinstance(found, str | int | float | bool) else ""
    message = f"{problem['msg'][:1].lower()}{problem['msg'][1:]}{shown}"
    return f"{place}: {message}" if place else message  # what concerns several settings names them itself
