// The frame of dialogs that create or change an object, and their fields.

import { type ReactNode, useState } from "react";
import { request } from "../../api/client";
import { t } from "../../i18n";
import { attempt, Button, Dialog, Field } from "../../ui/parts";
import { isObjectName } from "./names";

export interface TextProps {
  label: string;
  value: string;
  onChange: (value: string) => void;
  type?: string;
  focus?: boolean;
  hint?: string;
  problem?: string;
  disabled?: boolean;
  placeholder?: string;
}

export function Text({ label, value, onChange, type, focus, hint, problem, disabled, placeholder }: TextProps) {
  return <Field label={label} hint={hint} problem={problem}>{(id) => <input id={id} className="input" type={type} autoFocus={focus} disabled={disabled} placeholder={placeholder} autoComplete={type === "password" ? "new-password" : "off"} value={value} onChange={(event) => onChange(event.target.value)} />}</Field>;
}

/** The name of a new object; that of an existing one does not change. */
export function NameField({ value, isNew, onChange }: { value: string; isNew: boolean; onChange: (value: string) => void }) {
  const problem = value !== "" && !isObjectName(value) ? t("Lowercase letters, digits, dashes and dots.") : "";
  return <Text focus={isNew} disabled={!isNew} label={t("Name")} value={value} onChange={onChange} problem={isNew ? problem : ""} />;
}

export function Select({ label, value, onChange, options, hint, disabled }: { label: string; value: string; onChange: (value: string) => void; options: (string | { id: string; text: string })[]; hint?: string; disabled?: boolean }) {
  const all = options.map((one) => (typeof one === "string" ? { id: one, text: one } : one));
  return (
    <Field label={label} hint={hint}>
      {(id) => (
        <select id={id} className="select" disabled={disabled} value={value} onChange={(event) => onChange(event.target.value)}>
          {!all.some((one) => one.id === value) && <option value="" disabled>{t("Choose one")}</option>}
          {all.map((one) => <option key={one.id} value={one.id}>{one.text}</option>)}
        </select>
      )}
    </Field>
  );
}

export function Check({ text, value, onChange, disabled }: { text: string; value: boolean; onChange: (value: boolean) => void; disabled?: boolean }) {
  return <label className="check"><input type="checkbox" checked={value} disabled={disabled} onChange={(event) => onChange(event.target.checked)} />{text}</label>;
}

/** A set of names, chosen by check boxes. */
export function Choices({ label, names, chosen, onChange }: { label: string; names: string[]; chosen: string[]; onChange: (chosen: string[]) => void }) {
  const all = [...new Set([...names, ...chosen])].sort();
  return (
    <div className="field">
      <span className="label">{label}</span>
      {all.length === 0 ? <span className="muted small">–</span> : <span className="row wrap" style={{ maxHeight: 180, overflow: "auto" }}>{all.map((name) => <Check key={name} text={name} value={chosen.includes(name)} onChange={(isOn) => onChange(isOn ? [...chosen, name] : chosen.filter((other) => other !== name))} />)}</span>}
    </div>
  );
}

interface FormProps {
  title: string;
  valid: boolean;
  onSubmit: () => Promise<unknown>;
  onClose: () => void;
  done: string;
  wide?: boolean;
  children: ReactNode;
}

export function Form({ title, valid, onSubmit, onClose, children, done, wide }: FormProps) {
  const [busy, setBusy] = useState(false);
  const run = async () => {
    setBusy(true);
    const isDone = await attempt(done, onSubmit);
    setBusy(false);
    if (isDone) onClose();
  };
  return (
    <Dialog wide={wide} title={title} onClose={onClose} onSubmit={() => valid && !busy && void run()} footer={<><Button onClick={onClose}>{t("Cancel")}</Button><Button kind="primary" type="submit" disabled={!valid || busy}>{t("Save")}</Button></>}>
      {children}
    </Dialog>
  );
}

/** Deletes what decides about rights. */
export function RemoveObject({ kind, name, path, onClose }: { kind: string; name: string; path: string; onClose: () => void }) {
  const [typed, setTyped] = useState("");
  const remove = async () => {
    if (await attempt(t("{name} is deleted", { name }), () => request(path, { method: "DELETE" }))) onClose();
  };
  return (
    <Dialog title={t("Delete {kind} {name}", { kind, name })} onClose={onClose} onSubmit={() => typed === name && void remove()} footer={<><Button onClick={onClose}>{t("Cancel")}</Button><Button kind="danger" type="submit" icon="trash" disabled={typed !== name}>{t("Delete")}</Button></>}>
      <p>{t("It takes effect with the next request of the users concerned.")}</p>
      <Field label={t("Type {name} to confirm", { name })}>{(id) => <input id={id} className="input" autoComplete="off" autoFocus value={typed} onChange={(event) => setTyped(event.target.value)} />}</Field>
    </Dialog>
  );
}
