/** A step of Artillery's: one of its verbs with what goes with it. */
// biome-ignore lint/suspicious/noExplicitAny: each verb has a form of its own
export type Step = Record<string, any>;
export type Scenario = {
  question: string;
  driver: 'Artillery' | 'a generator of its own';
  answers: Record<string, readonly string[]>;
  plan(scale: number): Record<string, number>;
  script?(
    plan: Record<string, number>,
    products: unknown,
  ): {
    config: { phases: { name: string; duration: number; arrivalCount: number }[] };
    scenarios: { name: string; weight?: number; flow: Step[] }[];
  };
};
export const SCENARIOS: Record<string, { about: string; load: () => Promise<Scenario> }>;
