// Buttons.

import type { ReactNode } from "react";
import { Icon, type IconName } from "./icons";

interface ButtonProps {
  children?: ReactNode;
  icon?: IconName;
  onClick?: () => void;
  kind?: "primary" | "danger" | "ghost";
  small?: boolean;
  disabled?: boolean;
  label?: string;
  type?: "button" | "submit";
  pressed?: boolean;
}

export function Button({ children, icon, onClick, kind, small, disabled, label, type = "button", pressed }: ButtonProps) {
  const names = ["btn", kind ?? "", small ? "small" : "", children === undefined ? "icon" : ""].join(" ");
  return (
    <button type={type} className={names} onClick={onClick} disabled={disabled} aria-label={label} title={label} aria-pressed={pressed}>
      {icon && <Icon name={icon} />}
      {children}
    </button>
  );
}
