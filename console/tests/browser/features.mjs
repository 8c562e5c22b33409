// What users do with single pages: differences in a plan, failover and the way back, conversion, command line, roles, audit.

import { check, until, Visitor, WAIT } from "./harness.mjs";
import { BINDING, cluster, CORDONED, DEPLOYMENT, member, MERGE, replicas, replicasIn, taints } from "./nginx.mjs";

/** The plan shows the object of a cluster before and after, as text. */
export async function planDifference(visitor) {
  const { page } = visitor;
  await visitor.go("/settings");
  const { body } = await visitor.api("GET", DEPLOYMENT);
  const { metadata, spec } = body;
  const changed = { apiVersion: "apps/v1", kind: "Deployment", metadata: { name: metadata.name, namespace: "default", labels: metadata.labels }, spec: { replicas: spec.replicas, selector: spec.selector, template: { ...spec.template, metadata: { labels: { ...spec.template.metadata.labels, tier: "changed-by-plan" } } } } };
  await page.evaluate((text) => sessionStorage.setItem("flotilla-console-draft", text), JSON.stringify(changed, undefined, 2));
  await visitor.go("/apply");
  await page.locator(".cm-content", { hasText: "changed-by-plan" }).waitFor();
  await page.getByRole("button", { name: "Plan", exact: true }).click();
  await page.getByRole("button", { name: "Difference in member2" }).click();
  await page.getByText("Now in member2").waitFor();
  await page.locator(".cm-merge-b", { hasText: "changed-by-plan" }).waitFor();
  check(!(await page.locator(".cm-merge-a").textContent())?.includes("changed-by-plan"), "the text before has the change");
  await visitor.shoot("plan-difference");
  await visitor.axe("plan difference");
  await page.evaluate(() => sessionStorage.clear());
}

/** Cordons a cluster, which moves nothing, evacuates it, watches its replicas move, and fails back. */
export async function failover(visitor) {
  const { page } = visitor;
  // The control plane writes the status of a cluster at any time; the page then tries again.
  visitor.tolerate(409, /\/clusters\/member2$/);
  await visitor.go("/failover?cluster=member2");
  const before = await until(visitor, BINDING, (one) => replicasIn(one, "member2") > 0, "nginx runs in member2");
  const total = before.spec.replicas;
  await page.getByRole("link", { name: "nginx" }).first().waitFor();
  await page.getByRole("button", { name: "Cordon", exact: true }).click();
  await page.getByRole("button", { name: "Uncordon", exact: true }).waitFor();
  await until(visitor, cluster("member2"), (one) => taints(one).includes(CORDONED), "member2 is cordoned");
  // A change that reaches the cluster after the taint: what it runs is still assigned to it.
  const template = { metadata: { annotations: { "console.test/after": "cordon" } } };
  await visitor.api("PATCH", DEPLOYMENT, { spec: { template } }, MERGE);
  const inMember = member("member2", DEPLOYMENT);
  const kept = await until(visitor, inMember, (one) => one.spec?.template.metadata.annotations?.["console.test/after"] === "cordon", "the change reaches member2");
  const cordoned = (await visitor.api("GET", BINDING)).body;
  check(replicasIn(cordoned, "member2") === replicasIn(before, "member2") && kept.spec.replicas === replicasIn(before, "member2"), `a cordoned cluster keeps what runs: ${JSON.stringify(cordoned.spec.clusters)}`);
  await page.getByRole("button", { name: "Evacuate…" }).click();
  await visitor.axe("evacuate");
  await page.getByRole("dialog").getByRole("button", { name: "Evacuate" }).click();
  await page.getByRole("button", { name: "Fail back" }).waitFor();
  const moved = await until(visitor, BINDING, (one) => replicasIn(one, "member2") === 0 && replicas(one) === total, "all replicas moved");
  check(moved.spec.clusters.length === 2, `it runs in the other two: ${JSON.stringify(moved.spec.clusters)}`);
  await until(visitor, BINDING, (one) => (one.spec?.gracefulEvictionTasks ?? []).length === 0, "the eviction ends");
  await until(visitor, inMember, (one) => one.code === 404, "nginx is gone from member2");
  for (const { name, replicas } of moved.spec.clusters) await until(visitor, member(name, DEPLOYMENT), (one) => one.status?.readyReplicas === replicas, `${replicas} pods are ready in ${name}`);
  await page.locator(".timeline", { hasText: "member2" }).filter({ hasText: "nginx" }).first().waitFor();
  await visitor.shoot("failover-done");
  await visitor.axe("failover");
  await page.getByRole("button", { name: "Uncordon", exact: true }).click();
  await page.getByRole("button", { name: "Cordon", exact: true }).waitFor();
  await page.getByRole("button", { name: "Fail back" }).click();
  await page.getByRole("button", { name: "Evacuate…" }).waitFor();
  await until(visitor, cluster("member2"), (one) => taints(one).length === 0, "member2 has no taint");
  const back = await until(visitor, BINDING, (one) => replicasIn(one, "member2") > 0 && replicas(one) === total, "nginx came back to member2");
  await until(visitor, inMember, (one) => one.status?.readyReplicas === replicasIn(back, "member2"), "its pods are ready in member2");
  await page.getByText("No evictions in progress").waitFor();
}

