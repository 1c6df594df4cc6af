import hashlib
import json
import math
import re
from contextlib import suppress
from dataclasses import replace
from datetime import date
from html.parser import HTMLParser

import numpy as np
import pytest
from markdown_it import MarkdownIt

import privboost
from privboost import (
    Domain,
    Evaluation,
    OrdinalFeature,
    PrivacyReport,
    PrivBoostClassifier,
    SBDTClassifier,
    load_model,
    model_card,
)
from privboost._core.checks import listed
from privboost.accounting.composition import ORDERS, Curve
from privboost.data.encoding import Encoder
from privboost.evaluation.model_card import domain_section
from privboost.models.model import model_bytes
from privboost.models.trees import conditions
from privboost.reports.document import escape_markdown
from tests.evaluation.conftest import NASTY
from tests.forgery import ODD, _places
from tests.tables import NUMBER, SURVIVAL, make_domain, make_frame

EMPTY = {"meta", "rect", "path", "circle", "polyline"}
MARKDOWN = {"h1", "h2", "p", "em", "strong", "blockquote", "ul", "li"}
MARKDOWN |= {"table", "thead", "tbody", "tr", "th", "td"}
RUN_TOGETHER = ["a, b", "a", "b", "may be missing; c", '"d"', ""]
ESTIMATORS = [n for n in privboost.__all__ if n.endswith(("Classifier", "Regressor", "Survival"))]


