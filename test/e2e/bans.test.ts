import { randomUUID } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { expectProblem } from '../harness/checks.js';
import { type Answer, Operator, send, sendOnce } from '../harness/clients.js';
import { keyNames } from '../harness/key-names.js';
import { exchangeBytes } from '../harness/raw-http.js';
import { startApiProcess, startService } from '../harness/service.js';
import { arrive } from '../harness/shoppers.js';
import { freshToken } from '../harness/tokens.js';
import { until } from '../harness/until.js';

// One proxy may name the address, so that a test can come from anywhere.
const service = await startService({ TRUST_PROXY: '1' });
const operator = new Operator(service.url);
const product = await operator.openCampaign({ total_limit: 1_000, code: 'BANS-TEST-1' });

const inAnHour = () => new Date(Date.now() + 3_600_000).toISOString();
const ban = async (kind: string, subject: string, fields: Record<string, unknown> = {}): Promise<Answer> =>
  operator.call('POST', '/admin/bans', { kind, subject, reason: 'a test', ...fields });
const lift = (id: string) => operator.call('DELETE', `/admin/bans/${id}`);

/** All calls that make a new claim, as this user on this device from this address. */
function attempts(who: { user?: string; device?: string; address?: string }, url = service.url) {
  const { user = `user-${randomUUID()}`, device = `fp-${randomUUID()}`, address = '192.0.2.1' } = who;
  const headers = { 'x-forwarded-for': address };
  const key = { idempotency_key: randomUUID() };
  const post = (path: string, json: unknown) => send(`${url}${path}`, { method: 'POST', headers, json });
  return {
    checkout: () =>
      post('/flash-sale/checkout', { product_id: product, user_id: user, qty: 1, ...freshToken(device), ...key }),
    token: () => send(`${url}/flash-sale/token?device_fp=${device}`, { headers }),
    validate: () => post('/coupons/validate', { code: 'BANS-TEST-1', user_id: user }),
    redeem: () =>
      post('/coupons/redeem', { code: 'BANS-TEST-1', user_id: user, order_id: 'o-1', device_fp: device, ...key }),
    couponToken: () => send(`${url}/coupons/token?code=BANS-TEST-1&user_id=${user}`, { headers }),
  };
}

