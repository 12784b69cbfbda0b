import { test } from '@jest/globals';
import { until } from '../harness/until.js';
import { Stage } from './stage.js';

/** Longer outages are in postgres-away.long.test.ts. */
const stage = await Stage.set();

test('Postgres restarted in mid-batch loses nothing', async () => {
  const product = await stage.openCampaign({ total_limit: 1_000_000 });
  const crowd = stage.crowd(product);
  crowd.start();
  for (let restarts = 0; restarts < 3; restarts += 1) {
    const before = crowd.completed.length;
    await until('the sale goes on', () => crowd.completed.length >= before + 300);
    stage.postgres.kill(restarts === 0 ? 'SIGINT' : 'SIGQUIT');
    await stage.postgres.exited;
    await stage.startPostgres();
  }
  await crowd.finish();
  stage.expectServed(crowd, 'postgres');
  await stage.expectNothingLost(crowd, product);
});
