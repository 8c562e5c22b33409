// What a user does: open the printed link, deploy, look, cordon, scale, read logs, edit.

import { check, until, WAIT } from "./harness.mjs";
import { BINDING, cluster, CORDONED, DEPLOYMENT, DETAIL, member, MEMBERS, MERGE, replicasIn, taints } from "./nginx.mjs";
import { canary } from "./shop.mjs";

/** Opens the link that `flotilla up` printed. */
export async function signIn(visitor, link) {
  const page = await visitor.enter();
  // The page asks who is signed in before it uses the link.
  visitor.expect([401, /^\/console\/api\/session$/]);
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
  await page.locator("select[aria-label='Start from an example'] option", { hasText: "Deployment" }).waitFor({ state: "attached" });
  await page.waitForFunction(() => document.querySelector(".cm-content"));
  await page.getByLabel("Start from an example").selectOption("divided");
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

/** Scales, reads logs, uses a terminal and a port, cordons, simulates a loss, meets a conflict in the editor. */
export async function operate(visitor) {
  // A save of an object that was changed meanwhile.
  visitor.expect([409, /\/deployments\/nginx$/]);
  // The control plane writes the status of a cluster at any time; the page then tries again.
  visitor.tolerate(409, /\/clusters\/member1$/);
  await scale(visitor);
  await pods(visitor);
  await cordon(visitor);
  await simulate(visitor);
  await editConflict(visitor);
}

/** Scales from two to three replicas in each member; the members have them. */
async function scale(visitor) {
  const { page } = visitor;
  await visitor.go("/settings");
  await visitor.api("PATCH", DEPLOYMENT, { spec: { replicas: 6 } }, MERGE);
  const divided = (count) => (binding) => MEMBERS.every((name) => replicasIn(binding, name) === count);
  await until(visitor, BINDING, divided(2), "two replicas in each member");
  await visitor.go(`${DETAIL}?tab=summary`);
  const inMember = (name) => page.locator(".stack.tight", { has: page.getByRole("link", { name }) });
  await inMember("member1").getByText("/ 2").first().waitFor();
  await page.getByRole("button", { name: "Scale" }).click();
  await page.getByLabel("Total replicas in all clusters").fill("9");
  await page.getByRole("dialog").getByRole("button", { name: "Scale" }).click();
  for (const name of MEMBERS) await inMember(name).getByText("/ 3").first().waitFor();
  await until(visitor, BINDING, divided(3), "three replicas in each member");
  for (const name of MEMBERS) await until(visitor, member(name, DEPLOYMENT), ({ spec, status }) => spec?.replicas === 3 && status?.readyReplicas === 3, `three pods are ready in ${name}`);
}

/** Logs, a terminal and a port of a pod. */
async function pods(visitor) {
  const { page } = visitor;
  await visitor.go(`${DETAIL}?tab=pods`);
  const row = page.getByRole("row", { name: /nginx-.*member2/ }).first();
  const button = row.getByRole("button", { name: /^Logs of nginx/ });
  const pod = (await button.getAttribute("aria-label")).replace("Logs of ", "");
  const log = member("member2", `/api/v1/namespaces/default/pods/${pod}/log`);
  await button.click();
  const shown = await page.getByRole("log").locator(".log-line").first().innerText();
  const { body: written } = await visitor.api("GET", log);
  const first = String(written).split("\n")[0];
  check(first.length > 0 && shown.includes(first), `the log of ${pod} begins with ${first}, not ${shown}`);
  await visitor.shoot("journey-logs");
  await row.getByRole("button", { name: /Terminal in nginx/ }).click();
  await page.getByText("Connected to container nginx").waitFor();
  await page.locator(".xterm-screen").click();
  await page.keyboard.type("echo a$((40+2))b\n");
  await page.locator(".xterm-rows", { hasText: "a42b" }).waitFor();
  await visitor.shoot("journey-terminal");
  // Escape belongs to the shell.
  await page.getByRole("dialog").getByRole("button", { name: "Close" }).click();
  await row.getByRole("button", { name: /Ports of nginx/ }).click();
  await page.getByLabel("Port", { exact: true }).fill("80");
  await page.getByRole("button", { name: "Send" }).click();
  await page.getByRole("region", { name: "Answer" }).getByText(/^200 /).waitFor();
  await visitor.shoot("journey-port");
  await visitor.axe("port of a pod");
  await page.keyboard.press("Escape");
}

/** Cordons a cluster and takes it back; the cluster has the taint meanwhile. */
async function cordon(visitor) {
  const { page } = visitor;
  const isCordoned = (wanted) => (one) => taints(one).includes(CORDONED) === wanted;
  await visitor.go("/clusters");
  const state = page.getByRole("row", { name: /member1/ }).getByText("Cordoned");
  await page.getByRole("button", { name: "Actions for member1" }).click();
  await page.getByRole("menuitem", { name: "Cordon" }).click();
  await state.waitFor();
  await until(visitor, cluster("member1"), isCordoned(true), "member1 has the taint");
  await visitor.shoot("journey-cordoned");
  await page.getByRole("button", { name: "Actions for member1" }).click();
  await page.getByRole("menuitem", { name: "Uncordon" }).click();
  await state.waitFor({ state: "detached" });
  await until(visitor, cluster("member1"), isCordoned(false), "member1 lost the taint");
}

/** The page says where the replicas of a lost cluster go, as the control plane does; nothing moves. */
async function simulate(visitor) {
  const { page } = visitor;
  const before = (await visitor.api("GET", BINDING)).body.spec.clusters;
  await visitor.go("/failover");
  await page.getByRole("button", { name: "member2" }).click();
  const row = page.getByRole("row", { name: /^nginx/ });
  await row.waitFor();
  const { body } = await visitor.api("GET", "/flotilla/v1alpha1/failover?cluster=member2");
  const { verdict, to = [] } = body.bindings.find(({ subject }) => subject.kind === "Deployment" && subject.name === "nginx");
  check(verdict === "Moves" && to.reduce((sum, one) => sum + one.replicas, 0) === 3, `the three replicas move: ${verdict} ${JSON.stringify(to)}`);
  await row.getByText("moves", { exact: true }).waitFor();
  await row.getByText(to.map((one) => `${one.name} +${one.replicas}`).join(", "), { exact: true }).waitFor();
  const after = (await visitor.api("GET", BINDING)).body.spec.clusters;
  check(JSON.stringify(after) === JSON.stringify(before), `the simulation moved something: ${JSON.stringify(after)}`);
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
  await page.locator(".cm-tooltip", { hasText: "unknown field spec.replica; did you mean replicas?" }).waitFor();
  await visitor.shoot("editor-checked");
  await page.mouse.move(5, 5);
  await page.locator(".cm-lintRange-error", { hasText: "7" }).hover();
  await page.locator(".cm-tooltip", { hasText: "must be a string" }).waitFor();
  await page.mouse.move(5, 5);
  await page.locator(".cm-content").click();
  await page.keyboard.press("Control+End");
  await page.keyboard.type("        imagePull");
  await page.locator(".cm-tooltip-autocomplete li", { hasText: "imagePullPolicy" }).click();
  await page.locator(".cm-content", { hasText: "imagePullPolicy: " }).waitFor();
  await page.evaluate(() => sessionStorage.clear());
}

/** A failed save keeps the text, shows the difference and changes nothing. */
async function editConflict(visitor) {
  const { page } = visitor;
  await visitor.go(`${DETAIL}?tab=yaml`);
  await page.getByRole("button", { name: "Edit" }).click();
  const editor = page.locator(".cm-content");
  await editor.waitFor();
  const meanwhile = await visitor.api("PATCH", DEPLOYMENT, { metadata: { labels: { changed: "meanwhile" } } }, MERGE);
  await editor.click();
  await page.keyboard.press("Control+Home");
  await page.keyboard.type("# mine\n");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("alert").getByText(/modified/).waitFor();
  await page.locator(".cm-merge-a", { hasText: "changed: meanwhile" }).waitFor();
  await page.locator(".cm-merge-b", { hasText: "# mine" }).waitFor();
  check((await page.locator(".cm-content").last().textContent())?.includes("# mine"), "the text is kept after the conflict");
  const { body } = await visitor.api("GET", DEPLOYMENT);
  check(body.metadata.generation === meanwhile.body.metadata.generation && body.metadata.labels.changed === "meanwhile", `the refused text was saved: ${JSON.stringify(body.metadata)}`);
}
