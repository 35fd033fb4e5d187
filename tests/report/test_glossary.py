"""Terms of a page are explained on hover and below it."""

from aib.figures.table import Table
from aib.report.blocks import Section, blocks, render
from aib.report.glossary import meaning
from tests.helpers import HtmlPage


def test_terms_that_a_page_uses_are_explained_and_no_others():
    table = blocks.table(Table("Maps", ("run", "AUROC"), (("one", "0.9"),)))
    cards = blocks.cards([("3%", "calibration error")])
    text = render("page", [Section("Maps", "maps", [table, cards])])
    assert "terms" in HtmlPage(text).ids
    below = text.partition('id="terms"')[2]
    assert "<dt>AUROC</dt>" in below and "<dt>calibration error</dt>" in below
    assert "<dt>ROAD</dt>" not in below
    assert f'title="{meaning("AUROC")}">AUROC</th>' in text and '<th scope="col">run</th>' in text
