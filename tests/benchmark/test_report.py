"""The report as a file: nothing from outside, nothing unescaped, and every task in it."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from tests.sample_report import sample_table, write_sample
from tests.synthetic_episodes import RULES, episode

from trimtab.benchmark.dag_scheduling.report import dag_facts, dag_sections
from trimtab.benchmark.report import Measured, ReportColumn, ReportRow, ReportTable
from trimtab.benchmark.report.content import GanttSection
from trimtab.benchmark.report.packing import pack, unpack
from trimtab.benchmark.report.table_html import table_html
from trimtab.benchmark.report.wording import headline, number, percent
from trimtab.core.errors import TrimtabError
from trimtab.core.statistics import Estimate
from trimtab.dag_scheduling.episode import Episode

NAN = float("nan")
EVIL = "<script>alert('&\"')</script>"


class Elements(HTMLParser):
    """Every start tag with its attributes, and the text of the page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.found)


@pytest.fixture(scope="module")
def episodes() -> list[Episode]:
    return [episode(policy) for policy in RULES]


@pytest.fixture(scope="module")
def page(episodes: list[Episode], tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_sample(path, episodes)
    return path.read_text(encoding="utf-8")


def embedded(page: str) -> dict:
    found = re.search(r'<script type="application/json" id="report-data">(.*?)</script>', page)
    assert found is not None
    return json.loads(found[1])


def test_the_page_names_no_address_and_loads_nothing(page: str) -> None:
    assert not re.search(r"https?://|//[a-z]+\.[a-z]", page)
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest|import\(|WebSocket", page)
    for tag, attributes in Elements(page).found:
        assert "src" not in attributes, tag
        href = attributes.get("href")
        assert href is None or href.startswith(("#", "data:")), href
    assert "default-src 'none'" in page


def test_the_page_holds_table_charts_notes_command_and_provenance(page: str) -> None:
    elements = Elements(page)
    text = " ".join(elements.text)
    assert "Rules on made-up jobs" in text
    assert "Every policy saw the same jobs." in text
    assert "trimtab compare made-up --seed 0" in text
    assert "made up" in text
    canvases = [a for tag, a in elements.found if tag == "canvas" and "data-policy" in a]
    assert [canvas["data-policy"] for canvas in canvases] == list(RULES)
    assert {canvas["data-tasks"] for canvas in canvases} == {"304"}
    assert "{{" not in page
    assert re.search(r'id="comparison-caption">[^<]+[^.]\. Lower is better', page)


def test_the_button_that_says_what_it_does_is_not_said_to_be_pressed(page: str) -> None:
    """Its words change with the theme; beside them a state that never changes would often be wrong."""
    (button,) = [has for tag, has in Elements(page).found if tag == "button" and has.get("id") == "theme"]
    assert "aria-pressed" not in button


def test_names_cannot_become_markup(tmp_path: Path) -> None:
    evil = [
        replace(episode(policy, name=lambda job: f"{EVIL} {job}"), policy=f"{policy} {EVIL}")
        for policy in ("fair", "fifo")
    ]
    path = tmp_path / "report.html"
    write_sample(path, evil)
    text = path.read_text(encoding="utf-8")
    plain = tmp_path / "plain.html"
    write_sample(plain, [episode("fair"), episode("fifo")])
    assert EVIL not in text
    assert "alert('&" not in text
    for tag in ("script", "canvas", "button", "tr"):
        assert Elements(text).count(tag) == Elements(plain.read_text(encoding="utf-8")).count(tag)
    gantt = embedded(text)["sections"][2]
    assert gantt["jobs"][3] == f"{EVIL} 3"
    assert gantt["panels"][0]["policy"] == f"fair {EVIL}"


def test_names_that_are_no_text_do_not_cost_the_report(tmp_path: Path) -> None:
    """A path with a byte that is no UTF-8 comes from the command line as half a character."""
    path = tmp_path / "report.html"
    write_sample(path, [replace(episode("fair"), policy="web\udce9 Zürich")])
    text = path.read_text(encoding="utf-8")
    assert 'data-policy="web? Zürich"' in text
    assert [one["name"] for one in embedded(text)["policies"]] == ["web? Zürich"]


def test_embedded_tasks_decode_to_the_same_numbers(page: str, episodes: list[Episode]) -> None:
    panels = embedded(page)["sections"][2]["panels"]
    for panel, shown in zip(panels, episodes, strict=True):
        log = shown.tasks
        assert log is not None
        start, length, job, stage, wave = (
            unpack(panel[name]) for name in ("start", "duration", "job", "stage", "wave")
        )
        executor = np.repeat(np.arange(shown.executor_count), unpack(panel["tasksInRow"]))
        embedded_tasks = np.stack([executor, start, start + length, job, stage, wave])
        order = np.lexsort((log.start_ms, log.executor))
        columns = (log.executor, log.start_ms, log.end_ms, log.job, log.stage, log.wave)
        np.testing.assert_array_equal(embedded_tasks, np.stack([c[order] for c in columns]))
        np.testing.assert_array_equal(unpack(panel["completion"]), shown.completion_ms)


def test_curves_hold_the_completion_times(page: str, episodes: list[Episode]) -> None:
    curves = embedded(page)["sections"][0]["curves"]
    for curve, shown in zip(curves, episodes, strict=True):
        np.testing.assert_array_equal(unpack(curve["x"])[1:], np.sort(shown.jct_ms))
        np.testing.assert_allclose(unpack(curve["y"])[[0, -1]], [0, 1])
        np.testing.assert_array_equal(unpack(curve["jobX"]), shown.jct_ms)


def test_six_policies_of_20_000_tasks_stay_below_3_megabytes(tmp_path: Path) -> None:
    three = [episode(policy, jobs=20, executors=50, tasks=20_000, gap_ms=12_000) for policy in RULES]
    six = three + [replace(shown, policy=f"{shown.policy} again") for shown in three]
    path = tmp_path / "report.html"
    write_sample(path, six)
    assert path.stat().st_size < 3_000_000


def test_a_long_run_is_cut_at_one_moment_for_all_and_says_so(
    episodes: list[Episode],
) -> None:
    gantt = dag_sections(episodes, most_tasks=100)[2]
    assert isinstance(gantt, GanttSection)
    assert "left out" in gantt.text
    # Whoever starts tasks fastest has 100 before the cut, and those that start at the same moment.
    assert 100 < max(len(panel.job) for panel in gantt.panels) <= 100 + 8
    assert max(int(panel.start_ms.max()) for panel in gantt.panels) <= gantt.end_ms


def test_episodes_of_different_jobs_are_refused() -> None:
    with pytest.raises(TrimtabError, match="fair and fifo are of different jobs"):
        dag_sections([episode("fair", gap_ms=2000), episode("fifo", gap_ms=3000)])


def test_without_task_logs_there_is_no_gantt_chart(episodes: list[Episode]) -> None:
    sections = dag_sections([replace(shown, tasks=None) for shown in episodes])
    assert [section.key for section in sections] == ["completion-times", "jobs-in-system"]
    assert dag_sections([]) == []
    assert dag_facts([]) == {}


def test_many_seeds_are_told_in_short() -> None:
    many = [replace(episode("fair"), seed=seed) for seed in range(10)]
    assert dag_facts(many)["Seeds"] == "10 from 0 to 9"
    assert dag_facts(many)["Policies"] == "1"


# --- packing ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("numbers", "kind"),
    [
        ([0, 255], "uint8"),
        ([256], "uint16"),
        ([65_536], "int32"),
        ([-1], "int32"),
        ([0.5], "float32"),
    ],
)
def test_the_smallest_type_that_holds_the_numbers(numbers: list[float], kind: str) -> None:
    packed = pack(np.array(numbers))
    assert packed["type"] == kind
    assert unpack(packed).tolist() == numbers


def test_an_empty_array_survives() -> None:
    assert unpack(pack(np.zeros(0, np.int64))).tolist() == []


def test_weeks_in_milliseconds_are_kept_exactly_and_more_is_refused() -> None:
    assert unpack(pack(np.array([2**31, 2**53]))).tolist() == [2**31, 2**53]
    with pytest.raises(TrimtabError, match="2\\^53"):
        pack(np.array([2**53 + 1]))


# --- table and words --------------------------------------------------------------------------

JCT = (ReportColumn("jct", "Mean completion time", "s"),)


def table(*rows: ReportRow, reference: str = "") -> ReportTable:
    return ReportTable(JCT, rows, reference=reference)


def test_headline_names_the_best_and_its_paired_change() -> None:
    fair = ReportRow("fair", [Measured(100, 95, 105)])
    srpt = ReportRow("srpt", [Measured(75, 70, 80)], change=Measured(-0.25, -0.3, -0.2))
    assert headline(table(fair, srpt, reference="fair")) == (
        "srpt has the lowest mean completion time: 75.0 s (95 % interval 70.0 to 80.0 s). "
        "That is 25 % lower than fair on the same workloads (95 % interval 20 % to 30 %)."
    )


def test_headline_does_not_claim_what_the_interval_leaves_open() -> None:
    fair = ReportRow("fair", [Measured(100, 95, 105)])
    srpt = ReportRow("srpt", [Measured(99, 90, 108)], change=Measured(-0.01, -0.05, 0.03))
    told = headline(table(fair, srpt, reference="fair"))
    assert told.endswith(
        "Against fair the change is \N{MINUS SIGN}1 % "
        "(95 % interval \N{MINUS SIGN}5 % to +3 %), which may be chance."
    )


def test_headline_of_policies_that_did_the_same() -> None:
    fair = ReportRow("fair", [Measured(100, 95, 105)])
    twin = ReportRow("twin", [Measured(100, 95, 105)], change=Measured(0, 0, 0))
    told = headline(table(fair, twin, reference="fair"))
    assert told.endswith("On every workload fair did just as well.")
    assert "chance" not in told


def test_headline_without_a_reference_names_the_runner_up() -> None:
    told = headline(
        table(
            ReportRow("a", [Measured(10, 9, 11)]),
            ReportRow("b", [Measured(30, 29, 31)]),
            ReportRow("c", [Measured(11.5, 10.5, 12)]),
        )
    )
    assert "Next comes c with 11.50 s" in told
    assert told.endswith("The two intervals overlap.")


def test_headline_when_the_reference_itself_is_best() -> None:
    fair = ReportRow("fair", [Measured(100, 95, 105)])
    fifo = ReportRow("fifo", [Measured(150, 140, 160)], change=Measured(0.5, 0.4, 0.6))
    assert headline(table(fair, fifo, reference="fair")).endswith(
        "Next comes fifo with 150.0 s (95 % interval 140.0 to 160.0 s). "
        "That is 50 % higher than fair on the same workloads (95 % interval 40 % to 60 %)."
    )


def test_headline_of_one_policy_and_of_none() -> None:
    assert headline(table(ReportRow("a", [Measured(10, 10, 10)]))) == (
        "a has a mean completion time of 10.00 s."
    )
    assert headline(table(ReportRow("a", [None]))) == "Nothing was measured."


def test_higher_can_be_better() -> None:
    columns = (ReportColumn("u", "Utilisation", "%", lower_is_better=False),)
    rows = (ReportRow("a", [Measured(0.5, 0.5, 0.5)]), ReportRow("b", [Measured(0.9, 0.9, 0.9)]))
    assert headline(ReportTable(columns, rows)).startswith("b has the highest utilisation: 90.0 %.")


@pytest.mark.parametrize("lower_is_better", [True, False])
def test_what_is_no_number_is_not_measured(lower_is_better: bool) -> None:
    unknown = ReportRow("a", [Measured(NAN, NAN, NAN)], change=Measured(NAN, NAN, NAN))
    known = [ReportRow(name, [Measured(value, value, value)]) for name, value in (("b", 2.0), ("c", 1.0))]
    column = (ReportColumn("jct", "Mean completion time", "s", lower_is_better=lower_is_better),)
    for rows in ([unknown, *known], [*known, unknown]):
        shown = ReportTable(column, rows, reference="b")
        best = shown.best(0)
        assert best is not None and shown.rows[best].policy == ("c" if lower_is_better else "b")
        assert "nan" not in table_html(shown, "abc") + headline(shown)
    assert headline(table(unknown)) == "Nothing was measured."


def test_an_estimate_fits_the_table() -> None:
    assert table(ReportRow("a", [Estimate(1.0, 0.9, 1.1)])).best(0) == 0


def test_a_table_with_missing_values_is_refused() -> None:
    with pytest.raises(TrimtabError, match="policy a has 2 values for 1 columns"):
        table(ReportRow("a", [None, None]))
    with pytest.raises(TrimtabError, match="at least one column"):
        table()


def test_the_best_of_each_column_is_marked_once(page: str, episodes: list[Episode]) -> None:
    assert page.count("best-mark") - page.count(".best-mark") == 4
    best = min(episodes, key=lambda shown: shown.metrics()["mean_jct_s"])
    assert headline(sample_table(episodes)).startswith(f"{best.policy} has the lowest")


def test_equal_numbers_share_the_mark() -> None:
    rows = [ReportRow(name, [Measured(1.604, 1, 2)]) for name in ("a", "b")]
    tied = table(*rows, ReportRow("c", [Measured(9, 8, 10)]))
    assert table_html(tied, ["a", "b", "c"]).count("best-mark") == 2
    assert "best-mark" not in table_html(table(*rows), ["a", "b"])


def test_numbers_are_told_in_three_or_four_digits() -> None:
    assert [number(value, "s") for value in (0.123, 12.34, 123.4, -1234.5)] == [
        *("0.123 s", "12.34 s", "123.4 s", "\N{MINUS SIGN}1,234 s"),
    ]
    assert [percent(0.25), percent(-0.002), percent(0)] == ["25 %", "\N{MINUS SIGN}0.2 %", "0 %"]
