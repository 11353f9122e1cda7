from base64 import b64encode
from html.parser import HTMLParser

from smlstm.reproduce.figures import Figure
from smlstm.reproduce.html_report import as_page
from smlstm.reproduce.report import Section
from smlstm.reproduce.report_tables import Table


class Page(HTMLParser):
    def __init__(self, content: str) -> None:
        super().__init__()
        self.tags, self.words = [], []
        self.feed(content)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.words.append(data.strip())


def test_a_report_holds_all_it_was_given_as_text():
    rows = [["<script>x</script>", "1"], ["ours", "'2' & \"3\""]]
    table = Table("T <1>", ("a", "b"), rows, "a note", (("", 1), ("over", 1)), frozenset({1}))
    figure = Figure("f", 'told "so"', b"\x89PNG <>&")
    content = as_page("A & B", [Section("First", ["text <p>"], [table], [figure]), Section("Last", [], [], [])])
    page = Page(content)
    assert {"A & B", "text <p>", "T <1>", "a note", "<script>x</script>", "'2' & \"3\"", 'told "so"'} <= set(page.words)
    links = [attributes["href"] for tag, attributes in page.tags if tag == "a"]
    places = [f"#{attributes['id']}" for tag, attributes in page.tags if tag == "section"]
    assert links == places == ["#part0", "#part1"]
    assert [attributes for tag, attributes in page.tags if tag == "tr"][2:] == [{}, {"class": "strong"}]
    (picture,) = [attributes for tag, attributes in page.tags if tag == "img"]
    assert picture == {"alt": 'told "so"', "src": f"data:image/png;base64,{b64encode(figure.png).decode()}"}
    assert not any(tag in ("script", "link") for tag, _ in page.tags)
    assert "default-src 'none'" in content
