import { describe, expect, test } from '@jest/globals';
import { roleOf } from '../../api/guards/auth/route-roles.js';
import { covers, ROLES, type Role } from '../../shared/domain/role.js';
import { expectProblem, pointersOf } from '../harness/checks.js';
import { type Answer, Operator, send } from '../harness/clients.js';
import { EngineProxy } from '../harness/proxy.js';
import { request } from '../harness/raw-http.js';
import { ADMIN_SECRET, sharedService, startApiProcess } from '../harness/service.js';
import { arrive, checkoutInTurn } from '../harness/shoppers.js';
import { until } from '../harness/until.js';

/** API keys that operators create, and the roles that they have. */
const service = await sharedService();
const { url: otherUrl } = await startApiProcess(service.env);
const operator = new Operator(service.url);
const product = await operator.openCampaign({ total_limit: 10, hold_seconds: 900 });
const bearer = (secret: unknown) => ({ authorization: `Bearer ${secret}` });
/** Is the id of nothing. */
const UNUSED_ID = '01a1fc6c-1111-7c3a-8f00-5a4c3b2a1900';
let keys = 0;

async function createKey(fields: Record<string, unknown> = {}): Promise<Record<string, unknown>> {
  keys += 1;
  const json = { name: `key-${keys}`, kind: 'service', ...fields };
  const { status, data } = await call('POST', '/admin/keys', ADMIN_SECRET, json);
  expect(status).toBe(201);
  return data;
}
const ofRole = async (role: Role) => String((await createKey({ kind: 'admin', role })).secret);
function call(method: string, path: string, secret: unknown, json?: unknown, url = service.url): Promise<Answer> {
  return send(`${url}${path}`, { method, headers: bearer(secret), ...(json === undefined ? {} : { json }) });
}
const reads = (secret: unknown, url = service.url) => call('GET', '/admin/campaigns', secret, undefined, url);
const auditOf = async (action: string, id: unknown) => {
  const { rows } = await service.database.client.query<{ actor: string; before: unknown; after: unknown }>(
    `select actor, before, after from audit_log where action = $1 and coalesce(before, after) ->> 'id' = $2`,
    [action, id],
  );
  return rows;
};

type Operation = { id: string; method: string; path: string };

/** Every call of operators in /openapi.json. */
async function operationsOfOperators(): Promise<Operation[]> {
  const { body } = await request(service.url, { path: '/openapi.json' });
  type Described = { operationId: string; security?: Record<string, unknown>[] };
  const paths = body.paths as Record<string, Record<string, Described>>;
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods)
      .filter(([, { security = [] }]) => security.some((scheme) => 'adminKey' in scheme))
      .map(([method, { operationId }]) => {
        return { id: operationId, method: method.toUpperCase(), path: path.replace(/\{\w+\}/g, UNUSED_ID) };
      }),
  );
}

