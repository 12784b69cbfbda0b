import type { Overview } from './overview.js';

/** One place of the page. */
export type View = {
  title: string;
  root: HTMLElement;
  /** The query of what it shows, asked for again and again; null = nothing moves in it. */
  query(): string | null;
  everyMs?: number;
  show(now: Overview): void;
  close?(): void;
};
