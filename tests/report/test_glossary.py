"""Terms of a page are explained on hover and below it."""

from aib.figures.table import Table
from aib.report.blocks import Cards, Section, TableBlock, render
from aib.report.glossary import meaning
from tests.helpers import HtmlPage


def test_terms_that_a_page_uses_are_explained_and_no_others():
    table = TableBlock(Table("Maps", ("run", "AUROC"), (("one", "0.9"),)))
    text = render("page", [Section("Maps", "maps", [table, Cards([("3%", "calibration error")])])])
    assert "terms" in HtmlPage(text).ids
    below = text.partition('id="terms"')[2]
    assert "<dt>AUROC</dt>" in below and "<dt>calibration error</dt>" in below
    assert "<dt>ROAD</dt>" not in below
    assert f'title="{meaning("AUROC")}">AUROC</th>' in text and '<th scope="col">run</th>' in text


def test_a_page_without_terms_has_no_list_of_them():
    text = render("page", [Section("A", "a", [TableBlock(Table("T", ("run", "b"), ()))])])
    assert 'id="terms"' not in text
