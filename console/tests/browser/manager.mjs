// The console of a manager: creates an instance, opens it, switches back.

import { launch, Visitor } from "./harness.mjs";

const link = new URL(process.env.CONSOLE_LINK);
const visitor = new Visitor(await launch(), link.origin);
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
  await page.getByLabel("Instance").selectOption("");
  await page.getByRole("heading", { name: "Instances", level: 1 }).waitFor();
} catch (error) {
  visitor.faults.push(error.message.split("\n").slice(0, 6).join(" | "));
  await visitor.shoot("failed-manager").catch(() => {});
}
await visitor.browser.close();
for (const fault of new Set(visitor.faults)) console.log(fault);
process.exit(visitor.faults.length > 0 ? 1 : 0);
