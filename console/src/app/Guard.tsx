// Catches errors of a page, so that the menu stays usable.

import { Component, type ReactNode } from "react";
import { Problem } from "../ui/parts";

export class Guard extends Component<{ children: ReactNode }, { error?: Error }> {
  override state: { error?: Error } = {};

  static getDerivedStateFromError(error: Error) {
    return { error };
  }

  override render() {
    if (!this.state.error) return this.props.children;
    return <section className="card"><Problem error={this.state.error} retry={() => location.reload()} /></section>;
  }
}
