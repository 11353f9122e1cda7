"""Short sentences of a dataset, as people type them, and which images show what they name.

A caption describes one image; "dog" is right for every image with a dog. What a score says of such words is therefore
asked of the captions: an image shows "a brown dog" if one of its captions has "brown" and "dog", or "dogs". Captions
leave things out, so that some images called wrong are not, and "a dog beside a man in a brown hat" has both words too;
the first is commoner, so that a probability fitted to them is rather too low than too high.
"""

from collections.abc import Sequence

import numpy as np

from smlstm.pair.calibration import Relevant
from smlstm.text import tokenise
from smlstm.text.forms import one_or_many
from smlstm.text.function_words import is_function_word
from smlstm.text.word_groups import named_things, phrase_forms


def short_sentences(
    captions: Sequence[str], image_of: Sequence[int], images: int, most: int, seed: int = 0
) -> tuple[list[str], Relevant]:
    """Noun phrases of captions, with and without articles, and their nouns alone; which images show each (images, N).

    At most so many, drawn from all that differ.
    """
    said: list[list[set[str]]] = [[] for _ in range(images)]
    found: dict[str, None] = {}
    for caption, image in zip(captions, image_of, strict=True):
        words = tokenise(caption)
        said[image].append(set(words))
        for span in named_things(words):
            found.update(dict.fromkeys(phrase_forms(words[span.first : span.last])))
    texts = [text for text in found if not all(map(is_function_word, text.split()))]
    drawn = np.sort(np.random.default_rng(seed).permutation(len(texts))[:most])
    texts = [texts[place] for place in drawn]
    relevant = np.zeros((images, len(texts)), np.bool_)
    for column, text in enumerate(texts):
        wanted = [one_or_many(word) for word in text.split() if not is_function_word(word)]
        for image, sentences in enumerate(said):
            relevant[image, column] = any(all(not each.isdisjoint(words) for each in wanted) for words in sentences)
    return texts, relevant
