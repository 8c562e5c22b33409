// The failovers that bindings remember.

import type { Subject, TargetCluster } from "../api/types";
import { msg } from "../i18n";
import type { Tone } from "../ui/parts";

/** One move of a workload out of a cluster. */
export interface Move {
  subject: Subject;
  /** Time of the eviction. */
  time: string;
  from: string;
  replicas?: number;
  reason: string;
  message?: string;
  by: string;
  /** The clusters that got the replicas; absent while undecided. */
  to?: TargetCluster[];
  ended?: string;
  outcome?: string;
  returned?: string;
}

export interface Moves {
  /** Newest first. */
  items: Move[];
  total: number;
  left: Subject[];
  leftTotal: number;
}

export function stateOfMove(move: Move): [string, Tone] {
  if (move.returned) return [msg("Returned"), "ok"];
  if (!move.to) return [msg("Not placed yet"), "bad"];
  return move.ended ? [msg("Moved"), "ok"] : [msg("Moving"), "warn"];
}
