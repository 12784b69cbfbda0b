// The files in Artillery's own format, which anybody can run without this repository. A load test runs the steps of
// such a file with hooks that count (artillery/shopper.mjs), and creates its campaign, so that the verdict has it.
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';

const FOLDER = join(dirname(fileURLToPath(import.meta.url)), 'artillery');
const VARIABLE = /^\{\{ (?<name>\w+) \}\}$/;

/**
 * @typedef {import('./scenario.js').ArtilleryScript} ArtilleryScript
 * @typedef {import('./scenario.js').Step} Step
 * @typedef {Record<string, unknown>} Variables
 * @typedef {{ flow: [{ post: { json: Record<string, unknown> } }] }} Before the call that creates the campaign
 * @typedef {ArtilleryScript['config'] & { variables: Variables & { units: number } }} Config
 * @typedef {{ config: Config, before: Before, scenarios: ArtilleryScript['scenarios'] }} ArtilleryFile
 */

/** @param {string} name @returns {ArtilleryFile} */
function read(name) {
  return parse(readFileSync(join(FOLDER, `${name}.yml`), 'utf8'), { merge: true });
}

/** @param {ArtilleryFile} file */
const peopleOf = ({ config }) => config.phases.reduce((sum, { arrivalCount }) => sum + arrivalCount, 0);

/**
 * The people and units of a file at a scale.
 * @param {string} name
 * @param {number} scale
 */
export function filePlan(name, scale) {
  const file = read(name);
  return { people: Math.ceil(peopleOf(file) * scale), units: Math.ceil(file.config.variables.units * scale) };
}

/**
 * The terms of the campaign that a file creates before its users come.
 * @param {string} name
 * @param {{ units: number }} plan
 * @returns {Record<string, unknown>}
 */
export function fileTerms(name, { units }) {
  const { config, before } = read(name);
  /** @type {Variables} */
  const variables = { ...config.variables, units };
  const { product_id: _product, name: _name, ...terms } = before.flow[0].post.json;
  return Object.fromEntries(
    Object.entries(terms).map(([term, value]) => {
      const variable = typeof value === 'string' ? VARIABLE.exec(value)?.groups?.name : undefined;
      return [term, variable === undefined ? value : variables[variable]];
    }),
  );
}

/**
 * The script of a file for a campaign that exists, with its users and its duration to scale.
 * @param {string} name
 * @param {{ people: number, units: number }} plan
 * @param {string} product
 * @returns {ArtilleryScript}
 */
export function fileScript(name, { people, units }, product) {
  const file = read(name);
  const scale = people / peopleOf(file);
  let left = people;
  const phases = file.config.phases.map((phase, i, { length }) => {
    const arrivalCount = i === length - 1 ? left : Math.min(left, Math.ceil(phase.arrivalCount * scale));
    left -= arrivalCount;
    return { name: phase.name, duration: Math.max(1, Math.ceil(phase.duration * scale)), arrivalCount };
  });
  return {
    config: {
      phases: phases.filter(({ arrivalCount }) => arrivalCount > 0),
      variables: { ...file.config.variables, product, units },
      // Failed expectations are reported at the end of each user, who goes on until then.
      plugins: { expect: { formatter: 'silent' } },
    },
    scenarios: file.scenarios.map((scenario) => ({
      ...scenario,
      flow: scenario.flow.map(endsEarly),
      beforeScenario: [],
      afterResponse: ['watches'],
      afterScenario: ['reportsExpectations', 'departs'],
    })),
  };
}

/**
 * Artillery alone repeats the steps `count` times. Here a user whose status is final leaves the loop.
 * @param {Step} step
 */
function endsEarly(step) {
  return step.loop ? { ...step, whileTrue: 'pollsOn' } : step;
}
