// The benchmark view: opens a report that `allfocus evaluate` wrote, inside this page.

import * as api from "./api.js";
import { byId, element } from "./elements.js";
import { attempt } from "./messages.js";
import { readableTime } from "./stacks.js";
import { phrase } from "./texts.js";

function frameFor(report) {
  // No sandbox: the report's pictures would count as another site's requests, which the server refuses.
  return element("iframe", { src: report.url, title: phrase("reports.title", { name: report.title ?? report.name }) });
}

function show(report, reports) {
  byId("report-frame").replaceChildren(frameFor(report));
  byId("report-open").href = report.url;
  byId("report-open").hidden = false;
  byId("report-list").replaceChildren(
    ...reports.map((other) =>
      element(
        "li",
        {},
        element(
          "button.report",
          { "aria-current": other === report ? "true" : null, onclick: () => show(other, reports) },
          element("strong", {}, other.title ?? other.name),
          element("small", {}, other.created ? readableTime(other.created) : ""),
        ),
      ),
    ),
  );
}

/** Lists the reports and opens the first. */
export async function openReports() {
  byId("report-frame").replaceChildren(element("p.hint", {}, phrase("reports.looking")));
  const reports = (await attempt(api.reports)) ?? [];
  if (reports.length) {
    show(reports[0], reports);
    return;
  }
  byId("report-open").hidden = true;
  byId("report-list").replaceChildren();
  byId("report-frame").replaceChildren(
    element(
      "div.empty",
      {},
      element("h2", {}, phrase("reports.none")),
      element("p", {}, phrase("reports.how")),
      element("pre.command", {}, "allfocus evaluate --dataset lytro --data DIR --method ips --method dsift -o reports/lytro\nallfocus serve --reports reports"),
    ),
  );
}
