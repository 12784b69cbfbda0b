import { expect, test } from '@jest/globals';
import { startService } from '../harness/service.js';
import { until } from '../harness/until.js';
import { loadTest, reportOf } from './load-test.js';

const service = await startService();
const env = Object.fromEntries(
  ['REDIS_URL', 'DATABASE_URL', 'ADMIN_API_KEYS', 'SERVICE_API_KEYS'].map((name) => [name, service.env[name]]),
);
const sql = (text: string, values: unknown[]) => service.database.client.query(text, values);

test('a unit that is lost, or is in another’s name, fails the verdict of a run that had passed', async () => {
  const passed = await loadTest(env, 'opening-second', '--target', service.url, '--scale', '0.01');
  expect(passed.output).toMatch(/\nPASSED\n/);
  // The page needs nothing but itself.
  expect(reportOf(passed, '.html').text).not.toMatch(/(src|href)="|@import|url\(/);
  const { path, text } = reportOf(passed, '.json');
  const [{ product, promises }] = JSON.parse(text).campaigns;
  const [{ reservation, user }] = promises;
  const again = () => loadTest(env, '--again', path);
  expect((await again()).code).toBe(0);

  // No process repairs anything from here on.
  await until('the journal is written', async () => {
    const { rows } = await sql('select 1 from redemptions r join campaigns using (campaign_id) where product_id = $1', [
      product,
    ]);
    return rows.length === 10;
  });
  await service.worker.stop();
  await sql('update redemptions set user_id = $2 where redemption_id = $1', [reservation, `not-${user}`]);
  const anothers = await again();
  expect(anothers.output).toContain(`${product}: 1 promised, with another user's row`);
  expect(anothers.code).toBe(1);

  await sql('delete from redemptions where redemption_id = $1', [reservation]);
  const lost = await again();
  expect(lost.output).toContain(`FAILED  ${product}: 1 lost`);
  expect(lost.output).toContain(`FAILED  ${product}: 1 promised without a row`);
  expect(lost.code).toBe(1);
});