class Outline(HTMLParser):
    """What a page is made of; refuses tags that do not match."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.texts = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes), tuple(self.open)))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes), tuple(self.open)))

    def handle_endtag(self, tag):
        if tag not in EMPTY:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    def all(self, tag):
        return [attributes for name, attributes, _ in self.tags if name == tag]


def fit(name, **more):
    known = {"Regressor": NUMBER, "Survival": SURVIVAL}
    target = next(({"target": own} for end, own in known.items() if name.endswith(end)), {})
    kind = getattr(privboost, name)
    parameters = {"delta": 0.0} if name.startswith("Sarus") else {"delta": 1e-6}
    model = kind(1.0, domain=make_domain(**target), n_estimators=3, **parameters | more)
    return model.fit(make_frame(60, **target))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_recipe_has_a_card(name, tmp_path):
    model = fit(name)
    report, path = model.privacy_, tmp_path / "m"
    model.save(path)
    shares = [release.share for release in report.releases]
    assert math.fsum(shares) == pytest.approx(1)
    card = model_card(path, name="A name")
    page, words = Outline(card.to_html()), card.to_markdown()
    for said in (
        name,
        report.guarantee,
        report.plan,
        hashlib.sha256(path.read_bytes()).hexdigest(),
    ):
        assert any(said in text for text in page.texts)
        assert escape_markdown(said) in words
    assert load_model(path).privacy == report
    assert model_card(model, name="A name").to_html() == card.to_html()
    assert model_card(load_model(path), name="A name").to_html() == card.to_html()
    for release in report.releases:
        assert any(f"{release.what}: {release.mechanism}" == text for text in page.texts)


def test_a_page_stands_alone_and_is_open_to_all(nasty_model, evaluated):
    text = model_card(nasty_model[0], name="A name", evaluations=[evaluated]).to_html()
    page = Outline(text)
    assert not {tag for tag, *_ in page.tags} & {"script", "link", "img", "iframe", "a", "object"}
    named = {name for _, attributes, _ in page.tags for name in attributes}
    assert not named & {"src", "href", "style", "onload", "onclick"}
    assert not re.search(r"url\(|@import|@font-face", "".join(page.texts[:2]))
    assert page.all("html") == [{"lang": "en"}]
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in page.all(
        "meta"
    )
    assert len(page.all("h1")) == 1
    assert len(page.all("caption")) == len(page.all("table")) > 8
    assert all("scope" in attributes for attributes in page.all("th"))
    drawn = [each for each in page.all("svg") if "aria-hidden" not in each]
    assert len(drawn) == 2
    assert all(each["role"] == "img" and each["aria-label"] for each in drawn)
    for rule in ("@media print", "max-width: 30rem"):
        assert rule in text


def test_no_address_is_in_a_page():
    text = model_card(fit("PrivBoostClassifier"), name="A name").to_html()
    assert not re.search(r"//|\bwww\.|@(?!media)", text)


def test_words_of_others_stay_words(nasty_model, evaluated):
    card = model_card(nasty_model[0], name=NASTY, evaluations=[evaluated])
    text = card.to_html()
    assert "<script" not in text
    assert sum(NASTY in words for words in Outline(text).texts) >= 5
    shown = MarkdownIt("gfm-like", {"html": True, "linkify": False}).render(card.to_markdown())
    seen = Outline(shown)
    tags = {tag for tag, *_ in seen.tags}
    assert tags <= MARKDOWN
    assert sum(NASTY in words for words in seen.texts) >= 5
    assert not re.search(r"(?i)(?<!\\)@|[a-z]://|www\.", card.to_markdown())


@pytest.mark.parametrize(
    "text",
    ["- a", "1. a", "# a", "> a", "+ a", "=== a", "a\\", "|", "&amp;", "<b>", "a_b_c", "~~a~~"],
)
def test_markdown_takes_no_sign_for_its_own(text):
    shown = MarkdownIt("gfm-like", {"linkify": False}).render(escape_markdown(text))
    page = Outline(shown)
    assert [tag for tag, *_ in page.tags] == ["p"]
    assert "".join(page.texts).strip() == text


def test_tables_of_markdown_have_their_shape(nasty_model, evaluated):
    card = model_card(nasty_model[0], name="A name", evaluations=[evaluated])
    text = card.to_markdown()
    tables = re.findall(r"(?:^\|.*\|\n)+", text, flags=re.MULTILINE)
    shown = MarkdownIt("gfm-like", {"linkify": False}).render(text)
    assert len(tables) == shown.count("<table>") == card.to_html().count("<table") + 1  # the bar
    for table in tables:
        lines = table.splitlines()
        assert re.fullmatch(r"(\| (---:?) )+\|", lines[1])
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in lines}
        assert len(widths) == 1


def test_a_seed_is_said_in_red():
    secure, seeded = fit("PrivBoostClassifier"), fit("PrivBoostClassifier", random_state=1)
    for model, alarms in ((secure, 0), (seeded, 1)):
        for card in (model_card(model).to_html(), model.privacy_.to_html()):
            page = Outline(card)
            assert len([1 for each in page.all("p") if each.get("class") == "warning"]) == alarms
            promised = [1 for each in page.all("p") if each.get("class") == "guarantee"]
            assert len(promised) == 1 - alarms
            assert re.search(r"\.warning \{[^}]*color: #8c1d18", card)
        for words in (model_card(model).to_markdown(), model.privacy_.to_markdown()):
            assert words.count("NO PRIVACY GUARANTEE") == alarms


def test_public_rows_are_said_in_red():
    model = PrivBoostClassifier(
        math.inf, domain=make_domain(), public_rows=True, n_estimators=2
    ).fit(make_frame(40))
    card = model_card(model)
    page = Outline(card.to_html())
    assert [each for each in page.all("p") if each.get("class") == "warning"]
    assert "is right at most" not in card.to_html()
    assert "differential privacy" not in card.to_markdown()


def test_the_promise_names_who_is_protected(nasty_model):
    assert "rows of one particular person were" in model_card(nasty_model[0]).to_html()
    assert "whether one particular row was" in fit("PrivBoostClassifier").privacy_.to_html()
    assert "which of two rows was" in fit("LazyBBClassifier").privacy_.to_html()
    assert "is right at most 54.8 times in 100" in fit("SBDTClassifier").privacy_.to_markdown()


def test_accountants_stand_side_by_side():
    text = fit("DPXGBClassifier").privacy_.to_markdown()
    section = text.split("## Comparison of accountants")[1].split("##")[0]
    rows = [line.split(" | ") for line in section.splitlines() if line.startswith("| ")][2:]
    cells = {row[0].removeprefix("| "): row[1] for row in rows}
    assert list(cells) == ["gdp", "game (used)", "pld", "rdp", "pure", "advanced"]
    assert float(cells["game (used)"]) <= 1 < float(cells["rdp"])
    assert cells["gdp"] == cells["pld"] == cells["pure"] == "n/a"


def test_evaluations_come_with_their_price(nasty_model, evaluated, tmp_path):
    model = nasty_model[0]
    evaluated.to_json(tmp_path / "e.json")
    again = Evaluation.from_json(tmp_path / "e.json")
    assert again == evaluated
    words = model_card(model, evaluations=[again]).to_markdown()
    section = words.split("## Evaluations")[1].split("\n## ")[0]
    together = model.privacy_ + evaluated.privacy
    for said in (evaluated.privacy.guarantee, together.guarantee, str(evaluated["auc"])):
        assert escape_markdown(said) in section
    assert "missing" in section  # a group
    two = model_card(model, evaluations=[again, replace(again, target="another")]).to_markdown()
    assert "Evaluation 2 of another" in two
    seeded = replace(again, privacy=replace(again.privacy, seeded=True))
    page = Outline(model_card(model, evaluations=[seeded]).to_html())
    assert [each for each in page.all("p") if each.get("class") == "warning"]


def test_what_is_no_evaluation_is_refused(evaluated, tmp_path):
    form = evaluated.to_dict()
    path = tmp_path / "e.json"
    odd = [[], {}, None, form | {"all": []}, form | {"privacy": {}}, form | {"target": "a\x1b"}]
    odd += [form | {"all": {"auc": {"value": "x", "std": 0}}}, form | {"groups": [{}]}]
    odd += [form | {"all": {"reliability": [{}]}}, form | {"groups": 3}]
    for each in odd:
        path.write_text(json.dumps(each))
        with pytest.raises(ValueError, match=r"holds no evaluation as JSON: write one"):
            Evaluation.from_json(path)
    path.write_bytes(b"\xff[")
    with pytest.raises(ValueError, match="holds no evaluation"):
        Evaluation.from_json(path)


def test_bad_arguments_are_refused(nasty_model):
    model = nasty_model[0]
    with pytest.raises(TypeError, match="model must be a fitted estimator"):
        model_card(3)
    with pytest.raises(ValueError, match="name must be a text"):
        model_card(model, name="a\x1b[2J")
    with pytest.raises(TypeError, match="evaluations must be a list of Evaluation"):
        model_card(model, evaluations=[{}])


def test_the_day_is_on_the_card_and_not_in_the_model(nasty_model):
    card = model_card(nasty_model[0], rendered=date(1999, 12, 31))
    assert "1999-12-31" in card.to_html()
    assert date.today().isoformat() in model_card(nasty_model[0]).to_markdown()
    assert date.today().isoformat().encode() not in model_bytes(nasty_model[0].model_)


def older(form):
    """A report as it was written before it had shares and a word for what spent it."""
    form = json.loads(json.dumps(form))
    for release in form["releases"]:
        release.pop("share", None)
    return {name: value for name, value in form.items() if name not in ("what", "share_of")}


def test_reports_of_older_forms_have_cards():
    report = fit("PrivBoostClassifier").privacy_
    form = older(report.to_dict())
    old = PrivacyReport.from_dict(form)
    assert old.to_dict() == form
    assert "Where the budget went" in report.to_html()
    assert "Where the budget went" not in old.to_html()
    first = {name: form[name] for name in form if name not in ("curve", "parts", "rows", "entry")}
    words = PrivacyReport.from_dict(first).to_markdown()
    assert "has no more than the one epsilon and delta" in words
    assert "is right at most 73.2 times in 100" in words  # by epsilon and delta alone
    for part in ("mu_squared", "grid", "extra_delta"):
        with pytest.raises(ValueError, match="curve: numbers of at least 0"):
            Curve.from_dict(report.curve.to_dict() | {part: 10**400})
    odd = {"what": "a", "count": 1, "mechanism": "b", "share": 2}
    with pytest.raises(ValueError, match="shares: not a value that a report can have"):
        PrivacyReport.from_dict(report.to_dict() | {"releases": [odd]})


@pytest.fixture(scope="module")
def report():
    return fit("SBDTClassifier").privacy_


@pytest.mark.parametrize("epsilon", [0.0, 1e-320, 1.0, 1e5, 1.7e308])
@pytest.mark.parametrize("mu_squared", [None, 1e-300, 1.0, 1e308])
def test_no_report_breaks_a_card(epsilon, mu_squared, report):
    """A report may hold any numbers; a file's are refused where they do not go together."""
    for rho, delta in ((1e-3, 0.0), (0.0, 0.0), (None, 0.99), (None, 1.0)):
        curve = Curve(mu_squared, 1.0, (rho,) * len(ORDERS), delta)
        forged = replace(report, epsilon=epsilon, curve=curve, releases=(), alternatives={})
        Outline(forged.to_html())
        forged.to_markdown()
        with suppress(ValueError):
            assert PrivacyReport.from_dict(forged.to_dict()) == forged


