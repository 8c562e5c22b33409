// What a user does: open the printed link, deploy, look, cordon, scale; once more by keyboard only.

import { check, WAIT } from "./harness.mjs";
import { canary } from "./shop.mjs";

/** Opens the link that `flotilla up` printed. */
export async function signIn(visitor, link) {
  const page = await visitor.enter();
  const started = Date.now();
  await page.goto(link);
  // While the page is developed, a token signs in more than once.
  if (process.env.CONSOLE_TOKEN) {
    await page.getByLabel("Token or kubeconfig").fill(process.env.CONSOLE_TOKEN);
    await page.getByRole("button", { name: "Sign in" }).click();
  }
  await page.getByRole("heading", { name: "Overview", level: 1 }).waitFor();
  console.log(`  first page after ${Date.now() - started} ms`);
  check(!page.url().includes("ticket"), `the ticket stays in the address: ${page.url()}`);
  const cookie = (await visitor.context.cookies()).find((one) => one.name.startsWith("__Host-flotilla-session"));
  check(cookie?.httpOnly && cookie.secure && cookie.sameSite === "Strict" && cookie.path === "/", `cookie ${JSON.stringify(cookie)}`);
  const stored = await page.evaluate(() => JSON.stringify([localStorage, sessionStorage]));
  check(!stored.includes(cookie.value) && !stored.includes("eyJ"), `the storage of the browser has a credential: ${stored}`);
}

/** Deploys nginx with a policy through plan and apply, and waits until it is ready in three members. */
export async function deploy(visitor) {
  const { page } = visitor;
  await visitor.go("/settings");
  for (const path of ["/apis/apps/v1/namespaces/default/deployments", "/apis/policy.karmada.io/v1alpha1/namespaces/default/propagationpolicies"]) await visitor.api("DELETE", `${path}/nginx`);
  await visitor.go("/apply");
  await page.locator("select[aria-label='Begin with an example'] option", { hasText: "Deployment" }).waitFor({ state: "attached" });
  await page.waitForFunction(() => document.querySelector(".cm-content"));
  await page.getByLabel("Begin with an example").selectOption("divided");
  await page.locator(".cm-content", { hasText: "clusterNames: [member1, member2, member3]" }).waitFor();
  await page.getByRole("button", { name: "Plan", exact: true }).click();
  await page.getByRole("cell", { name: "member3", exact: true }).waitFor();
  check((await page.getByText("create", { exact: true }).count()) === 3, "the plan creates it in three clusters");
  await visitor.shoot("journey-plan");
  await visitor.axe("plan");
  await page.getByRole("button", { name: "Apply", exact: true }).click();
  await page.getByText("applied", { exact: true }).nth(1).waitFor();
  await page.getByRole("link", { name: "nginx" }).last().click();
  await page.getByRole("heading", { name: "nginx", level: 1 }).waitFor();
  await page.getByRole("tab", { name: "Summary" }).click();
  for (const member of ["member1", "member2", "member3"]) {
    await page.locator(".stack.tight", { has: page.getByRole("link", { name: member }) }).getByText("Healthy").first().waitFor({ timeout: WAIT * 1.5 });
  }
  await page.getByRole("tab", { name: "Why" }).click();
  await page.getByRole("heading", { name: /It runs as it should/ }).waitFor({ timeout: WAIT });
  check((await page.locator(".graph .node").count()) === 10, "the graph has four stages, three works and three members");
  await canary(visitor);
}

