import type { LoadRun } from './run.mjs';

/** People and units by name, at a scale. */
export type Plan = Record<string, number>;

/** A load test: its question, its people and what must hold. Types alone. */
export type Scenario<Planned extends Plan = Plan, Products = unknown> = {
  question: string;
  driver: 'Artillery' | 'a generator of its own';
  /** What each request may be answered with (`outcomeOf`); anything else fails the run. */
  answers: Record<string, readonly string[]>;
  /** @param scale 0.001 to 1 */
  plan(scale: number): Planned;
  run(run: LoadRun, plan: Planned): Promise<void>;
  /** For Artillery. `products`: the campaigns that `run` has opened. */
  script?(plan: Planned, products: Products): ArtilleryScript;
};

/** What Artillery runs. */
export type ArtilleryScript = {
  config: { phases: { name: string; duration: number; arrivalCount: number }[] };
  scenarios: { name: string; weight?: number; flow: Step[] }[];
};

/** A step of Artillery: one of its verbs. Conditions and functions are hooks of artillery/shopper.mjs. */
export type Step = {
  get?: Request;
  post?: Request;
  delete?: Request;
  /** Seconds. */
  think?: number | string;
  function?: string;
  loop?: Step[];
  count?: number;
  whileTrue?: string;
};

export type Request = {
  url: string;
  name: string;
  headers?: Record<string, string>;
  json?: Record<string, unknown>;
  ifTrue?: string;
  beforeRequest?: string;
  /** The campaign that a promise in the response belongs to; usually that of the run. */
  product?: string;
  /** The user does not remember the response. */
  forgets?: boolean;
  /** Counts against the quota of the device. */
  counts?: boolean;
};

/** Numbers of a campaign, as operators read them. */
export type CampaignStats = Record<
  'total' | 'free' | 'held' | 'redeemed' | 'burned' | 'waiting' | 'journal_backlog',
  number
>;
