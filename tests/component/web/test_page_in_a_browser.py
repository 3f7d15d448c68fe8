"""What a person sees and does on the page."""

import re

from playwright.sync_api import Page, expect

from gputopo_web.server.run import ServedPage
from support.api.server import ApiServer
from support.cli.healthy_cluster import pod, uuids
from support.web.browser import LONGEST_MS
from support.web.clusters import placed_pod


def letters(page: Page, node: str) -> list[str]:
    return page.locator(f"#node-{node} .gpu text").all_text_contents()


def test_the_map_shows_the_gpus_of_each_pod(page: Page) -> None:
    expect(page.locator("#node-n1 .gpu.used")).to_have_count(3)
    assert letters(page, "n1") == ["A", "A", "A"]
    titles = page.locator("#node-n1 .gpu.used title").all_text_contents()
    assert [title.partition(":")[0] for title in titles] == ["GPU 0", "GPU 2", "GPU 3"]
    assert all("default/train" in title for title in titles)
    expect(page.locator("#node-n1 .gpu.free")).to_have_count(5)


def test_a_click_on_a_gpu_opens_the_pod_and_escape_closes_it(page: Page) -> None:
    page.locator("#node-n1 .gpu.used").first.click()
    panel = page.get_by_role("dialog")
    expect(panel).to_contain_text("Pod default/train")
    expect(panel.locator("svg")).to_be_visible()
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()


def test_the_panel_of_a_placed_pod_shows_the_figures_of_its_placement(page: Page) -> None:
    page.get_by_role("link", name="default/figures", exact=True).first.click()
    panel = page.get_by_role("dialog")
    expect(panel).to_contain_text("57.857 GB/s, model eq2")
    panel.get_by_role("link", name="n2").first.click()
    expect(panel).to_contain_text("Node n2")
    expect(panel.locator("svg a")).to_have_count(3)


def test_a_waiting_pod_is_shown_with_the_reason(page: Page) -> None:
    row = page.get_by_role("row").filter(has_text="default/waits")
    expect(row).to_contain_text("0/2 nodes are available")


def test_search_shows_only_matching_nodes_and_jobs_and_is_part_of_the_address(page: Page) -> None:
    page.get_by_label("Search nodes").fill("serve")
    expect(page.locator(".node")).to_have_count(1)
    expect(page.locator("#node-n2")).to_be_visible()
    expect(page.locator("#jobs tbody tr")).to_have_count(1)
    assert "q=serve" in page.url
    page.get_by_label("Search nodes").fill("no such thing")
    expect(page.locator("#map")).to_contain_text("No node matches the search.")
    page.locator("#state").select_option("unhealthy")
    expect(page).to_have_url(re.compile("state=unhealthy"))