describe('roles', () => {
  test('are given for every call of operators', async () => {
    const operations = await operationsOfOperators();
    expect(operations.length).toBeGreaterThan(40);
    expect(operations.filter((each) => roleOf({ operationId: each.id }) === null)).toEqual([]);
  });

  test.each(ROLES)('%s may call what its role includes and gets 403 with the needed role elsewhere', async (role) => {
    const secret = await ofRole(role);
    for (const { id, method, path } of await operationsOfOperators()) {
      const needed = roleOf({ operationId: id }) ?? 'admin';
      // A body that is not JSON, so that nothing is changed.
      const headers = { ...bearer(secret), 'content-type': 'application/json' };
      const body = method === 'GET' || method === 'DELETE' ? {} : { body: '{' };
      const answer = await request(service.url, { method, path, headers, ...body });
      if (covers(role, needed)) expect([id, answer.status]).not.toEqual([id, 403]);
      else {
        expectProblem(answer, 403, 'forbidden');
        expect([id, answer.body.required_role]).toEqual([id, needed]);
      }
    }
  });

  test('leave the users in line out for a viewer', async () => {
    const selling = await operator.openCampaign({ total_limit: 1, waiting_room: { enabled: true } });
    await checkoutInTurn([arrive(service.url, selling), arrive(service.url, selling)]);
    const overviewFor = async (role: Role) => {
      const answer = await call('GET', `/admin/overview?campaign=${selling}`, await ofRole(role));
      return answer.data.line;
    };
    expect(await overviewFor('support')).toMatchObject({ waiting: 1, head: [{ position: 1 }] });
    expect(await overviewFor('viewer')).toMatchObject({ waiting: 1, head: [] });
  });

  test('are those of the session that a key opens, which ends with the key', async () => {
    const { id, secret, name } = await createKey({ kind: 'admin', role: 'support' });
    const fromPage = { origin: service.url, 'x-operator-page': '1' };
    const opened = await send(`${service.url}/admin/session`, {
      method: 'POST',
      headers: fromPage,
      json: { key: secret },
    });
    expect(opened.data).toMatchObject({ operator: name, role: 'support' });
    const cookie = String(opened.headers.get('set-cookie')?.split(';')[0]);
    const inSession = (method: string, path: string, url = service.url) =>
      send(`${url}${path}`, { method, headers: { cookie, origin: url, 'x-operator-page': '1' } });
    expect((await inSession('GET', '/admin/bans')).status).toBe(200);
    expectProblem(await inSession('POST', `/admin/campaigns/${product}/pause`), 403, 'forbidden');
    const forged = send(`${service.url}/admin/bans`, { headers: { cookie: cookie.replace(/\.([^.]+)\./, '.AAAA.') } });
    expectProblem(await forged, 401, 'unauthorized');
    await call('DELETE', `/admin/keys/${id}`, ADMIN_SECRET);
    expectProblem(await inSession('GET', '/admin/bans'), 401, 'unauthorized');
    await until('the other process ends the session', async () => {
      return (await inSession('GET', '/admin/session', otherUrl)).status === 401;
    });
  });
});

