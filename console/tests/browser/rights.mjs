// Users with a part of the rights: what they see, what they may change, and what is refused.

import { check, until, Visitor } from "./harness.mjs";

const MERGE = "application/merge-patch+json";
const MANAGER = "/apis/manager.flotilla.dev/v1alpha1";
const PASSWORD = "correct horse battery";
const REFUSED = /^\/(api|apis|flotilla|instances)\//;

const LABELS = { app: "cart" };
const CART = { metadata: { name: "cart", labels: LABELS }, spec: { replicas: 2, selector: { matchLabels: LABELS }, template: { metadata: { labels: LABELS }, spec: { containers: [{ name: "web", image: "registry.k8s.io/nginx:1.27" }] } } } };

const isCreated = ({ code, body }) => check([200, 201, 409].includes(code), JSON.stringify(body));

/** A namespace with a Deployment, below the address of a control plane. */
async function team(visitor, base, namespace) {
  isCreated(await visitor.api("POST", `${base}/api/v1/namespaces`, { metadata: { name: namespace } }));
  isCreated(await visitor.api("POST", `${base}/apis/apps/v1/namespaces/${namespace}/deployments`, CART));
}

/** Scales the workload of the page that is open. */
async function scale(page, replicas) {
  await page.getByRole("button", { name: "Scale", exact: true }).click();
  await page.getByLabel("Total replicas in all clusters").fill(String(replicas));
  await page.getByRole("dialog").getByRole("button", { name: "Scale" }).click();
}

/** Opens a page from the menu and waits for its heading. */
async function open(page, link, heading = link) {
  await page.getByRole("navigation", { name: "Main menu" }).getByRole("link", { name: link, exact: true }).click();
  await page.getByRole("heading", { name: heading, level: 1 }).waitFor();
}

/** What an editor of the namespace sees: its workloads and no others; a change there, and what is refused. */
async function editsNamespace(admin, editor, base, namespace) {
  const { page } = editor;
  const path = `${base}/apis/apps/v1/namespaces/${namespace}/deployments/cart`;
  // The console begins with the namespace, because lists of all namespaces are refused.
  const choice = page.getByLabel("Namespace", { exact: true });
  await page.waitForFunction((name) => document.querySelector("select[aria-label=Namespace]")?.value === name, namespace);
  check((await choice.locator("option").allInnerTexts()).includes("All namespaces") === false, "all namespaces are offered");
  await open(page, "Workloads");
  await page.getByRole("row", { name: /^cart/ }).waitFor();
  await editor.shoot(`rights-${base ? "manager" : "plane"}-namespace`);
  await editor.axe("workloads of a namespace");
  await page.getByRole("link", { name: "cart", exact: true }).click();
  await page.getByRole("heading", { name: "cart", level: 1 }).waitFor();
  const { body: before } = await admin.api("GET", path);
  const wanted = before.spec.replicas + 1;
  await scale(page, wanted);
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await until(admin, path, (one) => one.spec?.replicas === wanted, `the editor scales cart to ${wanted}`);
  await open(page, "Clusters");
  await page.getByText("Access denied").first().waitFor();
  for (const refused of [`${base}/api/v1/namespaces/kube-system/secrets`, `${base}/apis/apps/v1/deployments`, `${base}/apis/cluster.karmada.io/v1alpha1/clusters`]) {
    const { code } = await editor.api("GET", refused);
    check(code === 403, `${refused} answers ${code}`);
  }
}

