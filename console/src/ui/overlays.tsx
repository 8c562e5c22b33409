// Dialogs, menus and messages.

import { type ReactNode, useEffect, useId, useRef, useState, useSyncExternalStore } from "react";
import { t } from "../i18n";
import { Button } from "./button";
import { Icon, type IconName } from "./icons";

export function Dialog({ title, onClose, children, footer, wide, onSubmit }: { title: ReactNode; onClose: () => void; children: ReactNode; footer?: ReactNode; wide?: boolean; onSubmit?: () => void }) {
  const element = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    element.current?.showModal();
    // The browser would choose the button that closes it; the field to fill in comes first.
    element.current?.querySelector<HTMLElement>(".content :is(input, select, textarea)")?.focus();
  }, []);
  return (
    <dialog ref={element} className={wide ? "wide" : ""} aria-labelledby={id} onClose={onClose} onClick={(event) => event.target === element.current && onClose()}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          onSubmit?.();
        }}
      >
        <header>
          <h2 id={id}>{title}</h2>
          <Button icon="close" kind="ghost" small label={t("Close")} onClick={onClose} />
        </header>
        <div className="content">{children}</div>
        {footer && <footer>{footer}</footer>}
      </form>
    </dialog>
  );
}

export interface MenuItem {
  text: string;
  icon?: IconName;
  onSelect: () => void;
  danger?: boolean;
  disabled?: boolean;
}

export function Menu({ label, icon = "more", items, info, children }: { label: string; icon?: IconName; items: MenuItem[]; info?: ReactNode; children?: ReactNode }) {
  const [open, setOpen] = useState(false);
  const root = useRef<HTMLDivElement>(null);
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!open) return;
    // The top layer is not cut off by scrolling tables; its place follows from that of the button.
    const button = root.current?.getBoundingClientRect();
    if (list.current && button) {
      list.current.showPopover();
      const { width, height } = list.current.getBoundingClientRect();
      const below = button.bottom + 6 + height <= innerHeight;
      list.current.style.top = `${below ? button.bottom + 6 : Math.max(8, button.top - 6 - height)}px`;
      list.current.style.left = `${Math.max(8, button.right - width)}px`;
    }
    root.current?.querySelector<HTMLElement>('[role="menuitem"]:not(:disabled)')?.focus();
    const outside = (event: Event) => !root.current?.contains(event.target as Node) && setOpen(false);
    document.addEventListener("pointerdown", outside);
    return () => document.removeEventListener("pointerdown", outside);
  }, [open]);
  const onKeyDown = (event: React.KeyboardEvent) => {
    if (!open) return;
    const all = [...(root.current?.querySelectorAll<HTMLElement>('[role="menuitem"]:not(:disabled)') ?? [])];
    const at = all.indexOf(document.activeElement as HTMLElement);
    if (event.key === "Escape" || event.key === "Tab") {
      setOpen(false);
      root.current?.querySelector("button")?.focus();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      all[(at + (event.key === "ArrowDown" ? 1 : all.length - 1)) % all.length]?.focus();
    } else return;
    event.stopPropagation();
  };
  return (
    <div className="menu" ref={root} onKeyDown={onKeyDown}>
      <button type="button" className={children ? "btn" : "btn icon"} aria-haspopup="menu" aria-expanded={open} aria-label={label} title={label} onClick={() => setOpen(!open)}>
        {children ?? <Icon name={icon} />}
      </button>
      {open && (
        <div role="menu" aria-label={label} ref={list} popover="manual">
          {info && <div className="info" role="presentation">{info}</div>}
          {items.map((item) => (
            <button key={item.text} type="button" role="menuitem" tabIndex={-1} className={item.danger ? "danger" : ""} disabled={item.disabled} onClick={() => { setOpen(false); item.onSelect(); }}>
              {item.icon && <Icon name={item.icon} size={16} />}
              {item.text}
            </button>
          ))}
        </div>
      )}
    </div>
  );
}

interface ToastMessage { id: number; text: string; bad: boolean }
let toasts: ToastMessage[] = [];
let nextToast = 1;
const toastListeners = new Set<() => void>();
const changeToasts = (next: ToastMessage[]) => {
  toasts = next;
  for (const listener of toastListeners) listener();
};

export function toast(text: string, bad = false) {
  const id = nextToast++;
  changeToasts([...toasts, { id, text, bad }]);
  setTimeout(() => changeToasts(toasts.filter((one) => one.id !== id)), bad ? 12_000 : 4_000);
}

/** Runs an action and reports its outcome; returns whether it succeeded. */
export async function attempt(done: string, action: () => Promise<unknown>): Promise<boolean> {
  try {
    await action();
    toast(done);
    return true;
  } catch (error) {
    toast(error instanceof Error ? error.message : String(error), true);
    return false;
  }
}

export function Toasts() {
  const shown = useSyncExternalStore((listener) => (toastListeners.add(listener), () => toastListeners.delete(listener)), () => toasts);
  return (
    <div className="toasts" role="status" aria-live="polite">
      {shown.map((one) => (
        <div key={one.id} className={`toast ${one.bad ? "bad" : ""}`}>
          <span className="grow">{one.text}</span>
          <Button small kind="ghost" icon="close" label={t("Close")} onClick={() => changeToasts(toasts.filter((other) => other.id !== one.id))} />
        </div>
      ))}
    </div>
  );
}

/** A command for the terminal, with a button that copies it. */
export function Command({ text }: { text: string }) {
  return (
    <div className="row" style={{ alignItems: "stretch" }}>
      <pre className="pre grow" tabIndex={0}>{text}</pre>
      <Button icon="copy" label={t("Copy")} onClick={() => void navigator.clipboard?.writeText(text).then(() => toast(t("Copied")))} />
    </div>
  );
}
