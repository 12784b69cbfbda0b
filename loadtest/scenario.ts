import type { LoadRun } from './run.mjs';

/** People and units by name, at a scale. */
export type Plan = Record<string, number>;

/** A load test: its question, its people and its checks. */
export type Scenario<Planned extends Plan = Plan, Products = unknown> = {
  question: string;
  driver: 'Artillery' | 'a generator of its own';
  /** The responses that each request may get (`outcomeOf`); any other fails the run. */
  answers: Record<string, readonly string[]>;
  /** @param scale 0.001 to 1 */
  plan(scale: number): Planned;
  run(run: LoadRun, plan: Planned): Promise<void>;
  /** Makes the script for Artillery. `products`: the campaigns that `run` has opened. */
  script?(plan: Planned, products: Products): ArtilleryScript;
  /** Engines and services of its own, instead of a server that runs already. */
  stage?: StagePlan;
  /** The longest load. Default: two minutes. */
  limitMs?: number;
};

/** A Redis Cluster with Postgres, a worker and an API. `replicas`: of each primary. */
export type StagePlan = { primaries: number; replicas: number; shards: number };

/** A script for Artillery. */
export type ArtilleryScript = {
  config: {
    phases: { name: string; duration: number; arrivalCount: number }[];
    variables?: Record<string, unknown>;
    plugins?: Record<string, unknown>;
  };
  scenarios: ({ name: string; weight?: number; flow: Step[] } & Partial<Record<ScenarioHook, string[]>>)[];
};

/** Hooks of artillery/shopper.mjs for all steps of a user. */
type ScenarioHook = 'beforeScenario' | 'afterScenario' | 'beforeRequest' | 'afterResponse' | 'onError';

/** A step of Artillery: one of its verbs. Conditions and functions are hooks of artillery/shopper.mjs. */
export type Step = {
  get?: Request;
  post?: Request;
  delete?: Request;
  /** Seconds. */
  think?: number | string;
  function?: string;
  loop?: Step[];
  count?: number | string;
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
  /** The hooks keep no values of the response. */
  forgets?: boolean;
  /** Counts against the quota of the device. */
  counts?: boolean;
};

/** Numbers of a campaign, as operators read them. */
export type CampaignStats = Record<
  'total' | 'free' | 'held' | 'redeemed' | 'burned' | 'waiting' | 'journal_backlog',
  number
>;
