// Changes of clusters.

import { ApiError, getJson, mergePatch } from "../../api/client";
import { CLUSTERS, pathOf } from "../../api/resources";
import type { KObject, Taint } from "../../api/types";
import { t } from "../../i18n";
import { taintsOf, UNSCHEDULABLE } from "../../model/cluster";
import { attempt } from "../../ui/parts";

const ATTEMPTS_MAX = 5;

/** Changes the taints of the current object; a heartbeat that comes first is no reason to fail. */
export function changeTaints(name: string, change: (taints: Taint[]) => Taint[], done: string): Promise<boolean> {
  const path = pathOf(CLUSTERS, "", name);
  return attempt(done, async () => {
    for (let tries = 1; ; tries++) {
      const current = await getJson<KObject>(path);
      try {
        await mergePatch(path, { metadata: { resourceVersion: current.metadata.resourceVersion }, spec: { taints: change(taintsOf(current)) } });
        return;
      } catch (error) {
        if (!(error instanceof ApiError && error.code === 409) || tries === ATTEMPTS_MAX) throw error;
      }
    }
  });
}

export function setCordoned(cluster: KObject, cordoned: boolean): Promise<boolean> {
  const name = cluster.metadata.name;
  const change = (taints: Taint[]) => {
    const others = taints.filter((taint) => taint.key !== UNSCHEDULABLE);
    return cordoned ? [...others, { key: UNSCHEDULABLE, effect: "NoSchedule" }] : others;
  };
  return changeTaints(name, change, cordoned ? t("{name} is cordoned: it receives no new workloads", { name }) : t("{name} receives workloads again", { name }));
}