/** The control plane recorded the failover while no page was open, in milliseconds and with the rights of the reader. */
export async function timeline(visitor) {
  const { page } = visitor;
  await visitor.go("/workloads/apps~v1~deployments/default/nginx?tab=timeline");
  const recorded = page.locator(".card", { hasText: "Recorded by the control plane" });
  for (const text of ["member2: Eviction started", "member2: Eviction ended", "member2: Work removed", "member1: Applied", "Applied in all clusters"]) await recorded.getByText(text, { exact: true }).first().waitFor();
  check(/\+\d+ ms/.test(await recorded.innerText()), "steps have milliseconds");
  const query = "apiVersion=apps/v1&kind=Deployment&namespace=default&name=nginx";
  const { body } = await visitor.api("GET", `/flotilla/v1alpha1/timeline?${query}`);
  const times = body.steps.map((step) => step.time);
  check(times.every((time) => /\.\d{3}Z$/.test(time)) && [...times].sort().join() === times.join(), `times in order: ${times}`);
  const scheduled = body.steps.findIndex((step) => step.step === "Scheduled");
  const applied = body.steps.findIndex((step) => step.step === "Applied");
  check(scheduled >= 0 && scheduled < applied, `it is scheduled before it is applied: ${JSON.stringify(body.steps.slice(0, 12))}`);
  const missing = await visitor.api("GET", "/flotilla/v1alpha1/timeline?apiVersion=apps/v1&kind=Deployment&namespace=default&name=none");
  check(missing.code === 404, `a missing object: ${missing.code}`);
  const wrong = await visitor.api("GET", "/flotilla/v1alpha1/timeline?kind=Deployment");
  check(wrong.code === 400 && wrong.body.message.includes("needs apiVersion"), JSON.stringify(wrong));
}