describe('a ban', () => {
  test('of a user, a device or a network refuses with its end, and refuses no other caller', async () => {
    const end = inAnHour();
    const cases = [
      ['user', 'user-bad', ['checkout', 'validate', 'redeem', 'couponToken'], { user: 'user-bad' }],
      ['device', 'fp-bad', ['checkout', 'token', 'redeem'], { device: 'fp-bad' }],
      [
        'network',
        '198.51.100.9',
        ['checkout', 'token', 'validate', 'redeem', 'couponToken'],
        { address: '198.51.100.9' },
      ],
    ] as const;
    for (const [kind, subject, ways, who] of cases) {
      const made = await ban(kind, subject, { until: end });
      expect([made.status, made.data]).toEqual([
        201,
        {
          id: expect.any(String),
          effect: 'ban',
          kind,
          subject,
          until: end,
          reason: 'a test',
          actor: 'tester',
          created_at: expect.any(String),
          lifted_at: null,
          lifted_by: null,
        },
      ]);
      for (const way of ways) {
        const refused = await attempts(who)[way]();
        expectProblem(refused, 403, 'blocked');
        expect([way, refused.body.until]).toEqual([way, end]);
        const retryAfter = Number(refused.headers.get('retry-after'));
        expect([way, retryAfter >= 3_590 && retryAfter <= 5_402]).toEqual([way, true]);
        expect([200, 201]).toContain((await attempts({})[way]()).status);
      }
      expect((await lift(made.data.id)).data.lifted_by).toBe('tester');
      for (const way of ways) expect([200, 201, 409]).toContain((await attempts(who)[way]()).status);
    }
  });

  test('of an address counts for the /64 of IPv6, and a range for all that lies in it', async () => {
    const six = await ban('network', '2001:db8:5::7');
    expect(six.data.subject).toBe('2001:db8:5:0::/64');
    expectProblem(await attempts({ address: '2001:db8:5:0:ffff::1' }).token(), 403, 'blocked');
    expect((await attempts({ address: '2001:db8:5:1::7' }).token()).status).toBe(200);
    const range = await ban('network', '203.0.113.77/24', { until: null });
    expect(range.data.subject).toBe('203.0.113.0/24');
    const refused = await attempts({ address: '203.0.113.255' }).token();
    expectProblem(refused, 403, 'blocked');
    expect([refused.body.until, refused.headers.get('retry-after')]).toEqual([null, null]);
    expect((await attempts({ address: '203.0.114.0' }).token()).status).toBe(200);
    await lift(range.data.id);
    expect((await attempts({ address: '203.0.113.255' }).token()).status).toBe(200);
  });

  test('of a network holds whichever way the target is written', async () => {
    const address = '198.51.100.60';
    const made = await ban('network', address);
    const body = (user: string) =>
      JSON.stringify({
        '/flash-sale/checkout': { product_id: product, user_id: user, qty: 1, ...freshToken('fp-spelled') },
        '/coupons/validate': { code: 'BANS-TEST-1', user_id: user },
        '/coupons/redeem': { code: 'BANS-TEST-1', user_id: user, order_id: 'o-1' },
      });
    const call = (method: string, target: string, path: string, from: string) => {
      const json = method === 'POST' ? JSON.stringify(JSON.parse(body(`user-${randomUUID()}`))[path] ?? {}) : '';
      const head = [
        `${method} ${target} HTTP/1.1`,
        'Host: doorbuster.test',
        `X-Forwarded-For: ${from}`,
        `Idempotency-Key: ${randomUUID()}`,
        'Content-Type: application/json',
        `Content-Length: ${json.length}`,
      ];
      return exchangeBytes(service.url, Buffer.from(`${head.join('\r\n')}\r\n\r\n${json}`, 'latin1'));
    };
    const ways: [string, string][] = [
      ['POST', '/flash-sale/checkout'],
      ['POST', '/coupons/validate'],
      ['POST', '/coupons/redeem'],
      ['GET', '/flash-sale/token'],
      ['HEAD', '/flash-sale/token'],
      ['GET', '/coupons/token'],
    ];
    const query = '?code=BANS-TEST-1&user_id=u&device_fp=fp-spelled';
    for (const [method, path] of ways) {
      for (const target of [path + query, `${path}?`, `${path}${query}&x=/y/`]) {
        const answer = await call(method, target, path, address);
        expect([method, target, answer?.status]).toEqual([method, target, 403]);
      }
      const last = path.at(-1) as string;
      const others = [
        `${path}/${query}`,
        `/.${path}${query}`,
        `/${path}${query}`,
        `${path.replace('/', '//')}${query}`,
        `${path.slice(0, -1)}%${last.charCodeAt(0).toString(16)}${query}`,
        `${path.toUpperCase()}${query}`,
        `${path};x${query}`,
        `${path}%20${query}`,
        `http://doorbuster.test${path}${query}`,
        `HTTP://doorbuster.test${path}${query}`,
        `//doorbuster.test${path}${query}`,
        `${path}${query}#x`,
        `${path}#${query}`,
        `${path.replaceAll('/', '\\')}${query}`,
        `${path.replaceAll('/', '\\')}\xa0${query}`,
        `${path}\t${query}`,
      ];
      for (const target of others)
        expect([
          method,
          target,
          [400, 403, 404].includes((await call(method, target, path, address))?.status ?? 0),
        ]).toEqual([method, target, true]);
    }
    await lift(made.data.id);
  });

  test('of a network holds whichever way a proxy writes the address', async () => {
    const made = [await ban('network', '198.51.100.61'), await ban('network', '2001:db8:61::/64')];
    const ways = ['198.51.100.61:1234', '198.51.100.61:5678', '::ffff:198.51.100.61', '::ffff:c633:643d'];
    const sixes = [
      '[2001:db8:61::1]:443',
      '[2001:db8:61::2]',
      '2001:DB8:61:0::3',
      '64:ff9b::c633:643d',
      '2001:db8:61::9%eth0',
    ];
    for (const address of [...ways, ...sixes]) {
      const { status } = await attempts({ address }).token();
      expect([address, status]).toEqual([address, 403]);
    }
    // An address that cannot be parsed counts as the proxy itself.
    expect((await attempts({ address: 'unknown' }).token()).status).toBe(200);
    await Promise.all(made.map(({ data }) => lift(data.id)));
  });

  test('ends at its time', async () => {
    const banFor = async (ms: number) => {
      const user = `user-short-${ms}`;
      const endsAt = Date.now() + ms;
      await ban('user', user, { until: new Date(endsAt).toISOString() });
      return { user, refused: await attempts({ user }).validate(), isInTime: Date.now() < endsAt };
    };
    let short = await banFor(1_200);
    // A busy machine answers after such a short ban.
    for (let ms = 2_400; !short.isInTime; ms *= 2) short = await banFor(ms);
    const { user, refused } = short;
    expectProblem(refused, 403, 'blocked');
    await until('the ban is over', async () => (await attempts({ user }).validate()).status === 200);
  });

  test('keeps the units of a user, who can still read, pay and release them', async () => {
    const sale = await operator.openCampaign({ total_limit: 1, hold_seconds: 900, waiting_room: { enabled: true } });
    const holder = arrive(service.url, sale);
    const waiter = arrive(service.url, sale);
    await holder.checkout();
    await waiter.checkout();
    await ban('user', waiter.user);
    expect((await waiter.queueStatus({ 'x-ticket': String(waiter.ticket) })).data.status).toBe('queued');
    expect((await waiter.leave()).status).toBe(200);
    expectProblem(await waiter.checkout(), 403, 'blocked');
  });

  test('is not put off by a forged address when no proxy is trusted', async () => {
    const { url } = await startApiProcess({ ...service.env, TRUST_PROXY: '0' });
    const made = await ban('network', '127.0.0.1');
    const forged = () => attempts({ address: '192.0.2.200' }, url).token();
    await until('the ban has arrived', async () => (await forged()).status === 403);
    expect((await attempts({ address: '192.0.2.200' }).token()).status).toBe(200);
    await lift(made.data.id);
    await until('it was lifted', async () => (await forged()).status === 200);
    await ban('network', '192.0.2.200');
    expect((await forged()).status).toBe(200);
    // Nor does the address change which device is derived.
    const derived = async (headers: Record<string, string>) =>
      (await send(`${url}/flash-sale/token`, { headers })).data.device_fp;
    expect(await derived({ 'x-forwarded-for': '192.0.2.201' })).toBe(await derived({}));
  });
});