/** At a control plane: an account with the role `edit` in one namespace. */
export async function namespaceEditor(visitor) {
  const [namespace, name] = ["team-cart", "cart-editor"];
  await team(visitor, "", namespace);
  isCreated(await visitor.api("POST", `/api/v1/namespaces/${namespace}/serviceaccounts`, { metadata: { name } }));
  isCreated(await visitor.api("POST", `/apis/rbac.authorization.k8s.io/v1/namespaces/${namespace}/rolebindings`, { metadata: { name }, roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "edit" }, subjects: [{ kind: "ServiceAccount", name, namespace }] }));
  const issued = await visitor.api("POST", `/api/v1/namespaces/${namespace}/serviceaccounts/${name}/token`, { spec: { expirationSeconds: 3600 } });
  const editor = new Visitor(visitor.browser, visitor.origin);
  const page = await editor.enter();
  editor.expect([401, /^\/console\/api\/session$/], [403, REFUSED]);
  await editor.go("/");
  await page.getByLabel("Token or kubeconfig").fill(issued.body.status.token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Overview", level: 1 }).waitFor();
  await editsNamespace(visitor, editor, "", namespace);
  visitor.faults.push(...editor.faults, ...editor.missing());
  await editor.leave();
}

/** Creates a user of the manager with a role, and signs in. */
export async function userOf(visitor, name, role, target) {
  isCreated(await visitor.api("POST", `${MANAGER}/users`, { apiVersion: "manager.flotilla.dev/v1alpha1", kind: "User", metadata: { name }, spec: {} }));
  const set = await visitor.api("POST", "/flotilla/manager/passwords", { user: name, password: PASSWORD });
  check(set.code < 300, JSON.stringify(set));
  if (role) isCreated(await visitor.api("POST", `${MANAGER}/bindings`, { apiVersion: "manager.flotilla.dev/v1alpha1", kind: "Binding", metadata: { name: `${name}-${role}` }, spec: { subject: { kind: "User", name }, role, target } }));
  const user = new Visitor(visitor.browser, visitor.origin);
  const page = await user.enter();
  user.expect([401, /^\/console\/api\/session$/]);
  await user.go("/");
  await page.getByLabel("User", { exact: true }).fill(name);
  await page.getByLabel("Password", { exact: true }).fill(PASSWORD);
  await page.getByLabel("Password", { exact: true }).press("Enter");
  await page.getByRole("heading", { name: "Instances", level: 1 }).waitFor();
  return user;
}

const ACTIONS = /^(Restart|Hibernate|Suspend|Backups|Delete…)$/;

/** Opens the menu of the instance, which has these actions. */
async function actionsOf(page, expected) {
  await page.getByRole("button", { name: "Actions for east" }).click();
  await page.getByRole("menuitem").first().waitFor();
  const items = (await page.getByRole("menuitem").allInnerTexts()).map((one) => one.trim()).filter((one) => ACTIONS.test(one));
  check(items.join() === expected.join(), `actions for east are ${items}, not ${expected}: ${await page.getByRole("menu").innerText()}`);
  await page.keyboard.press("Escape");
}

async function openInstance(page) {
  await page.getByRole("link", { name: "east", exact: true }).click();
  await page.getByRole("heading", { name: "Overview", level: 1 }).waitFor();
}

const east = "/instances/east";
const NGINX = `${east}/apis/apps/v1/namespaces/default/deployments/nginx`;

