/**
 * Decides who may use a campaign: a rule over the attributes of a user, which the caller sends. A rule is data, never
 * code. docs/rules.md describes the language with examples.
 */
export type Scalar = string | number | boolean;
export type AudienceRule =
  | { and: readonly AudienceRule[] }
  | { or: readonly AudienceRule[] }
  | { not: AudienceRule }
  | AudienceCondition;
/** A condition matches if every test in it holds. */
export type AudienceCondition = {
  attribute: string;
  exists?: boolean;
  eq?: Scalar;
  in?: readonly Scalar[];
  contains?: Scalar;
  gt?: Bound;
  gte?: Bound;
  lt?: Bound;
  lte?: Bound;
};
/** A number, or a date as RFC 3339 text: with a time and an offset, or without a time (midnight UTC). */
type Bound = number | string;

/** The attributes of a user, as the caller sent them. Only own members of the top level are read. */
export type Attributes = Readonly<Record<string, unknown>>;

export type RuleProblem = { path: (string | number)[]; detail: string };

export const AUDIENCE_LIMITS = {
  /** Levels of and, or and not. Rules in practice have about three. */
  depth: 8,
  /** Conditions and connectives together. */
  nodes: 100,
  /** Values of one `in`. Instead of a longer list, the caller should send an attribute. */
  values: 200,
  nameCharacters: 64,
  textCharacters: 256,
} as const;

/** Matches no user. Replaces a stored rule that cannot be read. */
export const NOBODY: AudienceRule = { or: [] };

const CONNECTIVES = ['and', 'or', 'not'] as const;
const ORDERED = ['gt', 'gte', 'lt', 'lte'] as const;
const TESTS: readonly string[] = ['exists', 'eq', 'in', 'contains', ...ORDERED];

/**
 * Reads a rule that an operator has sent.
 * @returns the rule, or every mistake with its path. Unknown words are mistakes, because ignoring a condition could
 *   admit more users
 */
export function readAudience(
  value: unknown,
): { rule: AudienceRule; problems?: never } | { rule?: never; problems: RuleProblem[] } {
  const problems: RuleProblem[] = [];
  new RuleReader(problems).node(value, [], 1);
  return problems.length > 0 ? { problems } : { rule: value as AudienceRule };
}

/** Reads a stored rule. A rule that cannot be read becomes one that matches no user. */
export function storedAudience(value: unknown): AudienceRule | null {
  return value === null || value === undefined ? null : (readAudience(value).rule ?? NOBODY);
}

class RuleReader {
  #nodes = 0;

  constructor(readonly problems: RuleProblem[]) {}

  /** Reads one node of a rule. Stops at the limits of depth and number, so that no input can overflow the stack. */
  node(value: unknown, path: RuleProblem['path'], depth: number): void {
    this.#nodes += 1;
    if (this.#nodes === AUDIENCE_LIMITS.nodes + 1)
      this.#problem(path, `the rule must have at most ${AUDIENCE_LIMITS.nodes} parts`);
    if (this.#nodes > AUDIENCE_LIMITS.nodes) return;
    if (depth > AUDIENCE_LIMITS.depth)
      return this.#problem(path, `must not be nested deeper than ${AUDIENCE_LIMITS.depth} levels`);
    if (!isObject(value)) return this.#problem(path, 'must be a rule');
    const connective = CONNECTIVES.find((name) => Object.hasOwn(value, name));
    if (!connective) return this.#condition(value, path);
    for (const name of Object.keys(value))
      if (name !== connective) this.#problem([...path, name], `must not be combined with "${connective}"`);
    if (connective === 'not') return this.node(value.not, [...path, 'not'], depth + 1);
    const parts = value[connective];
    if (!Array.isArray(parts) || parts.length === 0)
      return this.#problem([...path, connective], 'must be a list of one rule or more');
    for (const [index, part] of parts.entries()) this.node(part, [...path, connective, index], depth + 1);
  }

  #condition(value: Record<string, unknown>, path: RuleProblem['path']): void {
    if (!isName(value.attribute))
      this.#problem(
        [...path, 'attribute'],
        `must be the name of an attribute, 1 to ${AUDIENCE_LIMITS.nameCharacters} characters`,
      );
    const tests = Object.keys(value).filter((name) => name !== 'attribute');
    if (tests.length === 0) this.#problem(path, `must have one of ${TESTS.join(', ')}`);
    for (const name of tests) {
      const detail = wrongOperand(name, value[name]);
      if (detail) this.#problem([...path, name], detail);
    }
  }

  #problem(path: RuleProblem['path'], detail: string): void {
    this.problems.push({ path, detail });
  }
}