def test_the_page_is_usable_with_the_keyboard_alone(page: Page) -> None:
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the content")).to_be_focused()
    first = page.locator("#map .node-name").first
    second = page.locator("#map .node-name").nth(1)
    page.locator("#state").focus()
    for _ in range(4):
        page.keyboard.press("Tab")
        if first.evaluate("it => it === document.activeElement"):
            break
    expect(first).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(second).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(second).to_be_focused()
    page.keyboard.press("Home")
    expect(first).to_be_focused()
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    expect(page.get_by_role("button", name="Close")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_hidden()
    expect(second).to_be_focused()


def test_a_new_pod_appears_without_a_reload(page: Page, api: ApiServer) -> None:
    page.evaluate("window.sameDocument = true")
    api.create("pods", placed_pod("new", "n1", uuids("n1", 4, 5)))
    expect(page.locator("#node-n1 .gpu.starting, #node-n1 .gpu.differs")).to_have_count(2)
    expect(page.locator("#jobs")).to_contain_text("default/new")
    expect(page.locator("#history")).to_contain_text("default/new")
    api.delete("pods", "new")
    expect(page.locator("#node-n1 .gpu.free")).to_have_count(5)
    expect(page.locator("#jobs")).not_to_contain_text("default/new")
    expect(page.locator("#history tbody tr").first).to_contain_text("ended")
    assert page.evaluate("window.sameDocument")


def test_a_focused_node_keeps_the_focus_when_it_is_updated(page: Page, api: ApiServer) -> None:
    node = page.locator("#node-n1 .node-name")
    node.focus()
    api.create("pods", placed_pod("new", "n1", uuids("n1", 4, 5)))
    expect(page.locator("#node-n1 .gpu.free")).to_have_count(3)
    expect(node).to_be_focused()


def test_nodes_appear_and_disappear_without_a_reload(page: Page, api: ApiServer) -> None:
    api.delete("gputopologies", "n1")
    expect(page.locator("#node-n1")).to_have_count(0)


def test_hostile_names_run_no_script_and_break_no_element(page: Page, api: ApiServer) -> None:
    hostile = '<img src=x onerror="window.broken=1"><script>window.broken=1</script>'
    bad = pod("bad", "n1", uuids("n1", 6))
    bad["metadata"]["labels"] = {"gputopo.io/job": hostile}
    bad["metadata"]["annotations"]["gputopo.io/placement"] = hostile
    api.create("pods", bad)
    expect(page.locator("#jobs")).to_contain_text("window.broken=1")
    page.get_by_role("link", name="default/bad").first.click()
    expect(page.get_by_role("dialog")).to_contain_text("Pod default/bad")
    assert page.evaluate("window.broken") is None
    assert page.locator("img[src=x]").count() == 0


def test_the_policy_blocks_inline_scripts(page: Page, browser_errors: list[str]) -> None:
    blocked = page.evaluate(
        """() => new Promise((resolve) => {
          document.addEventListener("securitypolicyviolation",
            (it) => resolve(it.effectiveDirective), { once: true });
          const script = document.createElement("script");
          script.textContent = "window.inline = 1";
          document.body.append(script);
        })"""
    )
    assert blocked.startswith("script-src")
    assert page.evaluate("window.inline") is None
    assert "Content Security Policy" in browser_errors.pop()


def test_nothing_is_written_to_the_cluster(page: Page, api: ApiServer) -> None:
    page.get_by_role("link", name="default/figures", exact=True).first.click()
    expect(page.get_by_role("dialog")).to_be_visible()
    assert api.writes == []
    assert {method for method, _ in api.requests} == {"GET"}


def test_every_control_has_a_name_and_every_heading_its_level(page: Page) -> None:
    found = page.evaluate(
        """() => {
          const name = (it) => it.getAttribute("aria-label") || it.textContent.trim() || it.title
            || (it.labels && it.labels.length && it.labels[0].textContent.trim()) || it.alt;
          const unnamed = [...document.querySelectorAll("a[href], button, input, select, img")]
            .filter((it) => !it.closest("[aria-hidden=true]") && it.type !== "hidden" && !name(it));
          const ids = [...document.querySelectorAll("[id]")].map((it) => it.id);
          const refers = [...document.querySelectorAll("[aria-labelledby]")]
            .map((it) => it.getAttribute("aria-labelledby")).filter((id) => id !== "panel-title");
          const levels = [...document.querySelectorAll("h1,h2,h3,h4")].map((it) => +it.tagName[1]);
          return {
            unnamed: unnamed.map((it) => it.outerHTML),
            repeated: ids.filter((id, at) => ids.indexOf(id) !== at),
            missing: refers.filter((id) => !document.getElementById(id)),
            skipped: levels.filter((level, at) => at && level > levels[at - 1] + 1),
            language: document.documentElement.lang,
            focusableHidden: document.querySelectorAll(
              "[aria-hidden=true] a:not([tabindex='-1'])").length,
          };
        }"""
    )
    assert found == {
        "unnamed": [],
        "repeated": [],
        "missing": [],
        "skipped": [],
        "language": "en",
        "focusableHidden": 0,
    }


def contrast(page: Page, selector: str, scheme: str) -> float:
    """Return the contrast of the text of an element (WCAG 2)."""
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    inks, backs = page.evaluate(
        """(selector) => {
          const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
          const it = document.querySelector(selector);
          let back = it;
          while (back && numbers(getComputedStyle(back).backgroundColor)[3] === 0) {
            back = back.parentElement;
          }
          return [numbers(getComputedStyle(it).color),
                  numbers(getComputedStyle(back).backgroundColor)];
        }""",
        selector,
    )

    def luminance(colour: list[float]) -> float:
        parts = [value / 255 for value in colour[:3]]
        linear = [it / 12.92 if it <= 0.04045 else ((it + 0.055) / 1.055) ** 2.4 for it in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, light = sorted((luminance(inks), luminance(backs)))
    return (light + 0.05) / (dark + 0.05)


def test_texts_have_enough_contrast_in_light_and_dark_colours(page: Page) -> None:
    selectors = (".counts", ".node-name", ".legend li", "#jobs th a", ".numbers dt", "td small")
    for scheme in ("light", "dark"):
        for selector in selectors:
            assert contrast(page, selector, scheme) >= 4.5, (scheme, selector)


def test_the_page_works_without_javascript(page: Page, served: ServedPage) -> None:
    browser = page.context.browser
    assert browser is not None
    with browser.new_context(java_script_enabled=False) as context:
        context.set_default_timeout(LONGEST_MS)
        plain = context.new_page()
        plain.goto(f"{served.url}?q=train")
        expect(plain.locator("#node-n1 .gpu.used")).to_have_count(3)
        plain.locator("#jobs").get_by_role("link", name="default/train").click()
        expect(plain).to_have_url(re.compile("/pod/default/train$"))
        expect(plain.get_by_role("heading", level=2)).to_have_text("Pod default/train")


def test_the_result_of_a_what_if_form_appears_below_it(page: Page) -> None:
    page.get_by_label("GPUs", exact=True).fill("3")
    page.get_by_label("Pattern").select_option("Ring")
    page.get_by_label("Only node").fill("n1")
    page.get_by_role("button", name="Show").click()
    result = page.locator("#what-if-result")
    expect(result).to_contain_text("The pod would get GPUs")
    expect(result.locator("svg")).to_be_visible()
    page.get_by_label("Only node").fill("n9")
    page.get_by_role("button", name="Show").click()
    expect(result).to_contain_text("the cluster has no node of this name")


def test_the_form_begins_with_the_values_of_a_pod_without_annotations(page: Page) -> None:
    expect(page.get_by_label("Bandwidth sensitivity")).to_have_value("Auto")
    expect(page.get_by_label("Pattern")).to_have_value("Ring")
    options = page.get_by_label("Bandwidth sensitivity").locator("option").all_text_contents()
    assert options == ["Sensitive", "Insensitive", "Auto"]


def test_the_selected_state_of_nodes_stays_selected_after_a_reload(page: Page) -> None:
    page.locator("#state").select_option("unhealthy")
    expect(page).to_have_url(re.compile("state=unhealthy"))
    page.reload()
    expect(page.locator("#state")).to_have_value("unhealthy")


def test_a_click_without_a_server_shows_what_to_do(
    page: Page, served: ServedPage, browser_errors: list[str]
) -> None:
    served.stop()
    expect(page.locator("#connection")).to_have_text("not connected; trying again")
    page.get_by_role("link", name="default/figures", exact=True).first.click()
    expect(page.get_by_role("dialog")).to_contain_text("start it again")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("#what-if-result")).to_contain_text("start it again")
    assert all("ERR_" in error for error in browser_errors)
    browser_errors.clear()


def test_a_click_on_a_waiting_pod_explains_each_node(page: Page) -> None:
    page.get_by_role("link", name="default/waits", exact=True).first.click()
    panel = page.get_by_role("dialog")
    expect(panel).to_contain_text("Why it waits")
    expect(panel).to_contain_text("Which pods would have to end")
