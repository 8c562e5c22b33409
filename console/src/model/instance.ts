// What the console derives from an instance of a manager.

import { conditionOf, type KObject } from "../api/types";
import type { Tone } from "../ui/parts";

export const INSTANCES_PATH = "/apis/operator.karmada.io/v1alpha1/karmadas";

/** The namespace of instances that are addressed by their name alone. */
const HOME = "karmada-system";

/** The name of the instance in paths. */
export const instanceOf = ({ metadata }: KObject) => (metadata.namespace === HOME ? metadata.name : `${metadata.namespace}~${metadata.name}`);

export const modeOf = (instance: KObject) => instance.metadata.annotations?.["flotilla.dev/mode"] ?? "in-process";

export function phaseOf(instance: KObject): [string, Tone] {
  const ready = conditionOf(instance, "Ready")?.status === "True";
  const phase: string = instance.status?.phase || (ready ? "Running" : "Pending");
  return [phase, ready ? "ok" : phase === "Hibernated" || phase === "Suspended" ? "" : phase === "Failed" ? "bad" : "warn"];
}
