// Containers of pods, as choices for logs and terminals.

import type { KObject } from "../api/types";

export interface ContainerChoice {
  name: string;
  kind: "" | "init" | "ephemeral";
}

/** The containers of a pod, the main ones first. */
export function containersOf(pod: KObject): ContainerChoice[] {
  const of = (field: string, kind: ContainerChoice["kind"]) => (pod.spec?.[field] ?? []).map(({ name }: { name: string }) => ({ name, kind }));
  return [...of("containers", ""), ...of("ephemeralContainers", "ephemeral"), ...of("initContainers", "init")];
}

/** The containers of several pods, each name once. */
export function containersOfAll(pods: KObject[]): ContainerChoice[] {
  return [...new Map(pods.flatMap(containersOf).map((one) => [one.name, one])).values()];
}

/** The container that tools take when none is named. */
export function defaultContainer(pod: KObject): string {
  const named = pod.metadata.annotations?.["kubectl.kubernetes.io/default-container"];
  const all = containersOf(pod);
  return (all.find((one) => one.name === named) ?? all[0])?.name ?? "";
}

/** What a choice for several pods means for one of them: none chosen is its default, `*` all that run, a name the one it has. */
export function chosenContainers(pod: KObject, choice: string): string[] {
  if (choice === "*") return containersOf(pod).filter((one) => one.kind !== "init").map((one) => one.name);
  const name = choice || defaultContainer(pod);
  return containersOf(pod).some((one) => one.name === name) ? [name] : [];
}

/** The words of a command; quotes keep spaces. */
export function wordsOfCommand(text: string): string[] {
  return [...text.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map((match) => match[1] ?? match[2] ?? match[3] ?? "");
}
