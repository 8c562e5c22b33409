// The console of a manager: creates an instance, joins a member to it, applies with a plan there, searches; and every page in every state.

import { readFileSync } from "node:fs";
import { attempt, check, launch, Visitor, WAIT } from "./harness.mjs";
import { everyPage } from "./matrix.mjs";
import { MANAGER_TABLE } from "./pages.mjs";
import { rolesOnInstances, userOf } from "./rights.mjs";

const link = new URL(process.env.CONSOLE_LINK);
const visitor = new Visitor(await launch(), link.origin);

/** Registers a member in the inventory and joins it to the instance. */
async function register(visitor) {
  const { page } = visitor;
  await visitor.go("/inventory");
  await page.getByText("No clusters registered").waitFor();
  await page.getByRole("button", { name: "Register a cluster" }).first().click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Cluster name").fill("m1");
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
  await page.getByLabel("Start from an example").selectOption("divided");
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

/** Creates an instance next to the resulting object; the check of an import finds what is wrong with a kubeconfig. */
async function create(visitor) {
  const { page } = visitor;
  await page.getByRole("link", { name: "Import", exact: true }).first().click();
  await page.getByRole("heading", { level: 1 }).getByText("Import").waitFor();
  await page.getByLabel("Name", { exact: true }).fill("west");
  await page.getByLabel("Kubeconfig").fill("apiVersion: v1\nkind: Config\n");
  await page.getByRole("button", { name: "Check", exact: true }).click();
  await page.getByRole("main").getByText(/no cluster|no server|has no|kubeconfig/i).first().waitFor();
  check(await page.getByRole("button", { name: "Import", exact: true }).isDisabled(), "a kubeconfig with faults can be imported");
  await visitor.axe("import");
  await visitor.shoot("manager-import");
  await visitor.go("/");
  await page.getByRole("link", { name: "New instance" }).first().click();
  await page.getByRole("heading", { name: "New instance", level: 1 }).waitFor();
  await page.getByLabel("Name", { exact: true }).fill("east");
  await page.getByText("name: east").waitFor();
  await page.getByText("Accepted by the manager").waitFor();
  await visitor.axe("new instance");
  await visitor.shoot("manager-new");
  await page.getByRole("button", { name: "Create", exact: true }).click();
  await page.getByRole("row", { name: /east/ }).getByText("Running").waitFor();
}

/** Finds objects of the instance from the page of the manager. */
async function search(visitor) {
  const { page } = visitor;
  await visitor.go("/search");
  await page.getByRole("combobox", { name: "Search" }).fill("nginx");
  await page.getByRole("link", { name: "nginx", exact: true }).first().waitFor();
  // The completions cover what is below the box until they are closed.
  await page.getByRole("option", { name: /^name:nginx/ }).waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("group", { name: "Kind" }).getByRole("button", { name: /Deployment/ }).click();
  await page.waitForURL(/kind(:|%3A)Deployment/);
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

/** One object of each kind that the pages list. */
async function objects(visitor) {
  const binding = { subject: { kind: "User", name: "ben" }, role: "view", target: { instance: "east" } };
  for (const [plural, kind, name, spec] of [["bindings", "Binding", "ben-view", binding], ["groups", "Group", "builders", { members: ["ann"] }], ["roles", "Role", "deployer", { grants: "edit" }], ["folders", "Folder", "europe", {}], ["workspaces", "Workspace", "shop-team", { folder: "europe", instances: ["east"] }]]) {
    const created = await visitor.api("POST", `/apis/manager.flotilla.dev/v1alpha1/${plural}`, { apiVersion: "manager.flotilla.dev/v1alpha1", kind, metadata: { name }, spec });
    check([201, 409].includes(created.code), JSON.stringify(created));
  }
}

async function journey() {
  const page = await visitor.enter();
  // The page asks who is signed in before it uses the link.
  visitor.expect([401, /^\/console\/api\/session$/]);
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
  await rolesOnInstances(visitor);
  await objects(visitor);
  const other = await userOf(visitor, "ann");
  await everyPage(visitor, other, MANAGER_TABLE, link.port);
  visitor.faults.push(...other.faults, ...visitor.missing());
}

// The link works once.
await attempt(visitor, "manager", journey, 1);
await visitor.browser.close();
for (const fault of new Set(visitor.faults)) console.log(fault);
process.exit(visitor.faults.length > 0 ? 1 : 0);
