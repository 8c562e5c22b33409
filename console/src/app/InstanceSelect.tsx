// Switches between the instances of a manager.

import { instanceName, ofServer } from "../api/client";
import { useLive } from "../api/live";
import { instanceOf, INSTANCES_PATH } from "../model/instance";
import { t } from "../i18n";

export function InstanceSelect() {
  const live = useLive({ path: ofServer(INSTANCES_PATH) });
  const names = live.items.map(instanceOf);
  const all = instanceName && !names.includes(instanceName) ? [instanceName, ...names] : names;
  return (
    <select className="select" style={{ width: "auto", maxWidth: 200 }} aria-label={t("Instance")} value={instanceName} onChange={(event) => location.assign(event.target.value ? `/console/i/${event.target.value}/` : "/console/")}>
      <option value="">{t("All instances")}</option>
      {all.map((name) => <option key={name} value={name}>{name}</option>)}
    </select>
  );
}
