// The console of a manager: creates an instance, joins a member to it, applies with a plan there, searches; and every page in every state.

import { readFileSync } from "node:fs";
import { attempt, check, launch, Visitor, WAIT } from "./harness.mjs";
import { everyPage } from "./matrix.mjs";
import { MANAGER_TABLE } from "./pages.mjs";

const link = new URL(process.env.CONSOLE_LINK);
const visitor = new Visitor(await launch(), link.origin);

/** Registers a member in the inventory and joins it to the instance. */
async function register(visitor) {
  const { page } = visitor;
  await visitor.go("/inventory");
  await page.getByText("No clusters registered").waitFor();
  await page.getByRole("button", { name: "Register a cluster" }).first().click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name of the cluster").fill("m1");
  await dialog.getByLabel("Kubeconfig").fill(readFileSync(process.env.CONSOLE_MEMBER, "utf8"));
  await dialog.getByRole("checkbox", { name: "east" }).check();
  await visitor.axe("register a cluster");
  await visitor.shoot("manager-register");
  await dialog.getByRole("button", { name: "Register", exact: true }).click();
  await page.getByRole("row", { name: /m1/ }).getByText("Ready").waitFor({ timeout: WAIT * 1.5 });
  await page.getByRole("row", { name: /m1/ }).getByRole("link", { name: "east" }).waitFor();
}

/** Plans and applies a workload in the instance, and sees it healthy. */
async function deploy(visitor) {
  const { page } = visitor;
  const menu = page.getByRole("navigation", { name: "Main menu" });
  await menu.getByRole("link", { name: "Clusters" }).click();
  await page.getByRole("row", { name: /m1/ }).getByText("Ready").waitFor({ timeout: WAIT * 1.5 });
  await visitor.shoot("manager-joined");
  await menu.getByRole("link", { name: "Plan and apply" }).click();
  await page.waitForSelector(".cm-content");
  await page.getByLabel("Begin with an example").selectOption("divided");
  await page.locator(".cm-content", { hasText: "clusterNames: [m1]" }).waitFor();
  await page.getByRole("button", { name: "Plan", exact: true }).click();
  await page.getByRole("cell", { name: "m1", exact: true }).waitFor();
  await page.getByRole("button", { name: "Apply", exact: true }).click();
  await page.getByText("applied", { exact: true }).nth(1).waitFor();
  await page.getByRole("link", { name: "nginx" }).last().click();
  await page.getByText("Healthy").first().waitFor({ timeout: WAIT * 1.5 });
  await visitor.shoot("manager-workload");
  await visitor.axe("workload of an instance");
}

async function create(visitor) {
  const { page } = visitor;
  await page.getByRole("button", { name: "New instance" }).first().click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name", { exact: true }).fill("east");
  await dialog.getByText("name: east").waitFor();
  await visitor.axe("new instance");
  await visitor.shoot("manager-new");
  await dialog.getByRole("button", { name: "Import a control plane" }).click();
  await dialog.getByLabel("Kubeconfig").fill("apiVersion: v1\nkind: Config\n");
  await dialog.getByRole("button", { name: "Check" }).click();
  await dialog.getByRole("alert").waitFor();
  await visitor.axe("import");
  await visitor.shoot("manager-import");
  await dialog.getByRole("button", { name: "In the manager" }).click();
  await dialog.getByRole("button", { name: "Create" }).click();
  await page.getByRole("row", { name: /east/ }).getByText("Running").waitFor();
}

/** Finds objects of the instance from the page of the manager. */
async function search(visitor) {
  const { page } = visitor;
  await visitor.go("/search");
  await page.getByRole("searchbox", { name: "Search" }).fill("nginx");
  await page.getByRole("link", { name: "nginx", exact: true }).first().waitFor();
  await page.getByRole("group", { name: "Kind" }).getByRole("button", { name: /Deployment/ }).click();
  await page.getByRole("cell", { name: "PropagationPolicy" }).waitFor({ state: "detached" });
  await page.getByRole("link", { name: "nginx", exact: true }).click();
  await page.getByRole("heading", { name: "nginx", level: 1 }).waitFor();
}

/** A token is shown once and can be revoked. */
async function tokens(visitor) {
  const { page } = visitor;
  await visitor.go("/members?tab=tokens");
  await page.getByRole("button", { name: "New token" }).click();
  await page.getByText("It is shown once").waitFor();
  await page.getByRole("button", { name: "Revoke" }).first().click();
  await page.getByText("The token is revoked").waitFor();
}

/** A user of the manager without a role. */
async function nobody(visitor) {
  const password = "correct horse battery";
  const created = await visitor.api("POST", "/apis/manager.flotilla.dev/v1alpha1/users", { apiVersion: "manager.flotilla.dev/v1alpha1", kind: "User", metadata: { name: "ann" }, spec: { displayName: "Ann" } });
  check([201, 409].includes(created.code), JSON.stringify(created));
  const set = await visitor.api("POST", "/flotilla/manager/passwords", { user: "ann", password });
  check(set.code < 300, JSON.stringify(set));
  const binding = { apiVersion: "manager.flotilla.dev/v1alpha1", kind: "Binding", metadata: { name: "ben-view" }, spec: { subject: { kind: "User", name: "ben" }, role: "view", target: { instance: "east" } } };
  const bound = await visitor.api("POST", "/apis/manager.flotilla.dev/v1alpha1/bindings", binding);
  check([201, 409].includes(bound.code), JSON.stringify(bound));
  const other = new Visitor(visitor.browser, visitor.origin);
  const page = await other.enter();
  await other.go("/");
  await other.shoot("sign-in-manager");
  await other.axe("sign-in at a manager");
  await page.getByLabel("User", { exact: true }).fill("ann");
  await page.getByLabel("Password", { exact: true }).fill(password);
  await page.getByLabel("Password", { exact: true }).press("Enter");
  await page.getByRole("heading", { name: "Instances", level: 1 }).waitFor();
  return other;
}

async function journey() {
  const page = await visitor.enter();
  await page.goto(link.href);
  await page.getByRole("heading", { name: "Instances", level: 1 }).waitFor();
  await visitor.axe("instances empty");
  await create(visitor);
  await visitor.axe("instances");
  await page.getByRole("link", { name: "east", exact: true }).click();
  await page.getByRole("heading", { name: "Overview", level: 1 }).waitFor();
  await page.getByText("No clusters yet").first().waitFor();
  await visitor.shoot("manager-instance");
  await visitor.axe("instance of a manager");
  await page.getByRole("navigation", { name: "Main menu" }).getByRole("link", { name: "Workloads" }).click();
  await page.getByText("No Deployments here").waitFor();
  await register(visitor);
  await visitor.page.goto(`${visitor.origin}/console/i/east/`);
  await deploy(visitor);
  await page.getByLabel("Instance").selectOption("");
  await page.getByRole("heading", { name: "Instances", level: 1 }).waitFor();
  await search(visitor);
  await tokens(visitor);
  const other = await nobody(visitor);
  await everyPage(visitor, other, MANAGER_TABLE, link.port);
  visitor.faults.push(...other.faults);
}

// The link works once.
await attempt(visitor, "manager", journey, 1);
await visitor.browser.close();
for (const fault of new Set(visitor.faults)) console.log(fault);
process.exit(visitor.faults.length > 0 ? 1 : 0);
