// What the scheduler did in the last hour, as numbers with small charts.

import { Link } from "wouter";
import { useHistory } from "../api/history";
import { t } from "../i18n";
import { Card, Loading } from "../ui/parts";
import { Sparkline } from "../ui/sparkline";

const SCHEDULED = "karmada_scheduler_schedule_attempts_total/scheduled";
const FAILED = "karmada_scheduler_schedule_attempts_total/error";
const EVICTED = "eviction_processing_total";

/** Nothing for users who may not read metrics. */
export function Activity() {
  const history = useHistory(3_600, [SCHEDULED, FAILED, EVICTED]);
  if (history.error && !history.data) return null;
  const lines = [
    [t("Scheduled bindings"), [SCHEDULED], "ok"],
    [t("Scheduling failures"), [FAILED], "bad"],
    [t("Evictions"), [EVICTED], "warn"],
  ] as const;
  return (
    <Card title={t("Last hour")} actions={<Link href="/metrics">{t("All charts")}</Link>}>
      {!history.data ? <Loading /> : (
        <div className="stack">
          {lines.map(([text, keys, tone]) => {
            const { times, series, stepSeconds } = history.data!;
            const values = times.map((_, index) => keys.reduce((sum, key) => sum + (series[key]?.[index] ?? 0), 0));
            const count = Math.round(values.reduce((sum, value) => sum + value * stepSeconds, 0));
            return (
              <div className="activity" key={text}>
                <span>{text}</span>
                <Sparkline values={values} tone={tone} label={text} />
                <b>{count.toLocaleString()}</b>
              </div>
            );
          })}
        </div>
      )}
    </Card>
  );
}
