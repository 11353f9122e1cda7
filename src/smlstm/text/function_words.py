"""Words that only hold a sentence together: nothing in a photo is called "the" or "with".

Articles and other determiners, pronouns, prepositions, conjunctions, auxiliary verbs, and the adverbs that go with
verbs as prepositions do. Counts ("two"), colours and verbs that name what is done are no function words, nor is "can",
which in a caption is mostly a thing. English only: of another language no word is known to be one.
"""

_WORDS = """
a an the this that these those some any each every both all another other others such same own
i me my mine myself you your yours yourself he him his himself she her hers herself it its itself
we us our ours ourselves they them their theirs themselves one's who whom whose which what there here
of in on at by to from with without into onto upon over under above below between among amongst through throughout
during before after behind beside besides beyond near along across around against toward towards about off out up down
inside outside within past per via next amid atop underneath beneath alongside aboard like as than for
and or but nor so yet if then while when where because since until till though although whether
am is are was were be been being has have had having does do did doing could will would shall should may might must
not no it's there's he's she's they're isn't aren't doesn't don't also too very just
"""

FUNCTION_WORDS = frozenset(_WORDS.split())


def is_function_word(word: str) -> bool:
    """Whether a word, as the tokeniser gives it, names nothing by itself.

    >>> [word for word in "a brown dog is running on the beach".split() if is_function_word(word)]
    ['a', 'is', 'on', 'the']
    """
    return word in FUNCTION_WORDS
