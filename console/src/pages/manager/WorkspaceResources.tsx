// The instances and namespaces of a workspace with their state.

import { MANAGER, useManager } from "../../api/manager";
import { t } from "../../i18n";
import { instanceHome } from "../../model/instance";
import { Badge, Button, Dialog, Empty, Loading, Problem } from "../../ui/parts";

interface Resource {
  instance: string;
  namespace: string;
  state: string;
}

export function WorkspaceResources({ workspace, onClose }: { workspace: string; onClose: () => void }) {
  const list = useManager<{ resources?: Resource[] }>(`${MANAGER}/workspaces/${encodeURIComponent(workspace)}/resources`);
  const resources = list.data?.resources ?? [];
  return (
    <Dialog title={t("Contents of {name}", { name: workspace })} onClose={onClose} footer={<Button onClick={onClose}>{t("Close")}</Button>}>
      {list.isPending ? <Loading /> : list.error ? <Problem error={list.error} /> : resources.length === 0 ? <Empty title={t("Nothing here yet")} /> : (
        <table className="simple">
          <thead><tr><th>{t("Instance")}</th><th>{t("Namespace")}</th><th>{t("State")}</th></tr></thead>
          <tbody>
            {resources.map((one) => (
              <tr key={`${one.instance}/${one.namespace}`}>
                <td><a href={instanceHome(one.instance)}>{one.instance}</a></td>
                <td>{one.namespace || t("all namespaces")}</td>
                <td><Badge tone={one.state === "Running" ? "ok" : one.state === "Missing" ? "bad" : "warn"}>{t(one.state)}</Badge></td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Dialog>
  );
}
