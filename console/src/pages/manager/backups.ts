// Backups of instances in the data directory of the manager.

import { request, send } from "../../api/client";
import { instancePath } from "../../api/manager";
import { saveBlob } from "../../ui/save";

export interface Backup {
  id: string;
  createTime?: string;
  /** 64-bit numbers are texts in this API. */
  bytes?: string | number;
}

export const backupPath = (instance: string, id = "", verb = "") => instancePath(instance, `/backups${id ? `/${encodeURIComponent(id)}${verb}` : ""}`);

export const takeBackup = (instance: string) => send<Backup>("POST", backupPath(instance), {});

/** A link cannot send the header that the server requires of the console, so that the file is read first. */
export async function downloadBackup(instance: string, id: string) {
  const response = await request(backupPath(instance, id, ":export"), { headers: { Accept: "*/*" } });
  saveBlob(`${instance}-${id}.backup`, await response.blob());
}
