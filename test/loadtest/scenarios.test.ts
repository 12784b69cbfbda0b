import { expect, test } from '@jest/globals';
import { hasArtillery } from '../../loadtest/artillery.mjs';
import { SCENARIOS } from '../../loadtest/scenarios.mjs';
import { sharedService } from '../harness/service.js';
import { loadTest, reportOf } from './load-test.js';

// A hundredth of the people. Responses, ledger and report are as at full size.
const service = await sharedService();
const env = Object.fromEntries(
  ['REDIS_URL', 'DATABASE_URL', 'ADMIN_API_KEYS', 'SERVICE_API_KEYS'].map((name) => [name, service.env[name]]),
);
const runSmall = (name: string) => loadTest(env, name, '--target', service.url, '--scale', '0.01');

// Those that start engines of their own are in staged-scenarios.long.test.ts.
const all: { name: string; driver: string }[] = [];
// One after the other: Jest fails when two imports at once need the same module of Node.
for (const [name, { load }] of Object.entries(SCENARIOS)) {
  const { driver, stage } = await load();
  if (!stage) all.push({ name, driver });
}
const byArtillery = all.filter(({ driver }) => driver === 'Artillery');
const byOurselves = all.filter(({ driver }) => driver !== 'Artillery');

async function expectPassed(name: string): Promise<void> {
  const ended = await runSmall(name);
  expect(ended.output).toMatch(/\nPASSED\n/);
  expect(ended.code).toBe(0);
  const report = JSON.parse(reportOf(ended, '.json').text);
  expect(report).toMatchObject({ scenario: name, failures: [], scale: 0.01 });
  expect(report.total.answered).toBeGreaterThan(0);
  expect(report.total.answered).toBe(report.total.sent);
  for (const { ledger } of report.verdicts) {
    expect(ledger).toMatchObject({ lost: 0, duplicated: 0, over_cap: 0, drift: 0 });
  }
  // The verdict has every promise that shoppers got.
  const told = report.verdicts.reduce((sum: number, verdict: any) => sum + verdict.told.promises, 0);
  expect(told).toBeGreaterThan(0);
}

for (const { name } of byOurselves) {
  test(`${name} passes in small against a real service`, () => expectPassed(name));
}

if (!hasArtillery()) {
  process.stderr.write('\nSKIPPED: scenarios that Artillery drives; `npm run loadtest -- <scenario>` installs it.\n');
}
const onlyWithArtillery = hasArtillery() ? test : test.skip;
for (const { name } of byArtillery) {
  onlyWithArtillery(`${name} passes in small where Artillery is installed`, () => expectPassed(name));
}
