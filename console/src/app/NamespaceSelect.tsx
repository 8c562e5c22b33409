// The namespace that lists are limited to; it is a setting of the browser and holds on all pages.

import { useEffect, useState } from "react";
import { useNamespaces } from "../api/namespaces";
import { t } from "../i18n";
import { Button, Dialog, Field } from "../ui/parts";
import { setPrefs, usePrefs } from "./prefs";

const OTHER = "\0other";

const isNamespace = (name: string) => /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(name);

export function NamespaceSelect({ ofManager }: { ofManager: boolean }) {
  const { namespace } = usePrefs();
  const { names, isLimited, ready } = useNamespaces(ofManager);
  const [asking, setAsking] = useState(false);
  const first = names[0];
  // Lists of all namespaces are refused to a user who has rights in some only.
  useEffect(() => {
    if (isLimited && ready && first !== undefined && namespace === "") void setPrefs({ namespace: first });
  }, [isLimited, ready, first, namespace]);
  const all = namespace && !names.includes(namespace) ? [namespace, ...names] : names;
  const choose = (value: string) => (value === OTHER ? setAsking(true) : void setPrefs({ namespace: value }));
  return (
    <>
      <select className="select scope" aria-label={t("Namespace")} value={namespace} onChange={(event) => choose(event.target.value)}>
        {!(isLimited && first !== undefined) && <option value="">{t("All namespaces")}</option>}
        {all.map((name) => <option key={name} value={name}>{name}</option>)}
        {isLimited && <option value={OTHER}>{t("Another namespace…")}</option>}
      </select>
      {asking && <Ask onClose={() => setAsking(false)} />}
    </>
  );
}

/** For rights that the control plane cannot list, such as those of an external authorizer. */
function Ask({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState("");
  const valid = isNamespace(name);
  const choose = () => {
    void setPrefs({ namespace: name });
    onClose();
  };
  return (
    <Dialog title={t("Another namespace")} onClose={onClose} onSubmit={() => valid && choose()} footer={<><Button onClick={onClose}>{t("Cancel")}</Button><Button kind="primary" type="submit" disabled={!valid}>{t("Choose")}</Button></>}>
      <p>{t("You are not allowed to list all namespaces. Enter the name of a namespace in which you have a role.")}</p>
      <Field label={t("Namespace")} problem={name === "" || valid ? "" : t("Lowercase letters, digits and dashes.")}>{(id) => <input id={id} className="input" autoFocus autoComplete="off" value={name} onChange={(event) => setName(event.target.value)} />}</Field>
    </Dialog>
  );
}
