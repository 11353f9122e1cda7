"""The report as a page: one file, figures inside it, no scripts, nothing fetched, light or dark as wanted."""

import html
from base64 import b64encode
from collections.abc import Sequence
from typing import TYPE_CHECKING

from smlstm.explain.html import whole_page
from smlstm.reproduce.figures import Figure
from smlstm.reproduce.report_tables import Table

if TYPE_CHECKING:
    from smlstm.reproduce.report import Section


def as_page(title: str, sections: "Sequence[Section]") -> str:
    """The whole report."""
    contents = "".join(
        f'<li><a href="#part{number}">{html.escape(section.title)}</a></li>' for number, section in enumerate(sections)
    )
    body = "".join(_section(number, section) for number, section in enumerate(sections))
    return whole_page(title, _STYLE, f"<nav><ul>{contents}</ul></nav>{body}")


def _section(number: int, section: "Section") -> str:
    texts = "".join(f"<p>{html.escape(text)}</p>" for text in section.texts)
    tables = "".join(_table(table) for table in section.tables)
    pictures = "".join(_figure(figure) for figure in section.figures)
    return f'<section id="part{number}"><h2>{html.escape(section.title)}</h2>{texts}{tables}{pictures}</section>'


def _table(table: Table) -> str:
    groups = "".join(
        f'<th colspan="{span}"{" scope=colgroup" if text else ""}>{html.escape(text)}</th>'
        for text, span in table.groups
    )
    heads = "".join(f'<th scope="col">{html.escape(column)}</th>' for column in table.columns)
    rows = []
    for number, (first, *others) in enumerate(table.rows):
        cells = "".join(f"<td>{html.escape(cell)}</td>" for cell in others)
        mark = ' class="strong"' if number in table.strong else ""
        rows.append(f'<tr{mark}><th scope="row">{html.escape(first)}</th>{cells}</tr>')
    note = f'<p class="note">{html.escape(table.note)}</p>' if table.note else ""
    return (
        f'<h3>{html.escape(table.title)}</h3>{note}<div class="wide"><table><thead>'
        f"{f'<tr>{groups}</tr>' if groups else ''}<tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _figure(figure: Figure) -> str:
    data = b64encode(figure.png).decode()
    told = html.escape(figure.told)
    return f'<figure><img alt="{told}" src="data:image/png;base64,{data}"><figcaption>{told}</figcaption></figure>'


_STYLE = """
:root { color-scheme: light dark; --ink: #1a1a1a; --pale: #595959; --paper: #fff; --rule: #d2d2d2; --row: #f1f5f8 }
@media (prefers-color-scheme: dark) {
  :root { --ink: #ececec; --pale: #b4b4b4; --paper: #16181b; --rule: #3c4046; --row: #22303a } }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif }
main { max-width: 84rem; margin: 0 auto; padding: 1.5rem }
h1 { font-size: 1.6rem } h2 { font-size: 1.25rem } h3 { font-size: 1rem; margin: 1.5rem 0 .25rem }
p { max-width: 52rem } a { color: inherit } .note, figcaption { color: var(--pale); font-size: .875rem }
section { border-top: 1px solid var(--rule); padding: .5rem 0 1rem }
.wide { overflow-x: auto } table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums }
th, td { padding: .25rem .625rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--rule) }
th:first-child { text-align: left } tbody th { font-weight: normal } thead th { vertical-align: bottom }
th[colspan]:not(:empty) { text-align: center; border-left: 1px solid var(--rule) }
tr.strong { background: var(--row) } tr.strong th { font-weight: bold }
figure { margin: 1rem 0 } img { max-width: 100%; height: auto; background: #fff }
@media print { figure, tr { break-inside: avoid } }
"""
