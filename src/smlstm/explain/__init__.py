"""What a matcher looked at: saliency maps over photos and sentences, as arrays, pictures and pages.

    explanations = explain(matcher, features, sentences)         from features, pair by pair
    explanations = explain_photos(matcher, paths, sentences)     from files, every photo with every sentence
    write(explanations, Path("seen.html"))                       or .png

`compare` puts several matchers beside each other, `average_maps` shows where a matcher looks on the whole.
"""

from smlstm.explain.average import AveragedMaps, average_maps, average_records
from smlstm.explain.explanation import Explanation, explain, explain_encoded
from smlstm.explain.output import write, write_averages, write_comparison
from smlstm.explain.photos import explain_photos, explain_records

__all__ = [
    "AveragedMaps",
    "Explanation",
    "average_maps",
    "average_records",
    "explain",
    "explain_encoded",
    "explain_photos",
    "explain_records",
    "write",
    "write_averages",
    "write_comparison",
]
