import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import pg from 'pg';
import { WebSocket } from 'ws';
import { parse } from 'yaml';
import { ENVIRONMENT } from '../../shared/config/environment.js';
import { LIMITS } from '../../shared/config/limits.js';
import { projectRoot } from '../../shared/config/project-root.js';
import { removeEpoch } from '../../shared/redis/epoch.js';
import { parseRedisUrl } from '../../shared/redis/redis-target.js';
import { atEnd } from '../harness/cleanup.js';
import { Operator } from '../harness/clients.js';
import { createTestDatabase, startTestRedis } from '../harness/engines.js';
import { freePort } from '../harness/free-port.js';
import { itWith, runProgram, startProgram } from '../harness/programs.js';
import { serviceEnv, startApiProcess, startWorkerProcess } from '../harness/service.js';
import { until } from '../harness/until.js';

const SCRIPTS = join(projectRoot(), 'deploy/compose');
const script = (name: string) => join(SCRIPTS, name);
const read = (name: string) => readFileSync(join(projectRoot(), name), 'utf8');
type Composition = { services: Record<string, Record<string, any>>; volumes: Record<string, null> };
const compositionOf = (name: string) => parse(read(name), { merge: true }) as Composition;
const cluster = compositionOf('docker-compose.cluster.yml');
const sentinel = compositionOf('docker-compose.sentinel.yml');
const roles = compositionOf('docker-compose.roles.yml');
const OURS = ['api', 'readers', 'worker', 'migrate'];

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'doorbuster-compose-'));
  atEnd('its folder', () => rmSync(path, { recursive: true, force: true }));
  return path;
}

