import { it } from '@jest/globals';
import { atEnd } from '../harness/cleanup.js';
import type { Crowd } from '../harness/crowd.js';
import { startTestServer } from '../harness/engines.js';
import { startReplica, startSentinels } from '../harness/replicas.js';
import { until } from '../harness/until.js';
import { Stage } from './stage.js';

const servers = [await startTestServer()];
const firstPort = Number(servers[0]?.port);
servers.push(await startReplica(firstPort), await startReplica(firstPort));
const sentinels = await startSentinels(firstPort, { downAfterMs: 1_000 });
// The first test ends one server for good, so that a later primary has no replica that could confirm a promise.
const stage = await Stage.set({
  REDIS_URL: `redis+sentinel://${sentinels.hosts}/doorbuster`,
  REDIS_WAIT_REPLICAS: '0',
});

const primary = async () => {
  const port = await sentinels.primaryPort();
  const server = servers.find((one) => one.port === port);
  if (!server) throw new Error(`no server has port ${port}`);
  return server;
};
const rows = async () =>
  Number((await stage.query<{ count: string }>('select count(*) as count from redemptions'))[0]?.count);

/** Waits until checkouts succeed on another primary than `old`, and the worker writes them. */
async function expectServiceOnAnother(crowd: Crowd, old: number): Promise<void> {
  await until('the Sentinels name another primary', async () => (await sentinels.primaryPort()) !== old);
  const before = crowd.completed.length;
  await until('checkouts succeed', () => crowd.completed.length >= before + 50);
  const written = await rows();
  await until('the worker writes them', async () => (await rows()) > written);
}

async function startCrowd(): Promise<Crowd> {
  const product = await stage.openCampaign({ total_limit: 1_000_000 });
  const crowd = stage.crowd(product, 60);
  crowd.start();
  await until('the sale runs', () => crowd.completed.length >= 100);
  return crowd;
}

it('serves again by itself after the primary was killed', async () => {
  const crowd = await startCrowd();
  const old = await primary();
  old.kill('SIGKILL');
  await expectServiceOnAnother(crowd, old.port);
  await crowd.finish();
});

it('serves again by itself after a clean failover that leaves every connection open', async () => {
  const crowd = await startCrowd();
  const old = await primary();
  await until('the failover begins', () =>
    sentinels.client.call('SENTINEL', 'FAILOVER', 'doorbuster').then(
      () => true,
      () => false,
    ),
  );
  await expectServiceOnAnother(crowd, old.port);
  await until('no process of the service is connected to the old primary', async () => {
    const clients = String(await old.client.client('LIST'));
    return !clients.includes('name=doorbuster:');
  });
  await crowd.finish();
});

it('serves again by itself after the primary hung, and stays off it when it goes on', async () => {
  const crowd = await startCrowd();
  const old = await primary();
  await until('there is a replica to promote', async () =>
    /connected_slaves:[1-9]/.test(await old.client.info('replication')),
  );
  atEnd('the hanging primary', () => old.kill('SIGCONT'));
  old.kill('SIGSTOP');
  await expectServiceOnAnother(crowd, old.port);
  old.kill('SIGCONT');
  const before = crowd.completed.length;
  await until('checkouts succeed', () => crowd.completed.length >= before + 200);
  await crowd.finish();
});
