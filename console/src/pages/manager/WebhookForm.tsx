// Creates or changes a webhook, with the key that signs what is sent.

import { useState } from "react";
import { send } from "../../api/client";
import { MANAGER } from "../../api/manager";
import { pathOf, SECRETS } from "../../api/resources";
import { t } from "../../i18n";
import { attempt, Button, Command, Dialog, Field } from "../../ui/parts";
import { Check, NameField, Select, Text } from "./Form";
import { isObjectName } from "./names";

export interface Webhook {
  name: string;
  etag?: string;
  url?: string;
  events?: string[];
  secretRef?: { namespace: string; name: string; key: string };
  disabled?: boolean;
  caBundle?: string;
  acceptsBindings?: boolean;
  grantsPlatformRoles?: boolean;
}

/** Where the keys that are made here are stored. */
const SECRETS_IN = "karmada-system";
const KEY_FIELD = "key";
const KEY_BYTES = 32;

const randomKey = () => [...crypto.getRandomValues(new Uint8Array(KEY_BYTES))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

/** Receivers on the manager's own machine need no certificate. */
const URLS = /^(https:\/\/[^\s@#]+|http:\/\/(127\.0\.0\.1|\[::1\])([:/][^\s@#]*)?)$/;

export function WebhookForm({ hook, onClose }: { hook?: Webhook; onClose: () => void }) {
  const [form, setForm] = useState({
    name: hook?.name ?? "",
    url: hook?.url ?? "",
    signing: hook ? "secret" : "new",
    namespace: hook?.secretRef?.namespace || SECRETS_IN,
    secret: hook?.secretRef?.name ?? "",
    key: hook?.secretRef?.key || KEY_FIELD,
    caBundle: hook?.caBundle ?? "",
    acceptsBindings: hook?.acceptsBindings ?? false,
    grantsPlatformRoles: hook?.grantsPlatformRoles ?? false,
  });
  const [made, setMade] = useState("");
  const [busy, setBusy] = useState(false);
  const set = (change: Partial<typeof form>) => setForm({ ...form, ...change });
  const problem = form.url === "" || URLS.test(form.url) ? "" : t("It must begin with https://, without a user name and spaces.");
  const valid = isObjectName(form.name) && form.url !== "" && problem === "" && (form.signing !== "secret" || form.secret !== "") && !busy;
  const save = async () => {
    const key = randomKey();
    const secretRef = form.signing === "new" ? { namespace: SECRETS_IN, name: `webhook-${form.name}`, key: KEY_FIELD } : { namespace: form.namespace, name: form.secret, key: form.key };
    const body = { name: form.name, etag: hook?.etag, url: form.url, events: hook?.events ?? [], secretRef, disabled: hook?.disabled ?? false, caBundle: form.caBundle, acceptsBindings: form.acceptsBindings, grantsPlatformRoles: form.acceptsBindings && form.grantsPlatformRoles };
    setBusy(true);
    const done = await attempt(hook ? t("Saved") : t("{name} is created", { name: form.name }), async () => {
      if (form.signing === "new") await send("POST", pathOf(SECRETS, SECRETS_IN), { metadata: { name: `webhook-${form.name}`, namespace: SECRETS_IN }, stringData: { [KEY_FIELD]: key } });
      await (hook ? send("PUT", `${MANAGER}/webhooks/${encodeURIComponent(hook.name)}`, body) : send("POST", `${MANAGER}/webhooks`, body));
    });
    setBusy(false);
    if (done && form.signing === "new") setMade(key);
    else if (done) onClose();
  };
  if (made) {
    return (
      <Dialog title={t("Key of {name}", { name: form.name })} onClose={onClose} footer={<Button onClick={onClose}>{t("Close")}</Button>}>
        <p>{t("Give this key to the receiver. It signs every delivery, and every push of bindings must be signed with it.")}</p>
        <Command text={made} />
        <p className="muted small">{t("It is stored in the Secret {name}.", { name: `${SECRETS_IN}/webhook-${form.name}` })}</p>
      </Dialog>
    );
  }
  return (
    <Dialog wide title={hook ? t("Change {name}", { name: hook.name }) : t("New webhook")} onClose={onClose} onSubmit={() => valid && void save()} footer={<><Button onClick={onClose}>{t("Cancel")}</Button><Button kind="primary" type="submit" disabled={!valid}>{t("Save")}</Button></>}>
      <div className="grid-s">
        <NameField isNew={!hook} value={form.name} onChange={(name) => set({ name })} />
        <Text label={t("Address")} value={form.url} onChange={(url) => set({ url })} placeholder="https://iam.example.com/hooks/flotilla" problem={problem} />
      </div>
      <div className="grid-s">
        <Select label={t("Signing key")} value={form.signing} onChange={(signing) => set({ signing })} options={[{ id: "new", text: t("A new key") }, { id: "secret", text: t("From a Secret") }]} />
        {form.signing === "secret" && <Text label={t("Namespace of the Secret")} value={form.namespace} onChange={(namespace) => set({ namespace })} />}
        {form.signing === "secret" && <Text label={t("Name of the Secret")} value={form.secret} onChange={(secret) => set({ secret })} />}
        {form.signing === "secret" && <Text label={t("Key in the Secret")} value={form.key} onChange={(key) => set({ key })} />}
      </div>
      <Check text={t("Take bindings from this system, signed with the key")} value={form.acceptsBindings} onChange={(acceptsBindings) => set({ acceptsBindings })} />
      <Check text={t("These bindings may grant roles on the whole platform")} value={form.acceptsBindings && form.grantsPlatformRoles} disabled={!form.acceptsBindings} onChange={(grantsPlatformRoles) => set({ grantsPlatformRoles })} />
      <Field label={t("CA certificates (optional)")} hint={t("PEM. Without them the certificates of the system are used.")}>{(id) => <textarea id={id} className="textarea mono" rows={4} spellCheck={false} value={form.caBundle} onChange={(event) => set({ caBundle: event.target.value })} />}</Field>
    </Dialog>
  );
}
