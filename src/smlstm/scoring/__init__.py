"""All pairs, fast: every image with every sentence, for any matcher, in bounded memory.

| name | for |
|---|---|
| `score_all` | a matrix of scores in memory or on disk, in tiles, resumable |
| `score_pairs` | some pairs only |
| `Cascade` | a cheap matcher's best k, scored by a costly one; takes a matcher's place in `score_all` |
| `Stored`, `Stream` | some rows of a feature store; images that come one batch after another |
| `progress_bar` | pairs a second and the time left, on stderr |
"""

from smlstm.scoring.all_pairs import score_all
from smlstm.scoring.cascade import Cascade, Shortlist, ShortlistRecall, score_pairs
from smlstm.scoring.images import Stored, Stream
from smlstm.scoring.precision import choose_precision
from smlstm.scoring.progress import Progress, progress_bar

__all__ = [
    "Cascade",
    "Progress",
    "Shortlist",
    "ShortlistRecall",
    "Stored",
    "Stream",
    "choose_precision",
    "progress_bar",
    "score_all",
    "score_pairs",
]
