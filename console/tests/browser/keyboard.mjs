// One journey without the mouse: every element is reached with keys only, and a workload is scaled.

import { check, until } from "./harness.mjs";
import { BINDING, DEPLOYMENT, replicas } from "./nginx.mjs";

/** Elements of a page that Tab may pass. */
const TABS_MAX = 120;

/** Presses a key until the focus is on one of these elements. */
async function reach(page, wanted, key = "Tab") {
  for (let pressed = 0; pressed < TABS_MAX; pressed++) {
    await page.keyboard.press(key);
    if (await wanted.evaluateAll((all) => all.some((one) => one === document.activeElement))) return;
  }
  throw new Error(`${key} does not lead to ${wanted}`);
}

export async function keyboard(visitor) {
  const { page } = visitor;
  await visitor.go("/");
  await visitor.settle();
  await page.keyboard.press("g");
  await page.keyboard.press("c");
  await page.waitForURL(/\/clusters$/);
  await page.getByRole("row", { name: /member1/ }).waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("member2");
  await page.waitForURL(/q=member2/);
  await page.getByRole("row", { name: /member1/ }).waitFor({ state: "detached" });
  await reach(page, page.getByRole("row", { name: /member2/ }));
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "member2", level: 1 }).waitFor();
  await page.keyboard.press("Control+k");
  await page.keyboard.type("nginx");
  await page.getByRole("option", { name: /nginx.*Deployment/ }).waitFor();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "nginx", level: 1 }).waitFor();
  // Reasons come first until the workload is healthy.
  await page.getByRole("tab", { name: "Summary", selected: true }).waitFor();
  await scale(visitor);
  await reach(page, page.getByRole("tab", { selected: true }));
  await page.keyboard.press("ArrowRight");
  await page.getByRole("tab", { name: "Why", selected: true }).waitFor();
  await reach(page, page.locator(".graph .node"));
  await page.keyboard.press("Enter");
  await page.locator(".graph .node[data-chosen=true]").first().waitFor();
  await page.keyboard.press("Shift+?");
  await page.getByRole("dialog").getByText("Filter the list").waitFor();
  await visitor.axe("shortcuts");
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
}

/** One replica more than there are; the control plane has it and divides it among the clusters. */
async function scale(visitor) {
  const { page } = visitor;
  const { body: before } = await visitor.api("GET", DEPLOYMENT);
  const wanted = before.spec.replicas + 1;
  await reach(page, page.getByRole("button", { name: "Scale", exact: true }));
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog");
  await dialog.waitFor();
  const hasFocus = await dialog.getByLabel("Total replicas in all clusters").evaluate((one) => one === document.activeElement);
  check(hasFocus, "the dialog does not begin with its field");
  await page.keyboard.press("Control+a");
  await page.keyboard.type(String(wanted));
  await page.keyboard.press("Enter");
  await dialog.waitFor({ state: "detached" });
  await until(visitor, DEPLOYMENT, (one) => one.spec?.replicas === wanted, `nginx has ${wanted} replicas`);
  await until(visitor, BINDING, (one) => replicas(one) === wanted, `${wanted} replicas are assigned to clusters`);
}
