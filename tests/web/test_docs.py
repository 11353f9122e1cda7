"""The programs in docs/web.md do what they say, against a real server."""

import re
import subprocess
import sys
from pathlib import Path

from smlstm.web.app import create_app
from tests.web.made import serving

PAGE = Path(__file__).parents[2] / "docs" / "web.md"


def test_the_programs_run(library, pictures, tmp_path):
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 2
    pictures[0].picture.save(tmp_path / "holiday.png")
    with serving(create_app(library)) as address:
        code = "\n".join(blocks).replace("http://127.0.0.1:8765", address)
        found = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    assert "words the model has not learned: ['dog', 'the', 'beach', 'person']" in found.stdout
    assert found.stdout.count("looks") == 3 and (tmp_path / "best.jpg").read_bytes()[:3] == b"\xff\xd8\xff"


def test_every_address_is_documented(client):
    text = PAGE.read_text(encoding="utf-8")
    for path in client.get("/api/v1/openapi.json").json()["paths"]:
        assert path.removeprefix("/api/v1").replace("{photo}", "ID").removeprefix("/photos/ID") in text
