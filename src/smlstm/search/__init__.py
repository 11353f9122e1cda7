"""A library of photos: index folders, keep in step with them, find photos by sentences.

library = Library()                                     where `SMLSTM_LIBRARY` says, or in the user's data folder
library.index("~/Photos")                               only what is new goes through the CNN
library.search("a dog running on the beach", k=10)      matches, the best first
"""

from smlstm.search.library import Library
from smlstm.search.snapshot import Filter

__all__ = ["Filter", "Library"]
