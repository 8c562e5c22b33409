// The console of a manager: creates an instance, joins a member to it, applies with a plan there, switches back.

import { readFileSync } from "node:fs";
import { check, launch, Visitor, WAIT } from "./harness.mjs";

const link = new URL(process.env.CONSOLE_LINK);
const visitor = new Visitor(await launch(), link.origin);
/** Registers a member in the inventory and joins it to the instance; it appears on the open page. */
async function join(visitor) {
  const { page } = visitor;
  await page.getByRole("navigation", { name: "Main menu" }).getByRole("link", { name: "Clusters" }).click();
  await page.getByText("No clusters yet").first().waitFor();
  const kubeconfig = readFileSync(process.env.CONSOLE_MEMBER, "utf8");
  const secret = await visitor.api("POST", "/api/v1/namespaces/default/secrets", { metadata: { name: "m1" }, stringData: { kubeconfig } });
  check(secret.code === 201, JSON.stringify(secret));
  const spec = { instances: ["east"], secretRef: { namespace: "default", name: "m1" } };
  const cluster = await visitor.api("POST", "/apis/manager.flotilla.dev/v1alpha1/managedclusters", { apiVersion: "manager.flotilla.dev/v1alpha1", kind: "ManagedCluster", metadata: { name: "m1" }, spec });
  check(cluster.code === 201, JSON.stringify(cluster));
  await page.getByRole("row", { name: /m1/ }).getByText("Ready").waitFor({ timeout: WAIT * 1.5 });
  await visitor.shoot("manager-joined");
}

/** Plans and applies a workload in the instance, and sees it healthy. */
async function deploy(visitor) {
  const { page } = visitor;
  await page.getByRole("navigation", { name: "Main menu" }).getByRole("link", { name: "Plan and apply" }).click();
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

try {
  const page = await visitor.enter();
  await page.goto(link.href);
  await page.getByRole("heading", { name: "Instances", level: 1 }).waitFor();
  await visitor.axe("instances empty");
  await page.getByRole("button", { name: "New instance" }).first().click();
  await page.getByLabel("Name", { exact: true }).fill("east");
  await visitor.axe("new instance");
  await page.getByRole("dialog").getByRole("button", { name: "Create" }).click();
  await page.getByRole("row", { name: /east/ }).getByText("Running").waitFor();
  await visitor.shoot("manager-instances");
  await visitor.axe("instances");
  await page.getByRole("link", { name: "east", exact: true }).click();
  await page.getByRole("heading", { name: "Overview", level: 1 }).waitFor();
  await page.getByText("No clusters yet").first().waitFor();
  await visitor.shoot("manager-instance");
  await visitor.axe("instance of a manager");
  await page.getByRole("navigation", { name: "Main menu" }).getByRole("link", { name: "Workloads" }).click();
  await page.getByText("No Deployments here").waitFor();
  await join(visitor);
  await deploy(visitor);
  await page.getByLabel("Instance").selectOption("");
  await page.getByRole("heading", { name: "Instances", level: 1 }).waitFor();
} catch (error) {
  visitor.faults.push(error.message.split("\n").slice(0, 6).join(" | "));
  await visitor.shoot("failed-manager").catch(() => {});
}
await visitor.browser.close();
for (const fault of new Set(visitor.faults)) console.log(fault);
process.exit(visitor.faults.length > 0 ? 1 : 0);
