// The namespaces that a user can choose: all of them, or those in which the user has a role.

import { useQuery } from "@tanstack/react-query";
import { useEffect, useMemo } from "react";
import { type ApiError, getJson, instanceName } from "./client";
import { type Row, useLive } from "./live";
import { type Instance, instancePath } from "./manager";
import { NAMESPACES, pathOf } from "./resources";

const PAGE = 500;
/** Names offered; a longer list is no choice for people. */
const NAMES_MAX = 5_000;

export interface NamespaceChoice {
  names: string[];
  /** The user has rights in these namespaces only, as far as is known. */
  isLimited: boolean;
  ready: boolean;
}

/** The namespaces in which a role is bound to the user, according to the control plane and to the manager. */
async function ownNamespaces(ofManager: boolean): Promise<string[]> {
  const [bound, instance] = await Promise.allSettled([
    getJson<{ items?: string[] }>("/flotilla/v1alpha1/namespaces"),
    ofManager && instanceName ? getJson<Instance>(instancePath(instanceName)) : undefined,
  ]);
  const names = [
    ...(bound.status === "fulfilled" ? (bound.value.items ?? []) : []),
    ...(instance.status === "fulfilled" ? Object.keys(instance.value?.namespaceRoles ?? {}) : []),
  ];
  return [...new Set(names)].sort();
}

export function useNamespaces(ofManager: boolean): NamespaceChoice {
  const live = useLive<Row>({ path: pathOf(NAMESPACES), table: true, limit: PAGE });
  const isLimited = live.error?.forbidden === true;
  const own = useQuery<string[], ApiError>({ queryKey: ["own-namespaces"], queryFn: () => ownNamespaces(ofManager), enabled: isLimited, staleTime: 30_000 });
  const { hasMore, loadingMore, loadMore } = live;
  const loaded = live.items.length;
  useEffect(() => {
    if (hasMore && !loadingMore && loaded < NAMES_MAX) loadMore();
  }, [hasMore, loadingMore, loadMore, loaded]);
  return useMemo(
    () => (isLimited ? { names: own.data ?? [], isLimited, ready: !own.isPending } : { names: live.items.map((item) => item.metadata.name), isLimited, ready: live.phase === "ready" }),
    [isLimited, own.data, own.isPending, live.items, live.phase],
  );
}
