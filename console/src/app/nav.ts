// The places of the console: the menu, the palette and the shortcuts use this list.

import { instanceName } from "../api/client";
import type { IconName } from "../ui/icons";

export interface Destination {
  path: string;
  /** English text, translated where it is shown. */
  text: string;
  icon: IconName;
  group: string;
  /** The second key after `g`. */
  key?: string;
  /** Permissions of the manager; the page is shown to users with one of them. */
  needs?: string[];
}

/** The objects of the manager itself are for its administrators. */
const ADMINS = ["webhooks.manage"];

/** The pages of a manager outside of its instances. */
export const MANAGER_DESTINATIONS: Destination[] = [
  { path: "/", text: "Instances", icon: "overview", group: "", key: "o" },
  { path: "/inventory", text: "Cluster inventory", icon: "cluster", group: "", key: "c", needs: ["inventory.read"] },
  { path: "/members", text: "Users and roles", icon: "access", group: "", key: "w" },
  { path: "/resources/core~v1~secrets", text: "Secrets", icon: "secret", group: "Resources", needs: ADMINS },
  { path: "/resources/core~v1~namespaces", text: "Namespaces", icon: "namespace", group: "Resources", key: "n", needs: ADMINS },
  { path: "/resources", text: "All kinds", icon: "resource", group: "Resources", key: "k", needs: [...ADMINS, "iam.manage", "instances.create"] },
  { path: "/events", text: "Events", icon: "events", group: "Operations", key: "e", needs: ADMINS },
  { path: "/metrics", text: "Metrics", icon: "metrics", group: "Operations", key: "m", needs: ADMINS },
  { path: "/search", text: "Search", icon: "search", group: "Operations", key: "s" },
  { path: "/shell", text: "Command line", icon: "terminal", group: "Operations", key: "x", needs: [...ADMINS, "iam.manage", "instances.create"] },
  { path: "/audit", text: "Audit", icon: "log", group: "Operations", key: "u", needs: ["audit.read"] },
  { path: "/access", text: "Access", icon: "access", group: "Operations", key: "r" },
  { path: "/settings", text: "Settings", icon: "settings", group: "Operations" },
];

/** The places of the menu that is shown; the palette and the shortcuts use them too. */
export const places = { current: [] as Destination[] };

export const atManager = (user: { managesInstances?: boolean }) => user.managesInstances === true && instanceName === "";

export const DESTINATIONS: Destination[] = [
  { path: "/", text: "Overview", icon: "overview", group: "", key: "o" },
  { path: "/clusters", text: "Clusters", icon: "cluster", group: "", key: "c" },
  { path: "/workloads", text: "Workloads", icon: "workload", group: "", key: "w" },
  { path: "/apply", text: "Plan and apply", icon: "apply", group: "", key: "a" },
  { path: "/topology", text: "Topology", icon: "topology", group: "Placement", key: "t" },
  { path: "/policies", text: "Policies", icon: "policy", group: "Placement", key: "p" },
  { path: "/failover", text: "Failover", icon: "failover", group: "Placement", key: "f" },
  { path: "/convert", text: "Convert applications", icon: "convert", group: "Placement", key: "v" },
  { path: "/resources/work.karmada.io~v1alpha2~resourcebindings", text: "Bindings", icon: "binding", group: "Placement", key: "b" },
  { path: "/resources/work.karmada.io~v1alpha1~works", text: "Works", icon: "works", group: "Placement" },
  { path: "/resources/core~v1~services", text: "Services", icon: "service", group: "Resources" },
  { path: "/resources/networking.k8s.io~v1~ingresses", text: "Ingresses", icon: "ingress", group: "Resources" },
  { path: "/resources/core~v1~configmaps", text: "ConfigMaps", icon: "config", group: "Resources" },
  { path: "/resources/core~v1~secrets", text: "Secrets", icon: "secret", group: "Resources" },
  { path: "/resources/core~v1~namespaces", text: "Namespaces", icon: "namespace", group: "Resources", key: "n" },
  { path: "/resources", text: "All kinds", icon: "resource", group: "Resources", key: "k" },
  { path: "/events", text: "Events", icon: "events", group: "Operations", key: "e" },
  { path: "/metrics", text: "Metrics", icon: "metrics", group: "Operations", key: "m" },
  { path: "/search", text: "Search", icon: "search", group: "Operations", key: "s" },
  { path: "/shell", text: "Command line", icon: "terminal", group: "Operations", key: "x" },
  { path: "/audit", text: "Audit", icon: "log", group: "Operations", key: "u" },
  { path: "/access", text: "Access", icon: "access", group: "Operations", key: "r" },
  { path: "/settings", text: "Settings", icon: "settings", group: "Operations" },
];