/** Describes what is wrong with the value of a test; null = nothing. */
function wrongOperand(name: string, value: unknown): string | null {
  switch (name) {
    case 'exists':
      return typeof value === 'boolean' ? null : 'must be true or false';
    case 'eq':
    case 'contains':
      return isScalar(value) ? null : SCALAR;
    case 'in':
      return Array.isArray(value) && value.length > 0 && value.length <= AUDIENCE_LIMITS.values && value.every(isScalar)
        ? null
        : `must be a list of 1 to ${AUDIENCE_LIMITS.values} texts, numbers or truth values`;
    case 'gt':
    case 'gte':
    case 'lt':
    case 'lte':
      return (typeof value === 'number' && isScalar(value)) || dateMs(value) !== null
        ? null
        : 'must be a number, or a date of RFC 3339 like "2026-01-31" or "2026-01-31T12:00:00Z"';
    default:
      return `is not one of ${[...CONNECTIVES, 'attribute', ...TESTS].join(', ')}`;
  }
}

const SCALAR = `must be a text of at most ${AUDIENCE_LIMITS.textCharacters} characters, a number or a truth value`;

/**
 * Whether a user with these attributes belongs to the audience. Works for every value that JSON can express. An
 * attribute that is missing, or has another type than the test needs, does not match.
 * @param rule from `readAudience` or `storedAudience`
 */
export function matchesAudience(rule: AudienceRule, attributes: Attributes): boolean {
  if ('and' in rule) return rule.and.every((part) => matchesAudience(part, attributes));
  if ('or' in rule) return rule.or.some((part) => matchesAudience(part, attributes));
  if ('not' in rule) return !matchesAudience(rule.not, attributes);
  return matchesCondition(rule, attributes);
}

function matchesCondition(condition: AudienceCondition, attributes: Attributes): boolean {
  const { attribute, exists, eq, in: set, contains } = condition;
  // Reads own members only, so that inherited names such as `constructor` are not attributes.
  const value = Object.hasOwn(attributes, attribute) ? attributes[attribute] : undefined;
  const isThere = value !== undefined && value !== null;
  if (exists !== undefined && exists !== isThere) return false;
  if (eq !== undefined && value !== eq) return false;
  if (set !== undefined && !set.includes(value as Scalar)) return false;
  if (contains !== undefined && !(Array.isArray(value) && value.includes(contains))) return false;
  return ORDERED.every((test) => condition[test] === undefined || isInOrder(test, value, condition[test]));
}

function isInOrder(test: (typeof ORDERED)[number], value: unknown, bound: Bound): boolean {
  const [a, b] = typeof bound === 'number' ? [value, bound] : [dateMs(value), dateMs(bound)];
  if (typeof a !== 'number' || b === null) return false;
  switch (test) {
    case 'gt':
      return a > b;
    case 'gte':
      return a >= b;
    case 'lt':
      return a < b;
    case 'lte':
      return a <= b;
  }
}

const DATE = /^(\d{4})-(\d{2})-(\d{2})(?:[Tt](\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d{2}):(\d{2})))?$/;

/** Milliseconds since 1970 of an RFC 3339 date; null when the value is not a date, or a day that does not exist. */
function dateMs(value: unknown): number | null {
  const found = typeof value === 'string' ? DATE.exec(value) : null;
  if (!found) return null;
  const number = (index: number) => Number(found[index] ?? 0);
  const [month, day, hour, minute, second] = [2, 3, 4, 5, 6].map(number) as [number, number, number, number, number];
  // setUTCFullYear, because Date.UTC adds 1900 to years below 100.
  const midnight = new Date(0).setUTCFullYear(number(1), month - 1, day);
  // A day that does not exist in this month would have become a day of the next month.
  if (new Date(midnight).getUTCMonth() !== month - 1) return null;
  if (hour > 23 || minute > 59 || second > 59 || number(9) > 23 || number(10) > 59) return null;
  const offset = (found[8] === '-' ? -1 : 1) * (number(9) * 60 + number(10));
  const ms = Number((found[7] ?? '').padEnd(3, '0').slice(0, 3));
  return midnight + ((hour * 60 + minute - offset) * 60 + second) * 1000 + ms;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** NUL and lone surrogates are rejected, because Postgres cannot store them. */
function isText(value: unknown, maxCharacters: number): value is string {
  return typeof value === 'string' && value.length <= maxCharacters && /^[^\0\p{Cs}]*$/u.test(value);
}

const isName = (value: unknown): value is string => isText(value, AUDIENCE_LIMITS.nameCharacters) && value !== '';

function isScalar(value: unknown): value is Scalar {
  return typeof value === 'boolean' || Number.isFinite(value) || isText(value, AUDIENCE_LIMITS.textCharacters);
}
