// The terminal emulator, loaded when a terminal is opened.

import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";

const nonce = document.querySelector<HTMLMetaElement>('meta[name="csp-nonce"]')?.content ?? "";

/** The emulator adds style elements; the policy of the page admits them by the nonce. */
function withNonce<T>(create: () => T): T {
  const original = document.createElement;
  document.createElement = function (this: Document, ...given: Parameters<typeof original>) {
    const element = original.apply(this, given);
    if (String(given[0]).toLowerCase() === "style") element.setAttribute("nonce", nonce);
    return element;
  } as typeof original;
  try {
    return create();
  } finally {
    document.createElement = original;
  }
}

export function openTerminal(parent: HTMLElement) {
  // Links and clipboard access by the program in the container stay off.
  const terminal = new Terminal({ fontSize: 13, fontFamily: getComputedStyle(document.documentElement).getPropertyValue("--mono"), theme: { background: "#0c1015" }, cursorBlink: true, scrollback: 5_000 });
  const fit = new FitAddon();
  terminal.loadAddon(fit);
  withNonce(() => terminal.open(parent));
  fit.fit();
  const observer = new ResizeObserver(() => fit.fit());
  observer.observe(parent);
  terminal.focus();
  return {
    write: (bytes: Uint8Array) => terminal.write(bytes),
    columns: () => terminal.cols,
    rows: () => terminal.rows,
    onInput: (listener: (text: string) => void) => void terminal.onData(listener),
    onResize: (listener: () => void) => void terminal.onResize(listener),
    destroy: () => (observer.disconnect(), terminal.dispose()),
  };
}