describe('every API process', () => {
  test('gets a ban and its end, and one that starts later has it, also without Postgres', async () => {
    const other = await startApiProcess(service.env);
    const made = await ban('user', 'user-everywhere');
    const there = (url: string) => attempts({ user: 'user-everywhere' }, url).checkout();
    await until('the other process refuses', async () => (await there(other.url)).status === 403);
    const later = await startApiProcess(service.env);
    await until('the later process refuses', async () => (await there(later.url)).status === 403);
    const withoutPostgres = { ...service.env, DATABASE_URL: 'postgres://nobody@127.0.0.1:1/nothing' };
    const blind = await startApiProcess(withoutPostgres, false);
    await until('the process without Postgres refuses', async () => (await there(blind.url)).status === 403);
    await lift(made.data.id);
    for (const { url } of [other, later, blind])
      await until('the ban is lifted there', async () => (await there(url)).status !== 403);
  });

  test('keeps what it knows when its subscription breaks, and finds what it missed', async () => {
    const before = await ban('user', 'user-before');
    await service.redis.client.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
    expectProblem(await attempts({ user: 'user-before' }).validate(), 403, 'blocked');
    const missed = randomUUID();
    await service.database.client.query(
      `insert into bans (ban_id, effect, kind, subject, reason, actor) values ($1, 'ban', 'user', 'user-missed', 'r', 'a')`,
      [missed],
    );
    await service.redis.client.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
    await until('it was read again', async () => (await attempts({ user: 'user-missed' }).validate()).status === 403);
    await lift(before.data.id);
  });

  test('finds a ban that was not announced within seconds, and that it was lifted', async () => {
    const id = randomUUID();
    const sql = service.database.client;
    await sql.query(
      `insert into bans (ban_id, effect, kind, subject, reason, actor) values ($1, 'ban', 'user', 'user-silent', 'r', 'a')`,
      [id],
    );
    const status = async () => (await attempts({ user: 'user-silent' }).couponToken()).status;
    await until('it is in force', async () => (await status()) === 403);
    await sql.query(`update bans set lifted_at = now(), lifted_by = 'a', changed_at = now() where ban_id = $1`, [id]);
    await until('it is lifted', async () => (await status()) === 200);
  });

  test('writes to Postgres what a rule made while Postgres was away', async () => {
    const id = randomUUID();
    const made = {
      id,
      effect: 'ban',
      kind: 'user',
      subject: 'user-of-a-rule',
      untilMs: Date.now() + 60_000,
      reason: 'r',
      actor: 'rule:x',
    };
    await service.redis.client.hset('db1:bans', id, JSON.stringify(made));
    await service.redis.client.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
    await until('it is listed', async () =>
      (await operator.call('GET', '/admin/bans?subject=user-of-a-rule')).text.includes(id),
    );
    // Bans that strangers cause are in no append-only table.
    const { rows } = await service.database.client.query(`select 1 from audit_log where after ->> 'id' = $1`, [id]);
    expect(rows).toEqual([]);
  });

  test('stores a flood of bans that a rule makes at a rate, without audit entries, and all of them hold', async () => {
    const sale = await operator.openCampaign({
      total_limit: 10_000,
      risk: 'enforce',
      limits: { accounts_per_device: 1, accounts_per_address: null, unusual_hours: null },
    });
    const sql = service.database.client;
    const devices = Array.from({ length: 200 }, () => `fp-farm-${randomUUID()}`);
    const buy = (device: string) =>
      send(`${service.url}/flash-sale/checkout`, {
        method: 'POST',
        json: { product_id: sale, user_id: 'user-farm', qty: 1, ...freshToken(device), idempotency_key: randomUUID() },
      });
    for (const answer of await Promise.all(devices.map(buy))) expectProblem(answer, 403, 'blocked');
    for (const answer of await Promise.all(devices.map(buy))) expectProblem(answer, 403, 'blocked');
    const stored = async () => {
      const { rows } = await sql.query(
        `select count(*)::int as bans from bans where actor = 'rule:accounts_per_device'`,
      );
      return rows[0].bans as number;
    };
    const { text } = await send(`${service.url}/metrics`);
    const dropped = Number(/^doorbuster_rule_bans_dropped_total{reason="rate"} (\d+)$/m.exec(text)?.[1]);
    expect(dropped).toBeGreaterThan(0);
    await until('the others are stored', async () => (await stored()) === 200 - dropped);
    const { rows } = await sql.query(`select 1 from audit_log where actor like 'rule:%'`);
    expect(rows).toEqual([]);
    const kept = await keyNames(service.redis.client, 'db1:bans:*');
    expect(kept.length).toBeGreaterThan(0);
    for (const key of kept) expect(await service.redis.client.pttl(key)).toBeGreaterThan(0);
  });
});

