import type { Overview } from './overview.js';

/** One view of the page. */
export type View = {
  title: string;
  root: HTMLElement;
  /** The query that the view repeats; null = the view shows nothing live. */
  query(): string | null;
  everyMs?: number;
  show(now: Overview): void;
  close?(): void;
};
