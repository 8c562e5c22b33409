// Secrets without their values: a value is read when somebody asks for it, and the audit log has that request.

import { useQuery } from "@tanstack/react-query";
import { ApiError, getJson, query } from "./client";
import { pathOf, SECRETS } from "./resources";
import type { KObject } from "./types";

const REFRESH_MS = 5_000;
const TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1";

/** A Secret whose `data` is left out. */
export interface MaskedSecret extends KObject {
  /** Missing where the control plane does not tell keys without values. */
  keys?: { name: string; bytes: number }[];
}

/** The values by key, decoded where they are text. */
export async function readSecret(namespace: string, name: string): Promise<KObject> {
  return getJson<KObject>(pathOf(SECRETS, namespace, name));
}

export async function readMasked(namespace: string, name: string): Promise<MaskedSecret> {
  try {
    return await getJson<MaskedSecret>(`/flotilla/v1alpha1/secrets/keys${query({ namespace, name })}`);
  } catch (error) {
    if (!(error instanceof ApiError && error.notFound)) throw error;
  }
  // Another kind of control plane, or no such Secret: cells of a table have no values either.
  const table = await getJson<any>(pathOf(SECRETS, namespace, name) + query({ includeObject: "None" }), { headers: { Accept: TABLE } });
  const at = (title: string) => table.columnDefinitions?.findIndex((column: any) => column.name === title);
  return { metadata: { name, namespace, resourceVersion: table.metadata?.resourceVersion }, type: table.rows?.[0]?.cells?.[at("Type")] };
}

/** A Secret that follows its changes, without values; no name loads nothing. */
export function useMaskedSecret(namespace: string, name: string | undefined) {
  const answer = useQuery<MaskedSecret, ApiError>({ queryKey: ["masked-secret", namespace, name], queryFn: () => readMasked(namespace, name ?? ""), enabled: name !== undefined, refetchInterval: REFRESH_MS, retry: false });
  const missing = answer.error?.notFound === true;
  const phase: "loading" | "ready" | "error" = answer.data || missing ? "ready" : answer.error ? "error" : "loading";
  return { phase, object: missing ? undefined : answer.data, error: answer.error ?? undefined, stale: Boolean(answer.error && answer.data), reload: () => void answer.refetch() };
}