/** Scales, cordons, simulates a loss, reads logs, reveals a secret, meets a conflict in the editor. */
export async function operate(visitor) {
  const { page } = visitor;
  const detail = "/workloads/apps~v1~deployments/default/nginx";
  await visitor.go("/settings");
  await visitor.api("PATCH", "/apis/apps/v1/namespaces/default/deployments/nginx", { spec: { replicas: 6 } }, "application/merge-patch+json");
  await visitor.go(`${detail}?tab=summary`);
  await page.getByRole("button", { name: "Scale" }).click();
  await page.getByLabel("Replicas over all clusters").fill("9");
  await page.getByRole("dialog").getByRole("button", { name: "Scale" }).click();
  await page.locator(".stack.tight", { has: page.getByRole("link", { name: "member1" }) }).getByText("/ 3").first().waitFor();
  await visitor.go(`${detail}?tab=pods`);
  await page.getByRole("button", { name: /Logs of nginx/ }).first().click();
  await page.getByRole("log").locator(".log-line").first().waitFor();
  await visitor.shoot("journey-logs");
  await page.getByRole("button", { name: /Terminal in nginx/ }).first().click();
  await page.getByText("Connected to container nginx").waitFor();
  await page.locator(".xterm-screen").click();
  await page.keyboard.type("echo a$((40+2))b\n");
  await page.locator(".xterm-rows", { hasText: "a42b" }).waitFor();
  await visitor.shoot("journey-terminal");
  // Escape belongs to the shell.
  await page.getByRole("dialog").getByRole("button", { name: "Close" }).click();
  await page.getByRole("button", { name: /Ports of nginx/ }).first().click();
  await page.getByLabel("Port", { exact: true }).fill("80");
  await page.getByRole("button", { name: "Send" }).click();
  await page.getByRole("region", { name: "Answer" }).getByText(/^200 /).waitFor();
  await visitor.shoot("journey-port");
  await visitor.axe("port of a pod");
  await page.keyboard.press("Escape");
  await visitor.go("/clusters");
  await page.getByRole("button", { name: "Actions for member1" }).click();
  await page.getByRole("menuitem", { name: "Cordon" }).click();
  await page.getByRole("row", { name: /member1/ }).getByText("Cordoned").waitFor();
  await visitor.shoot("journey-cordoned");
  await page.getByRole("button", { name: "Actions for member1" }).click();
  await page.getByRole("menuitem", { name: "Uncordon" }).click();
  await page.getByRole("row", { name: /member1/ }).getByText("Cordoned").waitFor({ state: "detached" });
  await visitor.go("/failover");
  await page.getByRole("button", { name: "member2" }).click();
  await page.getByRole("link", { name: "nginx" }).waitFor();
  await visitor.go("/resources/core~v1~secrets/default/canary");
  await page.getByText("••••••••").waitFor();
  check(!(await page.content()).includes("canary-7f3a"), "the secret is hidden at first");
  await page.getByRole("button", { name: "Reveal password" }).click();
  await page.getByText("canary-7f3a").waitFor();
  await editConflict(visitor, detail);
}

/** The editor completes and checks with the OpenAPI documents of the control plane. */
export async function checkedEditor(visitor) {
  const { page } = visitor;
  const draft = ["apiVersion: apps/v1", "kind: Deployment", "metadata:", "  name: typo", "spec:", "  replica: 2", "  template:", "    spec:", "      containers:", "      - name: a", "        image: 7", ""].join("\n");
  await visitor.go("/settings");
  await page.evaluate((text) => sessionStorage.setItem("flotilla-console-draft", text), draft);
  await visitor.go("/apply");
  await page.locator(".cm-lintRange-error").first().waitFor();
  await page.locator(".cm-lintRange-error", { hasText: "replica" }).hover();
  await page.locator(".cm-tooltip", { hasText: "spec.replica is not a field; replicas is" }).waitFor();
  await visitor.shoot("editor-checked");
  await page.mouse.move(5, 5);
  await page.locator(".cm-lintRange-error", { hasText: "7" }).hover();
  await page.locator(".cm-tooltip", { hasText: "must be a text" }).waitFor();
  await page.mouse.move(5, 5);
  await page.locator(".cm-content").click();
  await page.keyboard.press("Control+End");
  await page.keyboard.type("        imagePull");
  await page.locator(".cm-tooltip-autocomplete li", { hasText: "imagePullPolicy" }).click();
  await page.locator(".cm-content", { hasText: "imagePullPolicy: " }).waitFor();
  await page.evaluate(() => sessionStorage.clear());
}

/** A failed save keeps the text and shows the difference. */
async function editConflict(visitor, detail) {
  const { page } = visitor;
  await visitor.go(`${detail}?tab=yaml`);
  await page.getByRole("button", { name: "Edit" }).click();
  const editor = page.locator(".cm-content");
  await editor.waitFor();
  await visitor.api("PATCH", "/apis/apps/v1/namespaces/default/deployments/nginx", { metadata: { labels: { changed: "meanwhile" } } }, "application/merge-patch+json");
  await editor.click();
  await page.keyboard.press("Control+Home");
  await page.keyboard.type("# mine\n");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("alert").getByText(/modified/).waitFor();
  check((await page.locator(".cm-content").last().textContent())?.includes("# mine"), "the text is kept after the conflict");
}

/** One journey without the mouse. */
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
  await page.keyboard.press("Tab");
  for (let tabs = 0; tabs < 20 && !(await page.evaluate(() => document.activeElement?.getAttribute("role") === "row")); tabs++) await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "member2", level: 1 }).waitFor();
  await page.keyboard.press("Control+k");
  await page.keyboard.type("nginx");
  await page.getByRole("option", { name: /nginx.*Deployment/ }).waitFor();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "nginx", level: 1 }).waitFor();
  await page.getByRole("tab", { selected: true }).focus();
  await page.keyboard.press("ArrowRight");
  await page.getByRole("tab", { name: "Why", selected: true }).waitFor();
  await page.locator(".graph .node").first().focus();
  await page.keyboard.press("Enter");
  await page.keyboard.press("Shift+?");
  await page.getByRole("dialog").getByText("Filter the list").waitFor();
  await visitor.axe("shortcuts");
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
}
