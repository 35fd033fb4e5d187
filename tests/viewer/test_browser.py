"""The page in a real browser: open, upload, move a slider, hide a block."""

import json
import shutil
from urllib.parse import urlsplit

import pytest

from tests.helpers import make_run, photo
from tests.viewer.fixtures import TIMEOUT, served

pytest.importorskip("gradio")
webdriver = pytest.importorskip("selenium.webdriver")

from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

pytestmark = pytest.mark.slow

FLAGS = """--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync
--disable-background-networking --disable-component-update --window-size=1400,1300"""


@pytest.fixture(scope="module")
def browser():
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("no browser here")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in FLAGS.split():
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    opened = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield opened
    opened.quit()


@pytest.fixture(scope="module")
def address(browser, tmp_path_factory):
    with served("--run", str(make_run(tmp_path_factory.mktemp("runs") / "qt"))) as url:
        yield url


@pytest.fixture
def page(browser, address):
    """The page with its first example. Afterwards the console must hold no error, and all requests
    must have gone to the page's own address."""
    seen = Page(browser, address)
    yield seen
    assert [line for line in browser.get_log("browser") if line["level"] == "SEVERE"] == []
    assert seen.hosts() == {urlsplit(address).netloc}


class Page:
    def __init__(self, browser, address):
        self.browser = browser
        browser.get_log("browser")
        browser.get_log("performance")
        browser.get(address)
        self.until(lambda: self.pictures("aib-picture") and self.pictures("aib-maps"))

    def until(self, condition):
        return WebDriverWait(self.browser, TIMEOUT).until(lambda _: condition())

    def text(self, part: str) -> str:
        return self.browser.find_element(By.ID, part).text

    def pictures(self, part: str, value: str = "src") -> list[str]:
        # in one call: Gradio may replace an element between two
        script = "return [...document.querySelectorAll(arguments[0])].map(i => i[arguments[1]])"
        return self.browser.execute_script(script, f"#{part} img", value)

    def send(self, path) -> None:
        box = self.browser.find_element(By.CSS_SELECTOR, "#aib-file input[type=file]")
        box.send_keys(str(path))

    def click_picture(self, right: float, down: float) -> None:
        """At an offset from its centre, in fractions of its size."""
        image = self.browser.find_element(By.CSS_SELECTOR, "#aib-picture img")
        self.browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", image)
        side = min(image.size.values())  # the frame may be wider than the picture in it
        moved = ActionChains(self.browser).move_to_element_with_offset(
            image, int(right * side), int(down * side)
        )
        moved.click().perform()

    def press(self, slider: str, *keys: str) -> None:
        handle = self.browser.find_element(By.CSS_SELECTOR, f"#{slider} input[type=range]")
        handle.send_keys(*keys)

    def hosts(self) -> set[str]:
        found = set()
        for line in self.browser.get_log("performance"):
            event = json.loads(line["message"])["message"]
            if event["method"] == "Network.requestWillBeSent":
                found.add(urlsplit(event["params"]["request"]["url"]).netloc)
        return found - {""}  # data: has none


def test_it_opens_with_an_example_and_explains_an_uploaded_picture(page, tmp_path):
    assert "%" in page.text("aib-decision") and "KL of the latent" in page.text("aib-details")
    assert len(page.pictures("aib-maps")) == 3
    assert "of 20 used" in page.pictures("aib-maps", "alt")[1]
    photo(90, 60).save(tmp_path / "holiday.png")
    before = page.pictures("aib-maps")
    page.send(tmp_path / "holiday.png")
    page.until(lambda: page.text("aib-picture") == "holiday.png")
    page.until(lambda: page.pictures("aib-maps") != before)
    page.until(lambda: "Drop File Here" in page.text("aib-file"))


def test_the_map_follows_the_slider(page):
    first = page.pictures("aib-maps")
    page.press("aib-opacity", Keys.HOME)
    page.until(lambda: page.pictures("aib-maps") != first)
    assert page.pictures("aib-maps")[1:] == first[1:]  # only the overlay has changed


def test_a_click_hides_a_block_and_the_button_gives_it_back(page):
    whole, maps = page.pictures("aib-picture"), page.pictures("aib-maps")
    details = page.text("aib-details")
    page.click_picture(-0.2, 0.1)
    page.until(lambda: "What the blocks change" in page.text("aib-change"))
    page.until(lambda: page.pictures("aib-picture") != whole)
    page.until(lambda: len(page.pictures("aib-change-maps")) == 3)
    assert page.pictures("aib-maps") != maps and page.text("aib-details") != details
    page.browser.find_element(By.ID, "aib-clear").click()
    page.until(lambda: page.pictures("aib-maps") == maps)
    page.until(lambda: page.text("aib-details") == details and page.text("aib-change") == "")
    assert page.pictures("aib-change-maps") == []