describe('the compose files', () => {
  it('set only environment variables that the service reads', () => {
    const names = [cluster, sentinel, roles].flatMap(({ services }) =>
      OURS.flatMap((name) => Object.keys(services[name]?.environment ?? {})),
    );
    expect(names.length).toBeGreaterThan(10);
    expect(names.filter((name) => !Object.hasOwn(ENVIRONMENT, name))).toEqual([]);
  });

  it('name files, services, volumes and addresses that exist', () => {
    const services = { ...cluster.services, ...sentinel.services, ...roles.services };
    const volumes = Object.keys({ ...cluster.volumes, ...sentinel.volumes });
    const all = [cluster, sentinel, roles].flatMap((one) => Object.values(one.services));
    const mounts = all.flatMap((one) => (one.volumes ?? []) as string[]);
    const sources = mounts.map((mount) => String(mount.split(':')[0]));
    expect(sources.length).toBeGreaterThan(20);
    const isThere = (source: string) =>
      source.startsWith('./') ? existsSync(join(projectRoot(), source)) : volumes.includes(source);
    expect(sources.filter((source) => !isThere(source))).toEqual([]);
    const needed = all.flatMap((one) => Object.keys(one.depends_on ?? {}));
    expect(needed.filter((name) => !Object.hasOwn(services, name))).toEqual([]);
    const addresses = Object.values(cluster.services).flatMap((one) => one.networks?.engines?.ipv4_address ?? []);
    expect(cluster.services['redis-ready']?.environment.REDIS_NODES.split(' ')).toEqual(
      addresses.map((address) => `${address}:6379`),
    );
    expect(read('deploy/compose/sentinel.conf')).toContain(`sentinel monitor doorbuster ${addresses[0]} 6379 2`);
  });

  it('point at nodes and Sentinels that are started', () => {
    const hosts = (url: string) => /:\/\/([^/]+)/.exec(url)?.[1]?.split(',');
    const url = String(cluster.services.api?.environment.REDIS_URL);
    expect(url).toMatch(/^redis\+cluster:\/\//);
    expect(hosts(url)?.filter((host) => !Object.hasOwn(cluster.services, host))).toEqual([]);
    const sentinelUrl = String(sentinel.services.api?.environment.REDIS_URL);
    expect(parseRedisUrl(sentinelUrl)).toMatchObject({ target: { kind: 'sentinel', name: 'doorbuster' } });
    expect(hosts(sentinelUrl)?.filter((host) => !Object.hasOwn(sentinel.services, host))).toEqual([]);
  });

  it('leave more time than a process takes to stop', () => {
    for (const name of ['api', 'worker'])
      expect(Number.parseInt(cluster.services[name]?.stop_grace_period, 10) * 1_000).toBeGreaterThan(
        LIMITS.shutdown.stopMs + 1_000,
      );
  });

  it('run the service without root', () => {
    const image = read('Dockerfile')
      .split(/^FROM /m)
      .at(-1);
    expect(image).toMatch(/^USER [1-9]\d*:[1-9]\d*$/m);
    expect(cluster.services.api).toMatchObject({ read_only: true, cap_drop: ['ALL'] });
  });
});

/** Starts a node as its container does, on another port and folder. */
async function startNode(files: readonly string[], extra: NodeJS.ProcessEnv = {}) {
  const [data, port] = [folder(), await freePort()];
  const local = join(data, 'local.conf');
  // Else the nodes of a cluster speak to each other on port + 10,000, which other files may use.
  const bus = files.includes('redis-cluster.conf') ? `cluster-port ${await freePort()}\n` : '';
  writeFileSync(local, `port ${port}\nbind 127.0.0.1\n${bus}`);
  const { stop } = startProgram('sh', [script('start-redis.sh'), ...files.map(script), local], data, extra);
  const client = new Redis(port, '127.0.0.1', { maxRetriesPerRequest: null });
  client.on('error', () => {});
  atEnd('a connection to it', () => client.disconnect());
  return { port, client, stop };
}

describe('the nodes of Redis', () => {
  itWith('redis-server', 'redis-cli')('become one cluster, which stays as it is when they start again', async () => {
    const files = ['redis.conf', 'redis-cluster.conf'];
    const nodes = await Promise.all(Array.from({ length: 6 }, () => startNode(files)));
    const env = { REDIS_NODES: nodes.map(({ port }) => `127.0.0.1:${port}`).join(' ') };
    const create = () => runProgram('sh', [script('create-cluster.sh')], env);
    const first = await create();
    expect({ status: first.status, stderr: first.stderr }).toEqual({ status: 0, stderr: '' });
    const masters = async () =>
      String(await nodes[0]?.client.call('CLUSTER', 'NODES'))
        .split('\n')
        .filter((line) => /master/.test(line))
        .map((line) => line.split(' ')[0])
        .sort();
    const before = await masters();
    expect(before.length).toBe(3);
    expect((await create()).stdout).toBe('the cluster serves all slots\n');
    expect(await masters()).toEqual(before);
    const setting = async (name: string) => Object.values(await nodes[0]!.client.config('GET', name)).at(-1);
    expect(await setting('cluster-require-full-coverage')).toBe('no');
    expect(await setting('maxmemory-policy')).toBe('noeviction');
    expect(await setting('min-replicas-to-write')).toBe('1');
  });

  itWith('redis-server', 'redis-cli')('are watched by Sentinels that agree on the primary', async () => {
    const primary = await startNode(['redis.conf']);
    const PRIMARY = `127.0.0.1 ${primary.port}`;
    await Promise.all([startNode(['redis.conf'], { PRIMARY }), startNode(['redis.conf'], { PRIMARY })]);
    await until('both replicas are there', async () =>
      /connected_slaves:2/.test(await primary.client.info('replication')),
    );
    const ports = await Promise.all([1, 2, 3].map(async () => startSentinel(primary.port)));
    const env = { SENTINELS: ports.map((port) => `127.0.0.1:${port}`).join(' ') };
    const { status, stdout } = await runProgram('sh', [script('wait-for-sentinels.sh')], env);
    expect(status).toBe(0);
    expect(stdout).toMatch(/the Sentinels agree\n$/);
  });
});

/** Starts a Sentinel as its container does, with the addresses of this test. */
async function startSentinel(primaryPort: number): Promise<number> {
  const [data, port] = [folder(), await freePort()];
  const file = join(data, 'first.conf');
  const text = read('deploy/compose/sentinel.conf')
    .replace('172.31.77.11 6379', `127.0.0.1 ${primaryPort}`)
    .replace('port 26379', `port ${port}\nbind 127.0.0.1`);
  writeFileSync(file, text);
  startProgram('sh', [script('start-sentinel.sh'), file], data);
  return port;
}

describe('pgbouncer', () => {
  itWith('pgbouncer')('shares connections to Postgres between transactions', async () => {
    const { url } = await createTestDatabase();
    const { hostname, port, pathname, username, password } = new URL(url);
    const [data, own] = [folder(), await freePort()];
    const users = join(data, 'userlist.txt');
    writeFileSync(users, `"${username}" "${decodeURIComponent(password)}"\n`);
    const target = `host=${hostname} port=${port} dbname=${pathname.slice(1)}`;
    const text = read('deploy/compose/pgbouncer.ini')
      .replace('host=postgres port=5432 dbname=doorbuster', target)
      .replace('listen_addr = *', 'listen_addr = 127.0.0.1')
      .replace('listen_port = 6432', `listen_port = ${own}`)
      .replace('/tmp/userlist.txt', users);
    writeFileSync(join(data, 'pgbouncer.ini'), text);
    // It does not run as root.
    await runProgram('chmod', ['-R', 'a+rX', data]);
    const asRoot = process.getuid?.() === 0 ? ['-u', 'nobody'] : [];
    const bouncer = startProgram('pgbouncer', [...asRoot, join(data, 'pgbouncer.ini')], data);
    await until('pgbouncer listens', () => /process up/.test(bouncer.output()));
    const connect = async () => {
      const client = new pg.Client({
        connectionString: `postgres://${username}:${password}@127.0.0.1:${own}/doorbuster`,
        statement_timeout: 1_000,
      });
      await client.connect();
      return client;
    };
    const [one, other] = [await connect(), await connect()];
    const pids = [];
    for (const client of [one, other, one])
      pids.push((await client.query('select pg_backend_pid() as pid')).rows[0].pid);
    await Promise.all([one.end(), other.end()]);
    expect(new Set(pids).size).toBe(1);
  });
});

describe('the proxy', () => {
  itWith('haproxy', 'openssl')('speaks TLS and WebSockets, and loses no request of an API that stops', async () => {
    const [redis, database] = [await startTestRedis(), await createTestDatabase()];
    const env = serviceEnv(redis.url, database.url, { TRUST_PROXY: '1' });
    const [first, second, worker] = await Promise.all([
      startApiProcess(env),
      startApiProcess(env),
      startWorkerProcess(env),
    ]);
    const product = await new Operator(second.url).openCampaign({ total_limit: 1_000_000, require_attestation: false });
    const proxy = await startProxy([first.url, second.url]);
    const shoppers = Array.from({ length: 8 }, () => new ProxiedShopper(proxy.url, product));
    const served = () => shoppers.reduce((sum, { statuses }) => sum + statuses.length, 0);
    for (const shopper of shoppers) shopper.start();
    await until('both APIs serve', () => served() >= 100);
    await first.process.stop();
    const before = served();
    await until('the other goes on', () => served() >= before + 100);
    await Promise.all(shoppers.map((shopper) => shopper.finish()));
    expect(new Set(shoppers.flatMap(({ statuses }) => statuses))).toEqual(new Set([200]));

    const plain = await fetch(`http://127.0.0.1:${proxy.httpPort}/flash-sale/campaign`, { redirect: 'manual' });
    expect({ status: plain.status, body: await plain.text() }).toEqual({ status: 308, body: '' });
    for (const path of ['/admin', '/admin/campaigns', '/%61dmin/campaigns']) expect(await proxy.status(path)).toBe(404);
    const socket = new WebSocket(`${proxy.url.replace('https', 'wss')}/flash-sale/ws`, { rejectUnauthorized: false });
    socket.on('message', () => socket.close());
    const opened = new Promise((resolve) => socket.on('open', resolve));
    await opened;
    socket.send(JSON.stringify({ type: 'ping' }));
    await new Promise((resolve) => socket.on('close', resolve));

    // Nothing verifies Redis any more, so no API is ready: one that still runs responds itself.
    await worker.stop();
    await removeEpoch(redis.client);
    await until('an API says so', async () => (await proxy.retryAfter('/flash-sale/checkout')) !== null);
  });

  itWith('haproxy', 'openssl')('sends readers what they serve, as long as there are any', async () => {
    const [redis, database] = [await startTestRedis(), await createTestDatabase()];
    const env = serviceEnv(redis.url, database.url, { TRUST_PROXY: '1', API_ROLE: 'write' });
    const [writer] = await Promise.all([startApiProcess(env), startWorkerProcess(env)]);
    const reader = await startApiProcess({ ...env, API_ROLE: 'read', API_WRITE_URL: writer.url });
    const proxy = await startProxy([writer.url], [reader.url]);
    await until('it has the reader', async () => (await proxy.status('/coupons/validate')) === 400);
    expect(await proxy.status('/flash-sale/checkout')).toBe(404);
    await reader.process.stop();
    await until('a writer says whose it is', async () => (await proxy.status('/coupons/validate')) === 421);
  });
});

/** Starts HAProxy with its configuration, on other ports and with these APIs in place of those that Docker names. */
async function startProxy(apis: readonly string[], readers: readonly string[] = []) {
  const [data, httpPort, httpsPort, opsPort] = [folder(), await freePort(), await freePort(), await freePort()];
  const certificate = join(data, 'doorbuster.pem');
  expect((await runProgram('sh', [script('make-certificate.sh')], { CERTIFICATE: certificate })).status).toBe(0);
  const servers = (only: readonly string[]) => only.map((url, i) => `server api${i} ${new URL(url).host}`).join('\n  ');
  const text = read('deploy/compose/haproxy.cfg')
    .replace('/certificates/doorbuster.pem', certificate)
    .replace('/usr/local/etc/haproxy/busy.html', join(projectRoot(), 'deploy/static/busy.html'))
    .replace('maxconn 60000', 'maxconn 1000')
    .replace('bind :80', `bind 127.0.0.1:${httpPort}`)
    .replace('bind :443', `bind 127.0.0.1:${httpsPort}`)
    .replace('bind :8103', `bind 127.0.0.1:${opsPort}`)
    .replaceAll('resolvers docker init-addr none', '')
    .replaceAll(/server-template api 8 api:810[23]/g, servers(apis))
    .replaceAll('server-template readers 8 readers:8102', servers(readers));
  writeFileSync(join(data, 'haproxy.cfg'), text);
  startProgram('haproxy', ['-f', join(data, 'haproxy.cfg')], data);
  const url = `https://127.0.0.1:${httpsPort}`;
  const agent = new Agent({ rejectUnauthorized: false });
  const ask = (path: string) =>
    new Promise<{ status: number; retryAfter: string | null }>((resolve) => {
      const body = JSON.stringify({ product_id: 'none', user_id: 'no-one', qty: 1, idempotency_key: 'the-first-key' });
      const headers = { 'content-type': 'application/json', 'content-length': body.length };
      const req = request(`${url}${path}`, { agent, method: 'POST', headers }, (res) => {
        res.resume();
        res.on('end', () => resolve({ status: res.statusCode ?? 0, retryAfter: res.headers['retry-after'] ?? null }));
      });
      req.on('error', () => resolve({ status: 0, retryAfter: null }));
      req.end(body);
    });
  await until('the proxy has an API', async () => ![0, 503].includes((await ask('/flash-sale/checkout')).status));
  return {
    url,
    httpPort,
    status: async (path: string) => (await ask(path)).status,
    retryAfter: async (path: string) => (await ask(path)).retryAfter,
  };
}

/** Checks out again and again over one connection to the proxy. */
class ProxiedShopper {
  readonly statuses: number[] = [];
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1, rejectUnauthorized: false });
  #running = true;
  #loop: Promise<void> | null = null;

  constructor(
    readonly url: string,
    readonly product: string,
  ) {}

  start(): void {
    this.#loop = this.#run();
  }

  async finish(): Promise<void> {
    this.#running = false;
    await this.#loop;
    this.#agent.destroy();
  }

  async #run(): Promise<void> {
    for (; this.#running; ) this.statuses.push(await this.#checkout());
  }

  #checkout(): Promise<number> {
    const json = JSON.stringify({ product_id: this.product, user_id: `user-${crypto.randomUUID()}`, qty: 1 });
    return new Promise((resolve) => {
      const headers = {
        'content-type': 'application/json',
        'content-length': json.length,
        'idempotency-key': crypto.randomUUID(),
      };
      const req = request(`${this.url}/flash-sale/checkout`, { method: 'POST', agent: this.#agent, headers }, (res) => {
        res.resume();
        res.on('end', () => resolve(res.statusCode ?? 0));
      });
      req.on('error', () => resolve(0));
      req.end(json);
    });
  }
}
