import { expect, test } from '@jest/globals';
import { loadTest, reportOf } from './load-test.js';

// A hundredth of the people, on a Redis Cluster, Postgres and services that each scenario starts itself.
for (const name of ['ten-buckets', 'half-a-million']) {
  test(`${name} passes in small on engines of its own`, async () => {
    const ended = await loadTest({}, name, '--scale', '0.01');
    expect(ended.output).toMatch(/\nPASSED\n/);
    expect(ended.code).toBe(0);
    const report = JSON.parse(reportOf(ended, '.json').text);
    expect(report).toMatchObject({ scenario: name, failures: [], target: null });
    const again = await loadTest({}, '--again', reportOf(ended, '.json').path);
    expect(again.code).toBe(2);
    expect(again.output).toContain('The engines of that run ended with it.');
  });
}
