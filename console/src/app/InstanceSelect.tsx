// Switches between the instances of a manager.

import { instanceName } from "../api/client";
import { useInstances } from "../api/manager";
import { t } from "../i18n";
import { instanceHome } from "../model/instance";

export function InstanceSelect() {
  const { items } = useInstances();
  const names = items.map((one) => one.name);
  const all = instanceName && !names.includes(instanceName) ? [instanceName, ...names] : names;
  return (
    <select className="select scope" aria-label={t("Instance")} value={instanceName} onChange={(event) => location.assign(event.target.value ? instanceHome(event.target.value) : "/console/")}>
      <option value="">{t("All instances")}</option>
      {all.map((name) => <option key={name} value={name}>{name}</option>)}
    </select>
  );
}