describe('a created key', () => {
  test('works in every process until it is revoked, and is named in the audit log', async () => {
    const { id, secret, name } = await createKey({ kind: 'admin', role: 'marketer' });
    expect((await reads(secret)).status).toBe(200);
    await until('the other process has the key', async () => (await reads(secret, otherUrl)).status === 200);
    await call('POST', '/admin/bans', secret, { kind: 'user', subject: 'reseller', reason: 'resells' });
    const { rows } = await service.database.client.query(`select 1 from audit_log where actor = $1`, [name]);
    expect(rows.length).toBe(1);
    const revoked = await call('DELETE', `/admin/keys/${id}`, ADMIN_SECRET);
    expect([revoked.status, revoked.data.revoked_by]).toEqual([200, 'tester']);
    expectProblem(await reads(secret), 401, 'unauthorized');
    await until('the other process refuses it', async () => (await reads(secret, otherUrl)).status === 401);
    const again = await call('DELETE', `/admin/keys/${id}`, ADMIN_SECRET);
    expect([again.status, again.data.revoked_at]).toEqual([200, revoked.data.revoked_at]);
    expect(await auditOf('key.create', id)).toMatchObject([{ actor: 'tester', before: null, after: { name } }]);
    expect(await auditOf('key.revoke', id)).toMatchObject([{ actor: 'tester', before: { name }, after: null }]);
  });

  test('of a service confirms a payment, and makes no call of operators', async () => {
    const { secret } = await createKey();
    const { reservation_id } = (await arrive(service.url, product).checkout()).data;
    const paid = await call('POST', '/flash-sale/confirm', secret, { reservation_id, payment_ref: 'pay-keys' });
    expect([paid.status, paid.data.status]).toEqual([200, 'redeemed']);
    expectProblem(await reads(secret), 403, 'forbidden');
    const viewer = await ofRole('viewer');
    expectProblem(await call('POST', '/flash-sale/confirm', viewer, { reservation_id }), 403, 'forbidden');
  });

  test('shows its secret once, and only a hash is stored', async () => {
    const { id, secret } = await createKey();
    expect(secret).toMatch(/^dbk_[\w-]{43}$/);
    const { text, data } = await call('GET', '/admin/keys?all=true', ADMIN_SECRET);
    expect(text).not.toContain(String(secret));
    expect((data as unknown as { id: string }[]).some((key) => key.id === id)).toBe(true);
    const { rows } = await service.database.client.query(
      `select (select string_agg(k::text, '') from api_keys k) || (select string_agg(a::text, '') from audit_log a) as all`,
    );
    expect(rows[0].all).not.toContain(String(secret));
    expect(service.api.log.join('\n')).not.toContain(String(secret));
  });

  test('shows when it was last used', async () => {
    const { id, secret } = await createKey({ kind: 'admin', role: 'viewer' });
    await reads(secret);
    await until('its use is written', async () => {
      const { data } = await call('GET', '/admin/keys', ADMIN_SECRET);
      return (data as unknown as { id: string; last_used_at: string }[]).find((key) => key.id === id)?.last_used_at;
    });
  });

  test('ends at its time', async () => {
    const { id, secret } = await createKey({ kind: 'admin', role: 'viewer', expires_at: '2999-01-01T00:00:00Z' });
    expect((await reads(secret)).status).toBe(200);
    // The deadline is data: it is moved instead of waited for.
    await service.database.client.query(`update api_keys set expires_at = now() where key_id = $1`, [id]);
    await until('it is refused', async () => (await reads(secret)).status === 401);
  });

  test('has a name of its own, also after its end, and fields that fit together', async () => {
    const { id, name } = await createKey();
    await call('DELETE', `/admin/keys/${id}`, ADMIN_SECRET);
    const create = (json: object) => call('POST', '/admin/keys', ADMIN_SECRET, json);
    expectProblem(await create({ name, kind: 'service' }), 409, 'key_exists');
    for (const taken of ['tester', 'velocity', 'clock'])
      expectProblem(await create({ name: taken, kind: 'service' }), 409, 'key_exists');
    const wrong: [object, string][] = [
      [{ name: 'a', kind: 'admin' }, '#/role'],
      [{ name: 'a', kind: 'service', role: 'viewer' }, '#/role'],
      [{ name: 'a', kind: 'admin', role: 'owner' }, '#/role'],
      [{ name: 'a:b', kind: 'service' }, '#/name'],
      [{ name: 'a', kind: 'service', expires_at: '2020-01-01T00:00:00Z' }, '#/expires_at'],
    ];
    for (const [json, pointer] of wrong) {
      const refused = await create(json);
      expectProblem(refused, 400, 'invalid_request');
      expect(pointersOf(refused)).toEqual([pointer]);
    }
    expectProblem(await call('DELETE', `/admin/keys/${UNUSED_ID}`, ADMIN_SECRET), 404, 'key_not_found');
  });
});

test('a created key works without Postgres, and gets 503 in a process that could not read it yet', async () => {
  const { secret } = await createKey({ kind: 'admin', role: 'support' });
  const database = new URL(service.database.url);
  const proxy = await EngineProxy.before(Number(database.port));
  database.host = `127.0.0.1:${proxy.port}`;
  const env = { ...service.env, DATABASE_URL: database.href };
  const { url } = await startApiProcess(env);
  // The line is in Redis.
  const readsLine = (at: string, of: unknown = secret) =>
    call('GET', `/admin/campaigns/${product}/line`, of, undefined, at);
  await until('the process has the key', async () => (await readsLine(url)).status === 200);
  await proxy.swallow();
  const { url: blind } = await startApiProcess(env, false);
  expectProblem(await readsLine(blind), 503, 'temporarily_unavailable');
  expectProblem(await readsLine(blind, `${ADMIN_SECRET}x`), 401, 'unauthorized');
  // The key is known: it is its role that does not suffice.
  expectProblem(await call('GET', '/admin/queues/', secret, undefined, url), 403, 'forbidden');
});
