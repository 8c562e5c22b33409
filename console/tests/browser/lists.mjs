// Lists of thousands of real objects: the server sorts, filters and pages them, and one stream keeps them current.

import { check } from "./harness.mjs";

const COUNT = Number(process.env.CONSOLE_ROWS ?? 1500);
const name = (index) => `row-${String(index).padStart(5, "0")}`;

async function create(visitor) {
  const created = await visitor.page.evaluate(async (count) => {
    const headers = { "X-Flotilla-Console": "1", "Content-Type": "application/json" };
    await fetch("/api/v1/namespaces", { method: "POST", headers, body: JSON.stringify({ metadata: { name: "many" } }) });
    let next = 0;
    const codes = {};
    const worker = async () => {
      while (next < count) {
        const index = next++;
        const body = JSON.stringify({ metadata: { name: `row-${String(index).padStart(5, "0")}`, labels: { parity: index % 2 ? "odd" : "even" } }, data: { a: "b" } });
        const { status } = await fetch("/api/v1/namespaces/many/configmaps", { method: "POST", headers, body });
        codes[status] = (codes[status] ?? 0) + 1;
      }
    };
    await Promise.all(Array.from({ length: 24 }, worker));
    return codes;
  }, COUNT);
  check((created[201] ?? 0) + (created[409] ?? 0) === COUNT, `${COUNT} objects were not created: ${JSON.stringify(created)}`);
}

export async function realRows(visitor) {
  const { page } = visitor;
  await visitor.go("/settings");
  await visitor.api("DELETE", "/api/v1/namespaces/many/configmaps/zz-live");
  await create(visitor);
  await page.evaluate(() => localStorage.setItem("flotilla-console", JSON.stringify({ namespace: "many", language: "en" })));
  const requests = [];
  page.on("request", (request) => requests.push(new URL(request.url())));
  const started = Date.now();
  await visitor.go("/resources/core~v1~configmaps");
  await page.getByText(name(0)).waitFor();
  console.log(`  first rows of ${COUNT} after ${Date.now() - started} ms`);
  check((await page.locator(".table .line").count()) < 80, "only visible rows are drawn");
  await visitor.shoot("configmaps-many");
  await visitor.axe("configmaps many");
  // The end is one jump away: what is between is not loaded.
  const table = page.getByRole("table");
  await table.evaluate((element) => element.scrollTo(0, element.scrollHeight));
  await page.getByText(name(COUNT - 1)).waitFor();
  const windows = requests.filter((url) => url.pathname.endsWith("/v1alpha1/rows"));
  check(windows.length <= 6, `${windows.length} windows were loaded`);
  check(!requests.some((url) => url.pathname.endsWith("/configmaps") && !url.searchParams.has("watch")), "the whole list was loaded");
  // The server sorts and filters.
  await table.evaluate((element) => element.scrollTo(0, 0));
  const byName = page.getByRole("columnheader").first().getByRole("button");
  await byName.click();
  await page.waitForURL(/sort=name/);
  await byName.click();
  await page.getByRole("row", { name: name(COUNT - 1) }).waitFor();
  check(requests.some((url) => url.searchParams.get("sort") === "-name"), "the server got the order");
  await page.getByRole("searchbox", { name: "Filter" }).fill("row-0012");
  await page.getByText(/^10 of [\d,]+ match$/).waitFor();
  // The stream adds what another client creates, also to a filtered list.
  await page.getByRole("searchbox", { name: "Filter" }).fill("zz-");
  await page.getByText("No row matches the filter").waitFor();
  await visitor.api("POST", "/api/v1/namespaces/many/configmaps", { metadata: { name: "zz-live" } });
  await page.getByRole("row", { name: /zz-live/ }).waitFor();
  await visitor.api("DELETE", "/api/v1/namespaces/many/configmaps/zz-live");
  await page.getByText("No row matches the filter").waitFor();
  await page.evaluate(() => localStorage.removeItem("flotilla-console"));
  await refusals(visitor);
}

/** Requests for rows have the rights of their caller, and wrong ones are refused with the reason. */
async function refusals(visitor) {
  const rows = "/flotilla/v1alpha1/rows";
  const cases = [
    [`${rows}?version=v1`, 400, "needs version, resource"],
    [`${rows}?version=v1&resource=configmaps&limit=5000`, 400, "limit must be a number from 0 to 1000"],
    [`${rows}?version=v1&resource=configmaps&sort=size`, 400, "not \"size\""],
    [`${rows}?version=v1&resource=secrets&includeObject=Object`, 400, "includeObject must be None or Metadata"],
    [`${rows}?version=v1&resource=nothings`, 404, "cannot be sorted"],
  ];
  for (const [path, code, text] of cases) {
    const answer = await visitor.api("GET", path);
    check(answer.code === code && answer.body.message.includes(text), `${path}: ${JSON.stringify(answer)}`);
  }
}
