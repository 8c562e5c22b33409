// Samples of the control plane's own metrics.

import { useQuery } from "@tanstack/react-query";
import type { History } from "../model/metrics";
import { type ApiError, getJson, query } from "./client";

/** Samples of the metrics with these names, or of all. */
export function useHistory(seconds: number, metrics: string[] = []) {
  const wanted = metrics.map((metric) => `&metric=${encodeURIComponent(metric)}`).join("");
  return useQuery<History, ApiError>({
    queryKey: ["history", seconds, wanted],
    queryFn: () => getJson(`/flotilla/v1alpha1/metrics/history${query({ seconds })}${wanted}`),
    refetchInterval: 10_000,
    placeholderData: (before) => before,
  });
}
