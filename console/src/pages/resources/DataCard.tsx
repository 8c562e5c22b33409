// The data of a ConfigMap or a Secret; a value of a Secret is read when it is asked for.

import { useState } from "react";
import { type MaskedSecret, readSecret } from "../../api/secrets";
import type { KObject } from "../../api/types";
import { t } from "../../i18n";
import { Button, Card, Empty, toast } from "../../ui/parts";

function decode(value: string): string {
  try {
    return new TextDecoder().decode(Uint8Array.from(atob(value), (char) => char.charCodeAt(0)));
  } catch {
    return value;
  }
}

export function DataCard({ object }: { object: KObject }) {
  const entries = Object.entries<string>({ ...object.data, ...object.binaryData }).sort();
  return (
    <Card title={t("Data")}>
      {entries.length === 0 ? <Empty title={t("It has no data")} /> : <ul className="stack">{entries.map(([key, value]) => <Entry key={key} name={key} value={value} />)}</ul>}
    </Card>
  );
}

function Entry({ name, value, note, action }: { name: string; value: string; note?: string; action?: React.ReactNode }) {
  return (
    <li className="stack tight">
      <div className="row between"><span><code><b>{name}</b></code> <span className="muted small">{note}</span></span>{action}</div>
      <pre className="pre" tabIndex={0} style={{ maxHeight: 220 }}>{value}</pre>
    </li>
  );
}

export function SecretCard({ secret }: { secret: MaskedSecret }) {
  const { name, namespace = "" } = secret.metadata;
  const [shown, setShown] = useState<Record<string, string>>({});
  /** Reads the Secret; values that were not asked for are dropped at once. */
  const reveal = async (wanted: (key: string) => boolean) => {
    try {
      const { data = {} } = await readSecret(namespace, name);
      const values = Object.entries<string>(data).filter(([key]) => wanted(key)).map(([key, value]) => [key, decode(value)]);
      setShown((before) => ({ ...before, ...Object.fromEntries(values) }));
    } catch (error) {
      toast((error as Error).message, true);
    }
  };
  const hide = (key: string) => setShown(({ [key]: _, ...rest }) => rest);
  const keys = secret.keys ?? Object.keys(shown).sort().map((key) => ({ name: key, bytes: undefined }));
  return (
    <Card title={t("Data")}>
      {keys.length > 0 ? (
        <ul className="stack">
          {keys.map(({ name: key, bytes }) => {
            const visible = shown[key] !== undefined;
            const action = <Button small icon="eye" onClick={() => (visible ? hide(key) : void reveal((one) => one === key))} label={visible ? t("Hide {key}", { key }) : t("Reveal {key}", { key })}>{visible ? t("Hide") : t("Reveal")}</Button>;
            return <Entry key={key} name={key} note={bytes === undefined ? undefined : t("{count} bytes", { count: bytes.toLocaleString() })} value={shown[key] ?? "••••••••"} action={action} />;
          })}
        </ul>
      ) : secret.keys ? <Empty title={t("It has no data")} /> : (
        <Empty title={t("The values are hidden")} icon="lock"><p>{t("This control plane returns the keys only together with the values.")}</p><Button icon="eye" onClick={() => void reveal(() => true)}>{t("Reveal")}</Button></Empty>
      )}
      <p className="small muted">{t("Each time a value is revealed, the audit log records who read the Secret.")}</p>
    </Card>
  );
}
