// The frame of every page: menu, top bar, palette, shortcuts.

import { type ReactNode, useEffect, useRef, useState } from "react";
import { Link, useLocation } from "wouter";
import { usePermissions } from "../api/manager";
import { t } from "../i18n";
import logo from "../logo.svg";
import { Icon } from "../ui/icons";
import { Button, Menu, Toasts } from "../ui/parts";
import { InstanceSelect } from "./InstanceSelect";
import { NamespaceSelect } from "./NamespaceSelect";
import { atManager, type Destination, DESTINATIONS, MANAGER_DESTINATIONS, places } from "./nav";
import { Palette } from "./Palette";
import { setPrefs, useDark } from "./prefs";
import { logout, type SessionUser } from "./session";
import { ShortcutHelp, useShortcuts } from "./shortcuts";

const SHORTCUT = /Mac|iPhone|iPad/.test(navigator.platform) ? "⌘K" : "Ctrl K";

/** Pages of instances belong to the first place of a manager. */
const OF_FIRST = /^\/(new|import|instances(\/.*)?)?$/;

const isCurrent = (location: string, path: string) =>
  path === "/" ? OF_FIRST.test(location) : path === "/resources" ? location === "/resources" : location === path || location.startsWith(`${path}/`);

export function Shell({ user, children }: { user: SessionUser; children: ReactNode }) {
  const [location, navigate] = useLocation();
  places.current = usePlaces(user);
  const [overlay, setOverlay] = useState<"" | "palette" | "help">("");
  const [menuOpen, setMenuOpen] = useState(false);
  const main = useRef<HTMLElement>(null);
  useShortcuts({ navigate, openPalette: () => setOverlay("palette"), openHelp: () => setOverlay("help") });
  useEffect(() => {
    setMenuOpen(false);
    main.current?.scrollTo(0, 0);
    const place = [...places.current].reverse().find((one) => isCurrent(location, one.path));
    document.title = place ? `${t(place.text)} · Flotilla` : "Flotilla";
  }, [location]);
  return (
    <div className="shell">
      <a className="skip" href="#main" onClick={(event) => { event.preventDefault(); main.current?.focus(); }}>{t("Skip to content")}</a>
      <aside className={`side ${menuOpen ? "open" : ""}`}>
        <Link className="brand" href="/"><img src={logo} alt="" />Flotilla</Link>
        <Navigation location={location} places={places.current} />
      </aside>
      <header className="top">
        <span className="menu-toggle"><Button icon="menu" kind="ghost" label={t("Menu")} onClick={() => setMenuOpen(!menuOpen)} /></span>
        {user.managesInstances && <InstanceSelect />}
        {places.current.some((one) => one.path === "/events") && <NamespaceSelect ofManager={user.managesInstances === true} />}
        <button type="button" className="searchbox" onClick={() => setOverlay("palette")} aria-keyshortcuts="Meta+K Control+K">
          <Icon name="search" />
          <span className="grow ellipsis">{t("Search or run a command")}</span>
          <span className="kbd hide-narrow" aria-hidden="true">{SHORTCUT}</span>
        </button>
        <span className="grow" />
        <ThemeButton />
        <Menu
          label={t("Account")}
          icon="user"
          info={<>{t("Signed in as")}<br /><b>{user.user}</b></>}
          items={[
            { text: t("Settings"), icon: "settings", onSelect: () => navigate("/settings") },
            { text: t("Keyboard shortcuts"), icon: "log", onSelect: () => setOverlay("help") },
            { text: t("Sign out"), icon: "close", onSelect: () => void logout() },
          ]}
        />
      </header>
      <main className="main" id="main" ref={main} tabIndex={0}>
        <div className="page">{children}</div>
      </main>
      {overlay === "palette" && <Palette onClose={() => setOverlay("")} />}
      {overlay === "help" && <ShortcutHelp onClose={() => setOverlay("")} />}
      <Toasts />
    </div>
  );
}

/** The pages that the user can use. */
function usePlaces(user: SessionUser): Destination[] {
  const isManager = atManager(user);
  const may = usePermissions("", isManager);
  return isManager ? MANAGER_DESTINATIONS.filter((one) => !one.needs || one.needs.some(may)) : DESTINATIONS;
}

function Navigation({ location, places: shown }: { location: string; places: Destination[] }) {
  const groups = [...new Set(shown.map((one) => one.group))];
  return (
    <nav className="nav" aria-label={t("Main menu")}>
      {groups.map((group) => (
        <div key={group}>
          {group && <h2>{t(group)}</h2>}
          <ul>
            {shown.filter((one) => one.group === group).map((one) => (
              <li key={one.path}>
                <Link href={one.path} aria-current={isCurrent(location, one.path) ? "page" : undefined}>
                  <Icon name={one.icon} />
                  {t(one.text)}
                </Link>
              </li>
            ))}
          </ul>
        </div>
      ))}
    </nav>
  );
}

function ThemeButton() {
  const dark = useDark();
  return (
    <Button icon={dark ? "sun" : "moon"} kind="ghost" label={dark ? t("Light theme") : t("Dark theme")} onClick={() => void setPrefs({ theme: dark ? "light" : "dark" })} />
  );
}
