// Policies in one line.

import type { KObject } from "../../api/types";
import { t } from "../../i18n";

const labelsText = (selector: any): string => {
  const labels = Object.entries(selector?.matchLabels ?? {}).map(([key, value]) => `${key}=${value}`);
  const rules = (selector?.matchExpressions ?? []).map((one: any) => `${one.key} ${one.operator} ${(one.values ?? []).join(",")}`);
  return [...labels, ...rules].join(", ");
};

export function selectorsText(policy: KObject): string {
  const selectors: any[] = policy.spec?.resourceSelectors ?? [];
  if (selectors.length === 0) return t("everything");
  return selectors.map((one) => {
    const which = one.name || (one.labelSelector ? `(${labelsText(one.labelSelector)})` : t("all"));
    return `${one.kind} ${one.namespace ? `${one.namespace}/` : ""}${which}`;
  }).join("; ");
}

function affinityText(affinity: any): string {
  if (!affinity) return t("any cluster");
  const parts = [
    affinity.clusterNames?.join(", "),
    affinity.labelSelector && labelsText(affinity.labelSelector),
    affinity.fieldSelector?.matchExpressions?.map((one: any) => `${one.key} ${one.operator} ${(one.values ?? []).join(",")}`).join(", "),
    affinity.exclude?.length && t("not {names}", { names: affinity.exclude.join(", ") }),
  ].filter(Boolean);
  return parts.join("; ") || t("any cluster");
}

export function placementText(policy: KObject): string {
  const rules: any[] | undefined = policy.spec?.overrideRules;
  if (rules) return rules.map((rule) => `${affinityText(rule.targetCluster)}: ${Object.keys(rule.overriders ?? {}).map((name) => name.replace("Overrider", "")).join(", ")}`).join("; ");
  const placement = policy.spec?.placement ?? {};
  const where = placement.clusterAffinities ? placement.clusterAffinities.map((one: any) => `${one.affinityName}: ${affinityText(one)}`).join(" → ") : affinityText(placement.clusterAffinity);
  const scheduling = placement.replicaScheduling;
  const how = scheduling?.replicaSchedulingType === "Divided" ? t("divided") : scheduling ? t("duplicated") : "";
  return [where, how].filter(Boolean).join(" · ");
}
