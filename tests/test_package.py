"""What `import smlstm` gives: three names, without the seconds that torch takes."""

import pydoc
import re
import subprocess
import sys
from pathlib import Path

import smlstm
from smlstm.matching.batch import ImageFeatures
from smlstm.matching.matcher import Matcher
from smlstm.search import Library

NAMES = {"ImageFeatures": ImageFeatures, "Library": Library, "Matcher": Matcher}


def test_the_names_are_listed_and_lead_to_the_classes():
    assert set(smlstm.__all__) == set(NAMES) <= set(dir(smlstm))
    for name, what in NAMES.items():
        assert getattr(smlstm, name) is what


def test_help_describes_them():
    text = pydoc.plain(pydoc.render_doc(smlstm))
    for name in NAMES:
        assert f"class {name}(" in text


def test_import_takes_no_torch():
    code = "import sys, smlstm; dir(smlstm); print('torch' in sys.modules, 'numpy' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.split() == ["False", "False"]


def test_the_citation_names_this_version():
    text = (Path(__file__).parents[1] / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (.*)$", text, re.MULTILINE) == [smlstm.__version__]
