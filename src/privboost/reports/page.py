"""Privacy reports as pages."""

from __future__ import annotations

from html import escape

from privboost.reports.report import PrivacyReport, round_up

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem;
       color: #1a1a1a; background: #fff; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.05rem; margin-top: 1.6rem; }
.statement { font-size: 1.25rem; padding: .8rem 1rem; border-left: .4rem solid #2a6f4e;
             background: #eef6f1; }
.none { border-color: #b3261e; background: #fbeceb; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #ddd;
         vertical-align: top; }
td.number { text-align: right; white-space: nowrap; }
code { overflow-wrap: anywhere; }
"""


def privacy_page(report: PrivacyReport) -> str:
    """Return a privacy report as an HTML page that stands alone."""
    facts = _public_facts(report) if report.public_rows else _facts(report)
    kind = "statement none" if report.seeded or report.public_rows else "statement"
    rows = "".join(f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in facts.items())
    releases = "".join(
        f'<tr><td class="number">{release.count}</td><td>{escape(release.what)}</td>'
        f"<td>{escape(release.mechanism)}</td></tr>"
        for release in report.releases
    )
    assumptions = "".join(f"<li>{escape(text)}</li>" for text in report.assumptions)
    parameters = ", ".join(f"{name} = {value}" for name, value in report.parameters.items())
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Privacy report</title>
<style>{_STYLE}</style></head><body>
<h1>Privacy report</h1>
<p class="{kind}">{escape(report.guarantee)}</p>
<table>{rows}</table>
<h2>What was released</h2>
<table><tr><th>times</th><th>release</th><th>with</th></tr>{releases}</table>
<h2>What was assumed</h2>
<ul>{assumptions}</ul>
<h2>How it was made</h2>
<p>{escape(report.software)}; {escape(parameters)}</p>
<p>Plan: <code>sha256 {escape(report.plan)}</code></p>
</body></html>
"""


def _public_facts(report: PrivacyReport) -> dict[str, str]:
    """Say why there are no numbers."""
    return {
        "epsilon": "infinite",
        "protected unit": report.protects,
        "noise": "none",
        "rows": "declared public by the caller; if they are not, this model leaks them",
    }


def _facts(report: PrivacyReport) -> dict[str, str]:
    """List the numbers of a guarantee, and what they are about."""
    facts = {
        "epsilon": round_up(report.epsilon),
        "delta": round_up(report.delta),
        "neighbours": report.relation,
        "protected unit": report.protects,
        "accountant": report.accountant,
        "epsilon by each accountant": ", ".join(
            f"{name} {round_up(epsilon)}" for name, epsilon in report.alternatives.items()
        ),
        "discretisation slack (part of epsilon)": f"{report.slack:.2g}",
        "noise": "from a seed" if report.seeded else "from the operating system's generator",
    }
    if report.parts:
        facts["sum of"] = "; ".join(
            f"({round_up(part.epsilon)}, {round_up(part.delta)}) for {part.what}"
            for part in report.parts
        )
    return facts