/** Sees the instance and its workloads; every change is refused, and nothing changes. */
async function instanceViewer(visitor) {
  const viewer = await userOf(visitor, "vera", "view", { instance: "east" });
  const { page } = viewer;
  await page.getByRole("row", { name: /east/ }).getByText("Running").waitFor();
  check((await page.getByRole("row").count()) === 2, "she sees more than her instance");
  check((await page.getByRole("link", { name: "New instance" }).count()) === 0, "she is offered to create instances");
  await actionsOf(page, []);
  await viewer.shoot("rights-viewer");
  await viewer.axe("instances of a viewer");
  // The overview leaves out what she may not read.
  viewer.tolerate(403, REFUSED);
  await openInstance(page);
  await open(page, "Workloads");
  await page.getByRole("link", { name: "nginx", exact: true }).click();
  await page.getByRole("heading", { name: "nginx", level: 1 }).waitFor();
  const { body: before } = await visitor.api("GET", NGINX);
  viewer.expect([403, /\/deployments\/nginx\/scale$/]);
  await scale(page, before.spec.replicas + 1);
  await page.getByText(/cannot (patch|update) resource|forbidden/).first().waitFor();
  const { body: after } = await visitor.api("GET", NGINX);
  check(after.spec.replicas === before.spec.replicas, "a viewer scaled nginx");
  for (const [method, path, body] of [["POST", "/flotilla/manager/v1alpha1/instances", { name: "vera-own" }], ["POST", "/flotilla/manager/v1alpha1/instances/east:suspend", {}], ["PATCH", NGINX, { spec: { replicas: 1 } }], ["GET", `${east}/api/v1/namespaces/default/secrets`]]) {
    const { code } = await viewer.api(method, path, body, method === "PATCH" ? MERGE : undefined);
    check(code === 403, `${method} ${path} answers ${code}`);
  }
  visitor.faults.push(...viewer.faults, ...viewer.missing());
  await viewer.leave();
}

/** Suspends and resumes the instance, and changes what is in it; the manager itself is not hers. */
async function instanceAdmin(visitor) {
  const admin = await userOf(visitor, "ada", "admin", { instance: "east" });
  const { page } = admin;
  const instance = "/flotilla/manager/v1alpha1/instances/east";
  const row = page.getByRole("row", { name: /east/ });
  await row.getByText("Running").waitFor();
  check((await page.getByRole("link", { name: "New instance" }).count()) === 0, "she is offered to create instances");
  await actionsOf(page, ["Restart", "Hibernate", "Suspend", "Backups"]);
  await page.getByRole("button", { name: "Actions for east" }).click();
  await page.getByRole("menuitem", { name: "Suspend" }).click();
  await row.getByText("Suspended").waitFor();
  await until(visitor, instance, (one) => one.suspended === true, "the instance is suspended");
  await page.getByRole("button", { name: "Actions for east" }).click();
  await page.getByRole("menuitem", { name: "Resume" }).click();
  await row.getByText("Running").waitFor();
  await until(visitor, instance, (one) => !one.suspended && one.state === "STATE_RUNNING", "the instance runs");
  await openInstance(page);
  await open(page, "Workloads");
  await page.getByRole("link", { name: "nginx", exact: true }).click();
  const { body: before } = await visitor.api("GET", NGINX);
  await scale(page, before.spec.replicas + 1);
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await until(visitor, NGINX, (one) => one.spec?.replicas === before.spec.replicas + 1, "the administrator scales nginx");
  for (const [method, path, body] of [["POST", "/flotilla/manager/v1alpha1/instances", { name: "ada-own" }], ["GET", `${MANAGER}/users`], ["DELETE", `${instance}?confirmName=east`]]) {
    const { code } = await admin.api(method, path, body);
    check(code === 403, `${method} ${path} answers ${code}`);
  }
  visitor.faults.push(...admin.faults, ...admin.missing());
  await admin.leave();
}

/** Sees the instance by its name, and in it one namespace. */
async function instanceNamespaceEditor(visitor) {
  await team(visitor, east, "shop");
  const editor = await userOf(visitor, "ned", "edit", { instance: "east", namespace: "shop" });
  const { page } = editor;
  await page.getByRole("row", { name: /east/ }).waitFor();
  await actionsOf(page, []);
  // What lists all namespaces is refused, and the page goes on with the one namespace.
  editor.expect([403, REFUSED]);
  await openInstance(page);
  await editsNamespace(visitor, editor, east, "shop");
  visitor.faults.push(...editor.faults, ...editor.missing());
  await editor.leave();
}

/** Users of a manager with a role on one instance, or on a part of it. */
export async function rolesOnInstances(visitor) {
  await instanceViewer(visitor);
  await instanceAdmin(visitor);
  await instanceNamespaceEditor(visitor);
}
