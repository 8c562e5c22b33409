// The manager's own API: its objects, streams of them, and the permissions of the signed-in user.

import { useQuery } from "@tanstack/react-query";
import { ApiError, getJson, ofServer, query, request } from "./client";
import { backoff, lines, pause, SharedList, type SharedState, useShared } from "./shared";
import type { Condition } from "./types";

export const MANAGER = ofServer("/flotilla/manager/v1alpha1");
export const INSTANCES = `${MANAGER}/instances`;
export const INVENTORY = `${MANAGER}/clusters`;

export const instancePath = (name: string, rest = "") => `${INSTANCES}/${encodeURIComponent(name)}${rest}`;
export const inventoryPath = (name: string, rest = "") => `${INVENTORY}/${encodeURIComponent(name)}${rest}`;

/** 64-bit numbers are texts in this API. */
type Int64 = string | number;

export interface Statistic {
  total?: Int64;
  ready?: Int64;
}

/** A control plane of the manager. Callers without a role on the whole instance get names and states. */
export interface Instance {
  name: string;
  namespace: string;
  uid: string;
  etag: string;
  displayName: string;
  description: string;
  labels: Record<string, string>;
  mode: string;
  state: string;
  phase: string;
  message: string;
  suspended: boolean;
  protected: boolean;
  hibernateAfter: string;
  expose: string;
  createTime?: string;
  startTime?: string;
  karmadaVersion: string;
  kubernetesVersion: string;
  endpoint: string;
  summary?: { clusters?: Statistic; nodes?: Statistic; workloads?: Record<string, Statistic>; allocatable?: Record<string, string>; allocated?: Record<string, string> };
  conditions: Condition[];
  role: string;
  namespaceRoles: Record<string, string>;
  reduced: boolean;
}

/** A cluster of the inventory. */
export interface ManagedCluster {
  name: string;
  etag: string;
  displayName: string;
  provider: string;
  region: string;
  zone: string;
  labels: Record<string, string>;
  instances: string[];
  kubernetesVersion: string;
  systemId: string;
  phase: string;
  conditions: Condition[];
  joinedTo: { instance: string; message: string }[];
  createTime?: string;
  mode: string;
}

export interface StreamState<T> extends SharedState {
  items: T[];
  total: number;
  reload: () => void;
}

const FLUSH_MS = 100;
/** A stream that ends at once must not be opened again and again. */
const REOPEN_MS = 1_000;

const NONE: StreamState<any> = { phase: "loading", items: [], total: 0, stale: false, reload: () => {} };

/** Objects by name from a stream that sends all of them, a mark, and then their changes. */
class ManagerStream<T extends { name: string }> extends SharedList<StreamState<T>> {
  private items = new Map<string, T>();

  constructor(private path: string, private field: string) {
    super({ ...NONE, reload: () => this.restart() });
    this.start();
  }

  protected clear() {
    this.items.clear();
  }

  protected watchOf() {
    return { path: this.path, accept: "application/x-ndjson" };
  }

  protected async load(signal: AbortSignal) {
    for (let failures = 0; !signal.aborted; ) {
      try {
        await this.read(signal);
        failures = 0;
        await pause(REOPEN_MS, signal);
      } catch (error) {
        const problem = error instanceof ApiError ? error : new ApiError(0, "Unreachable", "the stream was interrupted");
        if (signal.aborted || this.state.phase !== "ready" || this.isFinal(problem)) throw problem;
        this.set({ stale: true, error: problem });
        await backoff(failures++, signal);
      }
    }
  }

  protected apply(type: string, item: T) {
    if (type === "CHANGE_TYPE_DELETED") this.items.delete(item.name);
    else this.items.set(item.name, item);
    if (this.state.phase !== "ready") return;
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      this.publish({});
    }, FLUSH_MS);
  }

  private async read(signal: AbortSignal) {
    const response = await request(this.path, { signal, headers: { Accept: "application/x-ndjson" } });
    const sent = new Set<string>();
    for await (const { result, error } of lines(response)) {
      if (error) throw new ApiError(500, "", error.message ?? "the stream ended");
      const item: T | undefined = result[this.field];
      if (item) {
        sent.add(item.name);
        this.apply(result.type, item);
      } else {
        // What was there before and is not sent any more is gone.
        for (const name of this.items.keys()) if (!sent.has(name)) this.items.delete(name);
        this.publish({ phase: "ready", stale: false, error: undefined });
      }
    }
  }

  private publish(change: Partial<StreamState<T>>) {
    const items = [...this.items.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
    this.set({ ...change, items, total: items.length });
  }
}

const shared = new Map<string, ManagerStream<any>>();

function useStream<T extends { name: string }>(path: string, field: string): StreamState<T> {
  return useShared<StreamState<T>, ManagerStream<T>>(shared, path, () => new ManagerStream<T>(path, field), NONE);
}

/** The instances that the user may see; an empty path loads nothing. */
export const useInstances = (wanted = true) => useStream<Instance>(wanted ? `${INSTANCES}:watch` : "", "instance");

/** The clusters of the inventory that the user may see. */
export const useInventory = (wanted = true) => useStream<ManagedCluster>(wanted ? `${INVENTORY}:watch` : "", "cluster");

const MINE_STALE_MS = 30_000;

/** Decides whether the user has a permission on the platform, or on an instance; false until that is known. */
export function usePermissions(instance = "", wanted = true): (permission: string) => boolean {
  const mine = useQuery<{ permissions?: string[] }, ApiError>({
    queryKey: ["permissions", instance],
    queryFn: () => getJson(`${MANAGER}/permissions:mine${query({ instance })}`),
    staleTime: MINE_STALE_MS,
    enabled: wanted,
  });
  return (permission) => mine.data?.permissions?.includes(permission) ?? false;
}

/** All pages of a list of the manager. */
export async function listAll<T>(path: string, field: string): Promise<T[]> {
  const found: T[] = [];
  for (let pageToken = ""; ; ) {
    const page = await getJson<any>(`${path}${query({ pageSize: 500, pageToken })}`);
    found.push(...(page[field] ?? []));
    pageToken = page.nextPageToken ?? "";
    if (!pageToken) return found;
  }
}

/** An answer of the manager, read again after `refreshMs`. */
export function useManager<T>(path: string, { refreshMs, wanted = true }: { refreshMs?: number; wanted?: boolean } = {}) {
  return useQuery<T, ApiError>({ queryKey: ["manager", path], queryFn: () => getJson(path), refetchInterval: refreshMs, enabled: wanted });
}