describe('operators', () => {
  test('list bans by page, also those that are over, and lift one as often as they like', async () => {
    const subject = `user-${randomUUID()}`;
    const ids: string[] = [];
    for (let i = 0; i < 3; i += 1) ids.unshift((await ban('user', subject)).data.id);
    const idsAt = (answer: Answer) => (answer.data as unknown as { id: string }[]).map(({ id }) => id);
    const first = await operator.call('GET', `/admin/bans?subject=${subject}&kind=user&limit=2`);
    expect(idsAt(first)).toEqual(ids.slice(0, 2));
    const next = String(/<([^>]+)>/.exec(String(first.headers.get('link')))?.[1]);
    expect(idsAt(await operator.call('GET', next))).toEqual(ids.slice(2));
    for (const _ of [1, 2]) expect((await lift(String(ids[0]))).status).toBe(200);
    expect(idsAt(await operator.call('GET', `/admin/bans?subject=${subject}`))).toEqual(ids.slice(1));
    expect(idsAt(await operator.call('GET', `/admin/bans?subject=${subject}&all=true`))).toEqual(ids);
    // Two more are in force for the same user, who stays banned when one is lifted.
    expectProblem(await attempts({ user: subject }).validate(), 403, 'blocked');
    expectProblem(await lift(randomUUID()), 404, 'ban_not_found');
    expectProblem(await lift('nonsense'), 400, 'invalid_request');
  });

  test('get the reason why a ban is invalid', async () => {
    for (const wrong of [
      { subject: 'a b' },
      { subject: '' },
      { kind: 'network', subject: '0.0.0.0/0' },
      { kind: 'network', subject: 'user-1' },
      { kind: 'city' },
      { until: '2020-01-01T00:00:00Z' },
      { until: 'tomorrow' },
      { reason: '' },
      { effect: 'praise' },
    ]) {
      expectProblem(await ban('user', 'user-x', wrong), 400, 'invalid_request');
    }
    for (const query of ['kind=city', 'effect=praise', 'all=yes', 'limit=0', 'limit=501', 'limit=x', 'cursor=1'])
      expectProblem(await operator.call('GET', `/admin/bans?${query}`), 400, 'invalid_request');
  });

  test('leave an audit entry with who, what and why', async () => {
    const made = await ban('device', 'fp-audited', { effect: 'allow', reason: 'the shop’s own till' });
    await lift(made.data.id);
    const { rows } = await service.database.client.query(
      `select actor, action, before, after from audit_log where coalesce(after, before) ->> 'id' = $1 order by audit_id`,
      [made.data.id],
    );
    const entry = { id: made.data.id, effect: 'allow', kind: 'device', subject: 'fp-audited', until: null };
    expect(rows).toEqual([
      { actor: 'tester', action: 'ban.create', before: null, after: expect.objectContaining(entry) },
      { actor: 'tester', action: 'ban.lift', before: expect.objectContaining(entry), after: null },
    ]);
  });
});

test('a ban costs no round trip: it refuses while Redis hangs, and before the body is read', async () => {
  await ban('network', '198.51.100.50');
  const from = (address: string, init: { json?: unknown; body?: string }) =>
    sendOnce(`${service.url}/flash-sale/checkout`, {
      method: 'POST',
      headers: { 'x-forwarded-for': address },
      ...init,
    });
  const json = { product_id: product, user_id: 'user-hang', qty: 1, ...freshToken('fp-hang') };
  service.redis.kill('SIGSTOP');
  try {
    expectProblem(await from('198.51.100.50', { body: '{' }), 403, 'blocked');
    expectProblem(await from('198.51.100.51', { body: '{' }), 415, 'unsupported_media_type');
    const allowed = await from('198.51.100.51', { json: { ...json, idempotency_key: randomUUID() } });
    expectProblem(allowed, 503, 'temporarily_unavailable');
  } finally {
    service.redis.kill('SIGCONT');
  }
});
