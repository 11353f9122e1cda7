"""The report as a page: one file, figures inside it, no scripts, nothing fetched, light or dark as wanted."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from smlstm.explain.html import render

if TYPE_CHECKING:
    from smlstm.reproduce.report import Section


def as_page(title: str, sections: "Sequence[Section]") -> str:
    """The whole report."""
    return render("reproduce/report.html.j2", title=title, sections=sections)
