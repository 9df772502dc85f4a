"""What two Markdown parsers make of a comment: GitHub's own (cmark-gfm), and one that reads tables in its own way."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

import cmarkgfm
from cmarkgfm.cmark import Options
from markdown_it import MarkdownIt

_CODE = ("code", "pre")
_VOID = ("hr", "br", "img", "input")


@dataclass
class Page(HTMLParser):
    """A page: its tags in their order, the text outside code with `·` where code is, and the texts of code."""

    tags: list[str] = field(default_factory=list)
    prose: str = ""
    codes: list[str] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)
    cells: list[str] = field(default_factory=list)
    unclosed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(" ".join([tag, *(f"{name}={value}" for name, value in attrs)]))
        if tag in _VOID:
            return
        self.unclosed.append(tag)
        if tag == "code":
            self.codes.append("")
            self.prose += "·"
        if tag == "td":
            self.cells.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in _VOID
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        self.tags.append(f"/{tag}")
        assert self.unclosed.pop() == tag

    def handle_data(self, data: str) -> None:
        if any(tag in _CODE for tag in self.unclosed):
            self.codes[-1] += data
        else:
            self.prose += data
        if "td" in self.unclosed:
            self.cells[-1] += data

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)


def pages(markdown: str) -> tuple[Page, Page]:
    """The page as each parser makes it, with everything on that a forge has on: HTML, tables, links from bare URLs."""
    options = Options.CMARK_OPT_UNSAFE | Options.CMARK_OPT_FOOTNOTES
    github = cmarkgfm.github_flavored_markdown_to_html(markdown, options)
    other = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(markdown)
    return _page(github), _page(other)


def _page(html: str) -> Page:
    page = Page()
    page.feed(html)
    page.close()
    assert not page.unclosed
    return page