/** Rights are taken away while a page is open: the next action is refused with the reason, other pages show it. */
export async function revokedRights(visitor) {
  await visitor.go("/settings");
  const name = "operator-for-now";
  const binding = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
  await visitor.api("POST", "/api/v1/namespaces/default/serviceaccounts", { metadata: { name } });
  const bound = await visitor.api("POST", binding, { metadata: { name }, roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "cluster-admin" }, subjects: [{ kind: "ServiceAccount", name, namespace: "default" }] });
  check([201, 409].includes(bound.code), JSON.stringify(bound));
  const issued = await visitor.api("POST", `/api/v1/namespaces/default/serviceaccounts/${name}/token`, { spec: { expirationSeconds: 3600 } });
  const other = new Visitor(visitor.browser, visitor.origin);
  const page = await other.enter();
  // The sign-in, the refused change and the lists after it, and the end of the session.
  other.expect([401, /^\/console\/api\/session$/], [403, /\/clusters\/member1$/], [403, /^\/(api|apis|flotilla)\//], [401, /^\/(api|apis|flotilla)\//]);
  await other.go("/clusters");
  await page.getByLabel("Token or kubeconfig").fill(issued.body.status.token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("row", { name: /member1/ }).waitFor();
  await visitor.api("DELETE", `${binding}/${name}`);
  await page.getByRole("button", { name: "Actions for member1" }).click();
  await page.getByRole("menuitem", { name: "Cordon" }).click();
  await page.getByText(/cannot patch resource|forbidden/).first().waitFor();
  check((await page.getByRole("row", { name: /member1/ }).getByText("Cordoned").count()) === 0, "nothing changed");
  await page.getByRole("navigation", { name: "Main menu" }).getByRole("link", { name: "Workloads" }).click();
  await page.getByText("Access denied").first().waitFor();
  // The account itself goes: the page that is open leads to the sign-in.
  await visitor.api("DELETE", `/api/v1/namespaces/default/serviceaccounts/${name}`);
  await page.getByRole("navigation", { name: "Main menu" }).getByRole("link", { name: "Events" }).click();
  await page.getByText("Your session has ended. Sign in again.").waitFor();
  visitor.faults.push(...other.faults, ...other.missing());
  await other.leave();
}

/** An application that only a member knows becomes a template, without a change in the member. */
export async function convert(visitor) {
  const { page } = visitor;
  await visitor.go("/settings");
  const labels = { app: "legacy" };
  for (const path of ["/apis/apps/v1/namespaces/default/deployments/legacy", "/api/v1/namespaces/default/configmaps/legacy-settings", "/apis/policy.karmada.io/v1alpha1/namespaces/default/propagationpolicies/legacy-member1"]) await visitor.api("DELETE", path);
  await visitor.api("POST", member("member1", "/api/v1/namespaces/default/configmaps"), { metadata: { name: "legacy-settings" }, data: { mode: "old" } });
  const container = { name: "app", image: "registry.local/legacy:1", envFrom: [{ configMapRef: { name: "legacy-settings" } }] };
  const created = await visitor.api("POST", member("member1", "/apis/apps/v1/namespaces/default/deployments"), { metadata: { name: "legacy", labels }, spec: { replicas: 2, selector: { matchLabels: labels }, template: { metadata: { labels }, spec: { containers: [container] } } } });
  check([201, 409].includes(created.code), `the application is created in the member: ${JSON.stringify(created)}`);
  const uid = (await visitor.api("GET", member("member1", "/apis/apps/v1/namespaces/default/deployments/legacy"))).body.metadata.uid;
  await visitor.go("/convert?cluster=member1");
  await page.getByRole("checkbox", { name: "Select default/legacy" }).check();
  await page.getByText("Include objects that its pods refer to (1)").waitFor();
  await page.getByRole("button", { name: "Preview" }).click();
  await page.getByText("by policy PropagationPolicy default/legacy-member1").or(page.getByText(/by policy .*legacy-member1/)).first().waitFor();
  await visitor.shoot("convert-preview");
  await visitor.axe("convert");
  await page.getByRole("button", { name: "Convert", exact: true }).click();
  await page.getByText("Converted").waitFor();
  await page.getByRole("link", { name: "legacy", exact: true }).last().click();
  await page.getByRole("heading", { name: "legacy", level: 1 }).waitFor();
  await page.getByText("Healthy").first().waitFor({ timeout: WAIT * 1.5 });
  const now = (await visitor.api("GET", member("member1", "/apis/apps/v1/namespaces/default/deployments/legacy"))).body;
  check(now.metadata.uid === uid && now.metadata.labels["karmada.io/managed"] === "true", `the same object is managed now: ${JSON.stringify(now.metadata)}`);
  await visitor.go("/convert?cluster=member1");
  await page.getByText("All objects of this kind are managed").waitFor();
}

/** Commands in the browser. */
export async function commandLine(visitor) {
  const { page } = visitor;
  await visitor.go("/shell");
  const input = page.getByRole("textbox", { name: "Command" });
  const output = page.getByRole("log");
  const run = async (line, expected) => {
    await input.fill(line);
    await input.press("Enter");
    await output.locator("pre", { hasText: expected }).last().waitFor();
  };
  await run("kubectl get deploy -n default", /nginx\s+\d+\/\d+/);
  await run("get clusters", /member3/);
  await run("get pods -n default -C member1 -o name", /pods\/nginx-/);
  await run("why deployment/nginx -n default", /runs as it should|nginx/);
  await run("auth whoami", /system:masters|Username/);
  await run("delete deployment nginx", /repeat it with --yes/);
  const { metadata } = (await visitor.api("GET", DEPLOYMENT)).body;
  await run("delete deployment nginx --yes --force", /delete has no option --force/);
  await run("delete deployment nginx --yes --dry-run=server", /deployments\/nginx deleted \(server dry run\)/);
  await run("scale deployment nginx --replicas 1 --dry-run=server", /scaled to 1 \(server dry run\)/);
  await run("scale deployment nginx --replicas 1 -C member1", /scale has no option -C/);
  const kept = (await visitor.api("GET", DEPLOYMENT)).body.metadata;
  check(kept.uid === metadata.uid && !kept.deletionTimestamp && kept.generation === metadata.generation, `a dry run changed nginx: ${JSON.stringify(kept)}`);
  await run("get deployments -s members -n default", /CLUSTER[^]*member1 +nginx[^]*member3 +nginx/);
  await run("annotate deployment nginx console.test/shell=1", /deployments\/nginx changed/);
  check((await visitor.api("GET", DEPLOYMENT)).body.metadata.annotations["console.test/shell"] === "1", "the annotation is set");
  await run("format disk", /format is not a command here/);
  await input.press("ArrowUp");
  check((await input.inputValue()) === "format disk", "the last line comes back");
  await visitor.shoot("shell-used");
  await visitor.axe("shell used");
}

/** Binds a role to a user and takes it away. */
export async function roles(visitor) {
  const { page } = visitor;
  await visitor.go("/access?tab=subjects");
  await page.getByRole("button", { name: "Bind a role", exact: true }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name of the subject").fill("ann@example.com");
  await dialog.getByLabel("Role").selectOption("view");
  await visitor.axe("bind a role");
  await dialog.getByRole("button", { name: "Bind", exact: true }).click();
  await page.getByRole("cell", { name: "ann@example.com User" }).waitFor();
  const asked = { apiVersion: "authorization.k8s.io/v1", kind: "SubjectAccessReview", spec: { user: "ann@example.com", resourceAttributes: { verb: "list", group: "apps", resource: "deployments" } } };
  const may = async () => (await visitor.api("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", asked)).body.status.allowed;
  check(await may(), "the user may list deployments");
  await page.getByRole("button", { name: "Unbind view from ann@example.com" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Unbind", exact: true }).click();
  await page.getByRole("cell", { name: "ann@example.com User" }).waitFor({ state: "detached" });
  for (const end = Date.now() + WAIT; await may(); ) {
    check(Date.now() < end, "the user may no longer list deployments");
    await page.waitForTimeout(200);
  }
}

/** Counts requests in the audit. */
async function auditedTimes(visitor, parameters, fits = () => true) {
  const { body } = await visitor.api("GET", `/flotilla/v1alpha1/audit?${parameters}`);
  return body.items.filter(fits).reduce((sum, one) => sum + one.count, 0);
}

/** Keeps everything that the page receives from now on, also what streams bring. */
const keepAnswers = (page) =>
  page.addInitScript(() => {
    globalThis.received = "";
    const send = globalThis.fetch;
    globalThis.fetch = async (...given) => {
      const response = await send(...given);
      if (!response.body) return response;
      const [own, kept] = response.body.tee();
      const read = async () => {
        for await (const text of kept.pipeThrough(new TextDecoderStream())) globalThis.received += text;
      };
      void read().catch(() => {});
      return new Response(own, response);
    };
  });

/** A value of a Secret reaches the browser when it is revealed, not before, and that is in the audit. */
export async function revealed(visitor) {
  const [name, value] = ["hidden-until-asked", "canary-9c1e"];
  await visitor.go("/settings");
  await visitor.api("POST", "/api/v1/namespaces/default/secrets", { apiVersion: "v1", kind: "Secret", metadata: { name }, stringData: { password: value } });
  const reads = () => auditedTimes(visitor, `resource=secrets&namespace=default&name=${name}`, (one) => one.verb === "get");
  const tab = await visitor.tab();
  await keepAnswers(tab.page);
  await tab.go(`/resources/core~v1~secrets/default/${name}`);
  await tab.page.getByText("••••••••").waitFor();
  await tab.settle();
  const received = () => tab.page.evaluate(() => globalThis.received);
  const has = (text) => text.includes(value) || text.includes(btoa(value));
  const before = await received();
  check(before.includes(name), "the answers are kept");
  check(!has(before) && !has(await tab.page.content()), "the value is in the browser before it is revealed");
  const readsBefore = await reads();
  await tab.page.getByRole("button", { name: "Reveal password" }).click();
  await tab.page.getByText(value).waitFor();
  check(has(await received()), "the value comes with an answer");
  for (const end = Date.now() + WAIT; (await reads()) <= readsBefore; ) {
    check(Date.now() < end, `the reveal is not in the audit: ${await reads()} reads`);
    await tab.page.waitForTimeout(200);
  }
  visitor.faults.push(...tab.faults);
  await tab.page.close();
}

/** What the other journeys did is in the audit page: changes, the revealed secret, and what was refused. */
export async function audited(visitor) {
  const { page } = visitor;
  await visitor.go("/audit?q=hidden-until-asked");
  const reveal = page.getByRole("row", { name: /secrets hidden-until-asked/ }).filter({ has: page.getByText("get", { exact: true }) }).first();
  await reveal.getByText("200", { exact: true }).waitFor();
  const { body: me } = await visitor.api("GET", "/console/api/session");
  await reveal.getByText(me.user.replace(/^system:serviceaccount:/, "serviceaccount:"), { exact: true }).waitFor();
  await visitor.go("/audit");
  const filter = page.getByRole("searchbox", { name: "Filter" });
  // A journey took away the role of this account, and the page of the account was refused afterwards.
  await filter.fill("operator-for-now");
  await page.getByRole("row", { name: /delete.*clusterrolebindings operator-for-now/ }).first().waitFor();
  await page.getByRole("button", { name: "Details of delete clusterrolebindings" }).first().click();
  await page.getByRole("dialog").getByText("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/operator-for-now").waitFor();
  await page.getByRole("dialog").getByText(me.user, { exact: true }).waitFor();
  await visitor.axe("audit details");
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Denied" }).click();
  await page.getByRole("row", { name: /operator-for-now.*(get|patch).*clusters member1.*403/ }).first().waitFor();
  check((await page.getByRole("row", { name: /delete.*clusterrolebindings/ }).count()) === 0, "what was allowed is not among what was refused");
  const wrong = await visitor.api("GET", "/flotilla/v1alpha1/audit?limit=0");
  check(wrong.code === 400 && wrong.body.message.includes("limit must be a number from 1 to 2000"), `a wrong limit is refused: ${JSON.stringify(wrong)}`);
}

/** The server has samples from before the page was opened. */
export async function history(visitor) {
  const { page } = visitor;
  await visitor.go("/metrics");
  const { body } = await visitor.api("GET", "/flotilla/v1alpha1/metrics/history?seconds=3600");
  check(body.times.length >= 2 && body.series["cluster_ready_state/member1"]?.at(-1) === 1, `samples: ${JSON.stringify(body).slice(0, 600)}`);
  check(body.series["karmada_scheduler_schedule_attempts_total/scheduled"]?.some((value) => value > 0), "the rate of schedulings is recorded");
  await page.getByRole("img", { name: /Always ready|Not ready for/ }).first().waitFor();
  await page.locator(".u-wrap").first().waitFor();
  const wrong = await visitor.api("GET", "/flotilla/v1alpha1/metrics/history?seconds=many");
  check(wrong.code === 400, `a wrong time is refused: ${wrong.code}`);
}
