import { expect, test } from '@jest/globals';
import { pageOf } from './report.mjs';

const REPORT = {
  scenario: 'a-scenario',
  question: 'Does it hold?',
  driver: 'Artillery',
  target: 'http://127.0.0.1:1',
  scale: 1,
  machine: { date: '2026-11-21', machine: '2 × a processor', load: '0.1', node: 'v20', revision: 'abc' },
  plan: { people: 1_000 },
  campaigns: [{ product: 'p', promises: [{ user: 'secret-person', reservation: 'r' }] }],
  verdicts: [],
  failures: [] as string[],
  requests: [
    { name: 'checkout', sent: 2, answered: 1, p50_ms: 1, p99_ms: 2, max_ms: 3, outcomes: { '200 completed': 1 } },
  ],
  seconds: [],
  stock: [],
  checks: [{ what: 'all is well', holds: false, found: { free: 1 } }],
};

test('the page says first whether it passed, and what failed', () => {
  expect(pageOf(REPORT)).toContain('<title>a-scenario: passed</title>');
  const failed = pageOf({ ...REPORT, failures: ['p: 1 lost'] });
  expect(failed).toContain('<title>a-scenario: failed</title>');
  expect(failed).toContain('<li>p: 1 lost</li>');
});

test('what the server said cannot become part of the page', () => {
  const page = pageOf({ ...REPORT, failures: ['</script><script>alert(1)</script>', '%library%'] });
  expect(page).not.toContain('<script>alert(1)');
  expect(page.match(/<\/script>/g)?.length).toBe(3);
  expect(page.match(/var uPlot=/g)?.length).toBe(1);
});

test('people stay out of the page; their promises are in the JSON only', () => {
  expect(pageOf(REPORT)).not.toContain('secret-person');
});