def test_no_forged_report_breaks_a_card(report):
    """One part of its form is anything: it is refused, or shown."""
    rng, read = np.random.default_rng(0), 0
    for _ in range(300):
        form = json.loads(report.to_json())
        places = list(_places(form))
        part, key = places[rng.integers(len(places))]
        part[key] = ODD[rng.integers(len(ODD))]
        try:
            forged = PrivacyReport.from_dict(form)
        except (ValueError, TypeError, KeyError, AttributeError):  # as `read_report` has it
            continue
        Outline(forged.to_html())
        forged.to_markdown()
        read += 1
    assert read > 30


def test_streams_and_sums_say_what_they_are(report):
    model = SBDTClassifier(1.0, 1e-6, make_domain(), n_estimators=2)
    for seed in (1, 2):
        model.partial_fit(make_frame(40, seed))
    stream = model.privacy_
    assert {release.share for release in stream.releases} == {None}
    assert "Where the budget went" not in model_card(model).to_html()
    both = report + report
    assert both.share_of == report.share_of
    assert math.fsum(release.share for release in both.releases) == pytest.approx(1)
    assert "Privacy report" in both.to_html()


def test_what_to_look_at_is_what_the_model_finds(nasty_model):
    model = nasty_model[0].model_
    found = [each.text for each in model.findings()]
    page = model_card(model).to_markdown()
    assert "## Findings" in page
    for sentence in found:
        assert escape_markdown(sentence) in page


def test_labels_are_told_apart_whatever_they_hold(nasty_model):
    """Read back what a card, a domain and a tree list: nothing runs together."""
    told = listed(RUN_TOGETHER)
    assert told == '"a, b", a, b, "may be missing; c", "\\"d\\"", ""'
    form = make_domain(NUMBER).to_dict()
    form["features"]["job"] = {"kind": "categorical", "categories": RUN_TOGETHER, "missing": True}
    form["target"] = {"name": "income", "classes": ["x, y", "z"]}
    domain = Domain.from_dict(form)
    section = domain_section(domain, nasty_model[0].privacy_)
    cells = {row[0]: row[1] for row in section.blocks[1].rows}
    assert cells["job"] == f"categorical; categories {told}; may be missing"
    assert '"x, y", z' in cells["income (target)"]
    assert 'the classes "x, y", z;' in domain.target.describe()
    encoder = Encoder.of(domain)
    job = domain.feature_names.index("job")
    turns = np.array([True, True, *[False] * 6])
    assert conditions(encoder, job, turns)[1] == 'job is one of: "a, b", a'
    ranks = OrdinalFeature("pain", ("< 3", "4"))
    assert ranks.range == '"< 3" < 4'
