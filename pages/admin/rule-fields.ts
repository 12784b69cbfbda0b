import { Refused } from './calls.js';
import { el } from './elements.js';
import { type Field, field, jsonIn, numberOf, textOf, valueIn } from './fields.js';
import type { Terms } from './term-fields.js';

type Json = Record<string, unknown>;

const TESTS = {
  eq: 'is',
  in: 'is one of (comma-separated)',
  contains: 'contains',
  gte: 'is at least',
  lte: 'is at most',
  exists: 'is there',
};
const number = { inputmode: 'numeric' } as const;

/** The limits that most campaigns need; the others are set as JSON. */
const LIMITS: Record<string, string> = {
  attestation_level: 'Proof wanted of each claim (0, 1 or 2)',
  checkout_per_minute_per_address: 'Checkouts of one address in a minute',
  redeem_per_minute_per_user: 'Attempts of one user with codes in a minute',
  accounts_per_device: 'Users of one device in a day',
};

export type RuleFields = {
  fields: Field[];
  root: HTMLElement;
  /** The rules in the form of the API. @throws Refused if a text is not JSON */
  values(): { audience: unknown; stacking: Json; limits: Json };
  fill(terms: Terms): void;
};

/** Fields for the rules of a campaign: who may use it, how codes combine, and limits; with JSON for everything else. */
export function ruleFields(): RuleFields {
  const attribute = field({
    pointer: '#/audience/attribute',
    label: 'Only users whose attribute …',
    hint: 'Empty = everyone. The shop sends the attributes of its users.',
  });
  const test = field({ pointer: '#/audience/test', label: '… compares like this', options: TESTS });
  const value = field({ pointer: '#/audience/value', label: '… with this value' });
  const audienceJson = field({
    pointer: '#/audience',
    label: 'Audience as JSON',
    hint: 'For experts: a rule of docs/rules.md with and, or and not. Replaces the fields above.',
    attributes: { rows: 4 },
  });
  const exclusive = field({
    pointer: '#/stacking/exclusive',
    label: 'Cannot be combined with other codes',
    attributes: { type: 'checkbox' },
  });
  const group = field({ pointer: '#/stacking/group', label: 'Group', hint: 'Codes of one group cannot be combined.' });
  const priority = field({
    pointer: '#/stacking/priority',
    label: 'Order of application',
    hint: 'Lower is applied first. Empty = 100.',
    attributes: number,
  });
  const limits = Object.entries(LIMITS).map(([name, label]) => ({
    name,
    input: field({ pointer: `#/limits/${name}`, label, hint: 'Empty = the default.', attributes: number }),
  }));
  const limitsJson = field({
    pointer: '#/limits',
    label: 'Other limits as JSON',
    hint: 'For experts: docs/threats.md has all of them.',
    attributes: { rows: 4 },
  });
  const simple = [attribute, test, value, exclusive, group, priority, ...limits.map(({ input }) => input)];
  return {
    fields: [...simple, audienceJson, limitsJson],
    root: el(
      'fieldset',
      {},
      el('legend', {}, 'Rules'),
      el('div', { class: 'grid' }, ...simple.map(({ root }) => root)),
      el('div', { class: 'grid' }, audienceJson.root, limitsJson.root),
    ),
    values: () => ({
      audience: textOf(audienceJson) ? jsonIn(audienceJson) : conditionOf(attribute, test, value),
      stacking: {
        exclusive: valueIn(exclusive),
        ...(textOf(group) ? { group: textOf(group) } : {}),
        ...(textOf(priority) ? { priority: numberOf(priority) } : {}),
      },
      limits: {
        ...(textOf(limitsJson) ? (jsonIn(limitsJson) as Json) : {}),
        ...Object.fromEntries(
          limits.flatMap(({ name, input }) => (textOf(input) ? [[name, numberOf(input)] as const] : [])),
        ),
      },
    }),
    fill({ audience, stacking, limits: given }) {
      const simplest = simpleCondition(audience as Json | null);
      attribute.input.value = simplest?.attribute ?? '';
      if (simplest) test.input.value = simplest.test;
      value.input.value = simplest?.value ?? '';
      audienceJson.input.value = audience && !simplest ? JSON.stringify(audience, null, 2) : '';
      const { exclusive: isExclusive, group: named, priority: order } = (stacking ?? {}) as Json;
      (exclusive.input as HTMLInputElement).checked = isExclusive === true;
      group.input.value = String(named ?? '');
      priority.input.value = String(order ?? '');
      const rest: Json = { ...((given ?? {}) as Json) };
      for (const { name, input } of limits) {
        const own = rest[name];
        input.input.value = typeof own === 'number' ? String(own) : '';
        if (typeof own === 'number') delete rest[name];
      }
      limitsJson.input.value = Object.keys(rest).length > 0 ? JSON.stringify(rest, null, 2) : '';
    },
  };
}

/** A text as the value that it most likely means. */
function scalarOf(text: string): string | number | boolean {
  if (text === 'true' || text === 'false') return text === 'true';
  return /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : text;
}

function conditionOf(attribute: Field, test: Field, value: Field): Json | null {
  const name = textOf(attribute);
  if (name === '') return null;
  const kind = textOf(test);
  if (kind === 'exists') return { attribute: name, exists: true };
  const text = textOf(value);
  if (text === '')
    throw new Refused(400, 'invalid_request', '', [{ pointer: '#/audience/value', detail: 'Type a value' }]);
  const given = kind === 'in' ? text.split(',').map((part) => scalarOf(part.trim())) : scalarOf(text);
  return { attribute: name, [kind]: given };
}

/** The condition that the fields can show; null = none, or the rule is more than one condition. */
export function simpleCondition(rule: Json | null): { attribute: string; test: string; value: string } | null {
  if (!rule || typeof rule.attribute !== 'string') return null;
  const [test, ...others] = Object.keys(rule).filter((name) => name !== 'attribute');
  if (!test || others.length > 0 || !Object.hasOwn(TESTS, test)) return null;
  const given = rule[test];
  if (test === 'exists') return given === true ? { attribute: rule.attribute, test, value: '' } : null;
  const parts = Array.isArray(given) ? given : [given];
  // A text that reads like a number, or has a comma, would come back as something else.
  if (parts.some((part) => typeof part === 'string' && (scalarOf(part) !== part || part.includes(',')))) return null;
  return { attribute: rule.attribute, test, value: parts.join(', ') };
}
