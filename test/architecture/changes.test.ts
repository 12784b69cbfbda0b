import { readdirSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { OPERATOR_ACTIONS } from '../../api/admin/campaign-actions.js';
import { checkoutContract } from '../../api/checkout/checkout.contract.js';
import { redeemContract, validateContract } from '../../api/coupons/coupon.contract.js';
import { REQUIREMENT_CODES } from '../../api/guards/abuse/requirements.js';
import { RISK_RULES } from '../../api/guards/abuse/risk-rules.js';
import { GUARD_REFUSALS } from '../../api/http/route.js';
import { FACTS, FIELDS } from '../../pages/admin/term-fields.js';
import { projectRoot } from '../../shared/config/project-root.js';
import { storedTerms } from '../../shared/domain/terms.js';
import type { ErrorCode } from '../../shared/errors/catalogue.js';
import { LANGUAGES } from '../../shared/sale-page/languages.js';
import { describeCampaign } from '../harness/sale.js';
import { sourcesIn, withoutComments } from './sources.js';

/** The plausible changes of CONTRIBUTING.md: what each touches, counted, and what is forgotten most easily. */
const read = (path: string) => readFileSync(join(projectRoot(), path), 'utf8');
const guide = read('CONTRIBUTING.md');

/** Made by `npm run docs`. */
const GENERATED = /-- Made by `npm run docs`[\s\S]*?-- Until here/g;
const product = [
  ...sourcesIn(['api', 'worker', 'commands', 'shared', 'migrations', 'pages', 'client']).filter(
    // A translation does not compile without one of the words.
    ({ path }) =>
      !path.startsWith('client/dist/') &&
      !path.startsWith('shared/sale-page/translations/') &&
      // Made by `npm run docs`.
      path !== 'client/codes.ts',
  ),
  ...sourcesIn(['lua'], '.lua'),
].map(({ path, text }) => ({ path, text: withoutComments(text.replace(GENERATED, '')) }));

/** A change by its heading: what names its example, where that is searched, and how many files it may touch. */
const CHANGES = [
  { heading: 'A term of a campaign that a script needs', example: /late_?payment/i, most: 5 },
  {
    heading: 'A field in the response to a checkout',
    example: /pay_?before/i,
    within: /^api\/(checkout|claim)\//,
    most: 3,
  },
  { heading: 'A fact about the caller', example: /holderDevice/, most: 4 },
  { heading: 'A reason to refuse a checkout', example: /\bcode_(needed|required)\b/, most: 4 },
  { heading: 'An event', example: /campaign\.restocked/, most: 2 },
  { heading: 'A rule on risk', example: /\bunusual_?hours\b/i, most: 4 },
  { heading: 'A rule that every claim has to keep', example: /identity_?level|verification_required/i, most: 5 },
  {
    heading: 'A sweep',
    example: /fillSaleMinutes|minutesEveryMs|'minutes'|\bminutes: \{/,
    within: /^(?:worker|shared\/(?:config|contracts))\//,
    most: 4,
  },
  { heading: 'An action of an operator', example: /'resume'|\bresume:/, within: /^(?!api\/http\/)/, most: 6 },
];

/** The steps of a walk-through: the file at the beginning of each numbered line, of which `*` may stand for a name. */
function stepsOf(heading: string): string[] {
  const section = guide.split(`### ${heading}\n`)[1]?.split(/^##/m)[0] ?? '';
  return [...section.matchAll(/^\d+\. `([^`]+)`/gm)].map(([, path]) => String(path));
}

const matches = (path: string, step: string) => new RegExp(`^${step.replaceAll('*', '[^/]*')}$`).test(path);

test('each path that CONTRIBUTING names exists', () => {
  const files = ['api', 'commands', 'deploy', 'docs', 'lua', 'migrations', 'pages', 'shared', 'test', 'worker'].flatMap(
    (folder) => [
      folder,
      ...readdirSync(join(projectRoot(), folder), { recursive: true, encoding: 'utf8' }).map(
        (name) => `${folder}/${name.replaceAll('\\', '/')}`,
      ),
    ],
  );
  const named = [...guide.matchAll(/`([\w*.-]+(?:\/[\w*.-]*)*)`/g)]
    .map(([, path]) => String(path).replace(/\/$/, ''))
    .filter((path) => path.includes('/') || /\.(ts|mjs|lua|md)$/.test(path));
  expect(named.length).toBeGreaterThan(30);
  const isThere = (path: string) =>
    files.some((file) => matches(path.includes('/') ? file : posix.basename(file), path));
  expect(named.filter((path) => !isThere(path))).toEqual([]);
});

test('CONTRIBUTING has a walk-through for each of the changes', () => {
  expect([...guide.matchAll(/^### (.+)$/gm)].map(([, heading]) => heading)).toEqual(
    CHANGES.map(({ heading }) => heading),
  );
});

for (const { heading, example, within = /^/, most } of CHANGES) {
  test(`${heading}: the walk-through names the files that its example is in, at most ${most}`, () => {
    const found = product.filter(({ path, text }) => within.test(path) && example.test(text)).map(({ path }) => path);
    const steps = stepsOf(heading);
    expect(found.filter((path) => !steps.some((step) => matches(path, step)))).toEqual([]);
    expect(steps.filter((step) => !found.some((path) => matches(path, step)))).toEqual([]);
    expect(found.length).toBeLessThanOrEqual(most);
    expect(steps.length).toBe(found.length);
  });
}

describe('a change that is forgotten on a page or in a document', () => {
  test('a term has a field in the form of the operator and is shown', () => {
    const columns = Object.keys(storedTerms(describeCampaign()));
    const inForm = Object.keys(FIELDS).map((name) => name.split('/')[0]);
    expect(columns.filter((column) => !inForm.includes(column))).toEqual([]);
    const shown = new Set<string>(['name']);
    const campaign = new Proxy({} as Record<string, unknown>, {
      get: (_, name) => {
        shown.add(String(name));
        return String(name).endsWith('_at') ? '2026-11-21T12:00:00Z' : {};
      },
    });
    for (const [, of] of FACTS) of(campaign);
    expect(columns.filter((column) => !shown.has(column))).toEqual([]);
  });

  /** Mistakes of a client or its settings, for which a shopper cannot do anything. */
  const WITHOUT_WORDS = [
    'attestation_invalid',
    'attestation_expired',
    'audience_mismatch',
    'token_invalid',
    'idempotency_key_reused',
    'invalid_request',
    'duplicate_request',
    'forbidden',
  ];
  test('a refusal of a checkout has words for shoppers', () => {
    const words = Object.keys(LANGUAGES.en.texts.problems);
    expect(checkoutContract.errors.filter((code) => !words.includes(code) && !WITHOUT_WORDS.includes(code))).toEqual(
      [],
    );
    expect(WITHOUT_WORDS.filter((code) => words.includes(code))).toEqual([]);
  });

  test('a refusal of a guard is in the contract of each claim', () => {
    const thrown = sourcesIn(['api/guards/abuse']).flatMap(({ text }) => [...text.matchAll(/new Problem\('(\w+)'/g)]);
    const codes = new Set(thrown.map(([, code]) => code as ErrorCode));
    expect([...codes]).toEqual(expect.arrayContaining(['blocked', 'rate_limited', ...REQUIREMENT_CODES.slice(1)]));
    for (const { path, errors, guards } of [checkoutContract, redeemContract, validateContract]) {
      const known = new Set<ErrorCode>([...errors, ...guards.flatMap((guard) => GUARD_REFUSALS[guard])]);
      expect([path, [...codes].filter((code) => !known.has(code))]).toEqual([path, []]);
    }
  });

  test('a rule on risk is explained', () => {
    const threats = read('docs/threats.md');
    const names = Object.keys(RISK_RULES);
    expect(names.filter((name) => !threats.includes(`| \`${name}\` |`))).toEqual([]);
  });

  test('an action of an operator is decided by the script and has a button', () => {
    const [script, page] = [read('lua/set_status.lua'), read('pages/admin/campaign-actions.ts')];
    expect(OPERATOR_ACTIONS.filter((name) => !script.includes(`action == '${name}'`))).toEqual([]);
    expect(OPERATOR_ACTIONS.filter((name) => !page.includes(`act('${name}')`))).toEqual([]);
  });
});

test('no migration is forgotten: each column of the terms is made by one', () => {
  const migrations = readdirSync(join(projectRoot(), 'migrations/schema')).map((name) =>
    read(`migrations/schema/${name}`),
  );
  const columns = Object.keys(storedTerms(describeCampaign()));
  expect(columns.filter((column) => !migrations.some((text) => new RegExp(`\\b${column}\\b`).test(text)))).toEqual([]);
});
