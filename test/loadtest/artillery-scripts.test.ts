import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { wholeScript } from '../../loadtest/artillery.mjs';
import type { Scenario, Step } from '../../loadtest/scenario.js';
import { SCENARIOS } from '../../loadtest/scenarios.mjs';
import { projectRoot } from '../../shared/config/project-root.js';

// Artillery is not needed for this, and not run: only what it would be given is looked at.
const processor = readFileSync(join(projectRoot(), 'loadtest/artillery/shopper.mjs'), 'utf8');
const hooks = [...processor.matchAll(/^export (?:async )?(?:function|const) (\w+)/gm)].map(([, name]) => name);
const VERBS = ['get', 'post', 'delete'] as const;

const driven: { name: string; scenario: Scenario }[] = [];
// One after the other: Jest fails when two imports at once need the same module of Node.
for (const [name, { load }] of Object.entries(SCENARIOS)) {
  const scenario = await load();
  if (scenario.driver === 'Artillery') driven.push({ name, scenario });
}

function scriptAt(scenario: Scenario, scale: number) {
  const plan = scenario.plan(scale);
  const script = scenario.script?.(plan, { product: 'p', coupon: 'c', code: 'CODE' });
  if (!script) throw new Error('Artillery needs a script');
  return { plan, script };
}

/** A condition that Artillery evaluates by itself, as the files in its own format have. */
const isExpression = (condition: string) => /\W/.test(condition) || condition === '1';

/** All steps, those in loops too. */
const flat = (flow: Step[]): Step[] => flow.flatMap((step) => [step, ...(step.loop ? flat(step.loop) : [])]);

const requestsOf = (steps: Step[]) =>
  steps.flatMap((step) => VERBS.flatMap((verb) => (step[verb] ? [step[verb]] : [])));

test('seven scenarios are driven by Artillery', () => expect(driven.length).toBe(7));

for (const { name, scenario } of driven) {
  const { script } = scriptAt(scenario, 1);
  const steps = script.scenarios.flatMap(({ flow }) => flat(flow));

  test(`${name}: whatever its script names is there`, () => {
    const whole = wholeScript(script, 'http://127.0.0.1:1');
    const named = [
      ...whole.scenarios.flatMap((one) => [
        ...one.beforeScenario,
        ...one.afterScenario,
        ...one.beforeRequest,
        ...one.afterResponse,
        ...one.onError,
      ]),
      ...steps.flatMap((step) => [step.function, step.whileTrue]),
      ...requestsOf(steps).flatMap(({ ifTrue, beforeRequest }) => [ifTrue, beforeRequest]),
    ].filter((hook) => hook !== undefined && !isExpression(hook));
    expect(named.filter((hook) => !hooks.includes(hook))).toEqual([]);
  });

  test(`${name}: each step is one that Artillery knows, and each request has answers that it may get`, () => {
    const known: string[] = [...VERBS, 'think', 'loop', 'function'];
    expect(steps.filter((step) => Object.keys(step).filter((key) => known.includes(key)).length !== 1)).toEqual([]);
    const unknown = requestsOf(steps).filter(
      ({ name: request, url }) => !scenario.answers[request] || !/^\//.test(url),
    );
    expect(unknown).toEqual([]);
  });

  test(`${name}: its phases are whole seconds, end within two minutes, and bring the planned number of users`, () => {
    for (const scale of [1, 0.5, 0.03, 0.001]) {
      const { plan, script: scaled } = scriptAt(scenario, scale);
      const { phases } = scaled.config;
      expect(
        phases.filter(
          ({ duration, arrivalCount }) => !(duration >= 1 && Number.isInteger(duration) && arrivalCount >= 1),
        ),
      ).toEqual([]);
      expect(phases.reduce((sum, { duration }) => sum + duration, 0)).toBeLessThan(100);
      const { people, shoppers = 0, devices = 0, forgers = 0, guessers = 0 } = plan;
      const planned = people ?? shoppers + devices + forgers + guessers;
      expect(phases.reduce((sum, { arrivalCount }) => sum + arrivalCount, 0)).toBe(planned);
    }
  });
}
