// Clusters of a workload with their replicas.

import { Link } from "wouter";
import type { PerCluster } from "../model/binding";

export function ClusterChips({ clusters, max = 4 }: { clusters: PerCluster[]; max?: number }) {
  if (clusters.length === 0) return <span className="muted">–</span>;
  return (
    <span className="chips">
      {clusters.slice(0, max).map((one) => (
        <Link className="chip" key={one.name} href={`/clusters/${one.name}`} title={`${one.name}: ${one.state}`}>
          <span className={`dot ${one.tone}`} />
          <span className="ellipsis">{one.name}</span>
          {one.desired !== undefined && <b>{one.ready ?? 0}/{one.desired}</b>}
          <span className="sr">{one.state}</span>
        </Link>
      ))}
      {clusters.length > max && <span className="chip">+{clusters.length - max}</span>}
    </span>
  );
}
