import { describe, expect, test } from '@jest/globals';
import type { Browser } from 'playwright-core';
import { accessibilityFindings, openPhone, startBrowser } from '../harness/browser.js';
import { expectProblem } from '../harness/checks.js';
import { Operator, send } from '../harness/clients.js';
import { freePort } from '../harness/free-port.js';
import { CLIENT_ID, CLIENT_SECRET, startIssuer } from '../harness/issuer.js';
import { behindApi, sharedService, startApiProcess } from '../harness/service.js';
import { until } from '../harness/until.js';

/** Operators log in at a real OpenID Connect provider. */
const port = await freePort();
const redirectUrl = `http://127.0.0.1:${port}/admin/login/callback`;
const { issuer, stop: stopIssuer } = await startIssuer(redirectUrl);
const service = await behindApi(await sharedService(), {
  PORT: String(port),
  OIDC_ISSUER: issuer,
  OIDC_CLIENT_ID: CLIENT_ID,
  OIDC_CLIENT_SECRET: CLIENT_SECRET,
  OIDC_ROLES: 'shop-support:support,shop-admins:admin,everybody:viewer',
});
const { url } = service;
const operator = new Operator(url);
const product = await operator.openCampaign({ total_limit: 10 });
const sql = service.database.client;
const browser = await startBrowser();
const inBrowser = browser ? describe : describe.skip;
const LIMIT_MS = 30_000;

/** The cookies of one browser, by name. */
class Jar {
  readonly cookies = new Map<string, string>();
  readonly lines: string[] = [];

  async go(address: string, init: RequestInit = {}): Promise<Response> {
    const cookie = [...this.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const headers = { ...(init.headers as Record<string, string>), ...(cookie ? { cookie } : {}) };
    const response = await fetch(address, { redirect: 'manual', ...init, headers });
    for (const line of response.headers.getSetCookie()) {
      this.lines.push(line);
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      if (value === '') this.cookies.delete(name);
      else this.cookies.set(name, value);
    }
    return response;
  }
}
const placeOf = (response: Response) => new URL(String(response.headers.get('location')), response.url).href;

/** Goes to the provider and back. @returns the address of the return, with its query, before it is called */
async function atProvider(jar: Jar, name: string, groups: string): Promise<string> {
  const theirs = new Jar();
  let next = await theirs.go(placeOf(await jar.go(`${url}/admin/login`)));
  const form = { method: 'POST', body: new URLSearchParams({ name, groups }) };
  next = await theirs.go(placeOf(next), form);
  next = await theirs.go(placeOf(next));
  return placeOf(next);
}

async function logIn(name: string, groups: string): Promise<{ jar: Jar; cookie: string; location: string }> {
  const jar = new Jar();
  const back = await jar.go(await atProvider(jar, name, groups));
  return {
    jar,
    cookie: `doorbuster_operator=${jar.cookies.get('doorbuster_operator')}`,
    location: String(back.headers.get('location')),
  };
}
const withCookie = (cookie: string, method: string, path: string, at = url, headers: Record<string, string> = {}) =>
  send(`${at}${path}`, { method, headers: { cookie, origin: at, 'x-operator-page': '1', ...headers } });

describe('an operator', () => {
  test('logs in at the issuer and has the highest role of their groups, in a cookie that only this site gets', async () => {
    const { jar, cookie, location } = await logIn('ann', 'everybody shop-support strangers');
    expect(location).toBe('/admin');
    expect(jar.lines.find((line) => line.startsWith('doorbuster_login='))).toMatch(
      /; Path=\/admin; Max-Age=600; HttpOnly; SameSite=Lax$/,
    );
    expect(jar.lines.find((line) => line.startsWith('doorbuster_operator='))).toMatch(
      /; Path=\/admin; Max-Age=28800; HttpOnly; SameSite=Strict$/,
    );
    const session = await withCookie(cookie, 'GET', '/admin/session');
    expect(session.data).toMatchObject({ operator: 'ann@shop.example', role: 'support' });
    expect((await withCookie(cookie, 'GET', '/admin/bans')).status).toBe(200);
    const refused = await withCookie(cookie, 'POST', `/admin/campaigns/${product}/pause`);
    expectProblem(refused, 403, 'forbidden');
    expect(refused.body.required_role).toBe('marketer');
    const { data } = await operator.call('GET', '/admin/audit?actor=ann%40shop.example');
    expect(data).toMatchObject([{ action: 'operator.login', role: 'support', subject: 'ann' }]);
  });

  test('changes nothing from another site, with the cookie alone', async () => {
    const { cookie } = await logIn('root', 'shop-admins');
    const others: Record<string, string>[] = [
      { origin: 'https://elsewhere.example' },
      { 'sec-fetch-site': 'cross-site' },
      { 'sec-fetch-site': 'same-site' },
    ];
    for (const headers of others)
      expectProblem(
        await withCookie(cookie, 'POST', `/admin/campaigns/${product}/pause`, url, headers),
        403,
        'forbidden',
      );
    const plain = send(`${url}/admin/campaigns/${product}/pause`, { method: 'POST', headers: { cookie } });
    expectProblem(await plain, 403, 'forbidden');
  });

  test('without a group that has a role gets no session', async () => {
    const { jar, location } = await logIn('eve', 'strangers');
    expect(location).toBe('/admin?login=no-role');
    expect(jar.cookies.size).toBe(0);
  });

  test('keeps their name, which no other subject gets, and an unverified address is no name', async () => {
    await sql.query(
      `insert into operators (operator_id, name, issuer, subject) values (gen_random_uuid(), 'dan@shop.example', $1, 'another dan')`,
      [issuer],
    );
    const nameOf = async (name: string) => {
      const { cookie } = await logIn(name, 'everybody');
      return (await withCookie(cookie, 'GET', '/admin/session')).data.operator;
    };
    expect([await nameOf('dan'), await nameOf('dan')]).toEqual(['dan@shop.example#2', 'dan@shop.example#2']);
    expect(await nameOf('unverified-tester')).toBe('unverified-tester@oidc');
  });
});

describe('a login', () => {
  test('is refused in another browser, with another state, twice, and when it was cancelled', async () => {
    const [one, other] = [new Jar(), new Jar()];
    const back = await atProvider(one, 'ann', 'shop-support');
    expect((await other.go(back)).headers.get('location')).toBe('/admin?login=expired');
    await other.go(`${url}/admin/login`);
    expect((await other.go(back)).headers.get('location')).toBe('/admin?login=refused');
    const begun = one.cookies.get('doorbuster_login');
    expect((await one.go(back)).headers.get('location')).toBe('/admin');
    one.cookies.set('doorbuster_login', String(begun));
    expect((await one.go(back)).headers.get('location')).toBe('/admin?login=refused');
    const cancelled = new Jar();
    await cancelled.go(`${url}/admin/login`);
    const denied = await cancelled.go(`${redirectUrl}?error=access_denied&state=x`);
    expect(denied.headers.get('location')).toBe('/admin?login=refused');
    expect([other.cookies, cancelled.cookies].flatMap((cookies) => [...cookies.keys()])).toEqual([]);
  });

  test('returns from the issuer three times at most, so that it does not make calls without end', async () => {
    const jar = new Jar();
    await jar.go(`${url}/admin/login`);
    const begun = String(jar.cookies.get('doorbuster_login'));
    const places: (string | null)[] = [];
    for (let i = 0; i < 4; i += 1) {
      jar.cookies.set('doorbuster_login', begun);
      places.push((await jar.go(`${redirectUrl}?error=access_denied&state=x`)).headers.get('location'));
    }
    expect(places).toEqual([...Array(3).fill('/admin?login=refused'), '/admin?login=expired']);
  });

  test('is begun by a person, not by pictures on another site, which use up no login of the network', async () => {
    const picture = { headers: { 'sec-fetch-site': 'cross-site', 'sec-fetch-dest': 'image' } };
    for (let i = 0; i < 61; i += 1) {
      const jar = new Jar();
      expect((await jar.go(`${url}/admin/login`, picture)).headers.get('location')).toBe('/admin');
      expect(jar.cookies.size).toBe(0);
    }
    expect((await logIn('ann', 'shop-support')).location).toBe('/admin');
  });

  test('cannot be forged: neither the cookie of a login nor that of a session', async () => {
    // The last characters of base64url have bits that mean nothing, so a changed end may be the same value.
    const changed = (text: string) => (text.startsWith('A') ? 'B' : 'A') + text.slice(1);
    const { cookie } = await logIn('ann', 'shop-support');
    const [, token = '', mac = ''] = cookie.split('.');
    const forged = [
      cookie.replace(mac, changed(mac)),
      cookie.replace(token, token.split('').reverse().join('')),
      cookie.slice(0, -1),
      `${cookie}.x`,
      'doorbuster_operator=s..',
    ];
    for (const one of forged) expectProblem(await withCookie(one, 'GET', '/admin/bans'), 401, 'unauthorized');
    const jar = new Jar();
    await jar.go(`${url}/admin/login`);
    const sealed = String(jar.cookies.get('doorbuster_login'));
    for (const value of [changed(sealed), sealed.replace('.', 'A.'), 'x', '.']) {
      jar.cookies.set('doorbuster_login', value);
      const refused = await jar.go(`${redirectUrl}?code=x&state=x`);
      expect(refused.headers.get('location')).toBe('/admin?login=expired');
    }
  });
});

describe('a session', () => {
  test('ends in every process when its operator logs out, or an admin ends it', async () => {
    const { url: otherUrl } = await startApiProcess({ ...service.env, PORT: '0' });
    const ends = async (cookie: string, end: () => Promise<unknown>) => {
      expect((await withCookie(cookie, 'GET', '/admin/bans', otherUrl)).status).toBe(200);
      await end();
      expectProblem(await withCookie(cookie, 'GET', '/admin/bans'), 401, 'unauthorized');
      await until('the other process refuses it', async () => {
        return (await withCookie(cookie, 'GET', '/admin/bans', otherUrl)).status === 401;
      });
    };
    const first = await logIn('ann-out', 'shop-support');
    await ends(first.cookie, () => withCookie(first.cookie, 'DELETE', '/admin/session'));
    const second = await logIn('ann-ended', 'shop-support');
    const { data } = await operator.call('GET', '/admin/sessions');
    const listed = data as unknown as { id: string; operator: string; role: string }[];
    expect(listed.map((session) => session.operator)).not.toContain('ann-out@shop.example');
    const own = listed.find((session) => session.operator === 'ann-ended@shop.example');
    expect(own?.role).toBe('support');
    await ends(second.cookie, () => operator.call('DELETE', `/admin/sessions/${own?.id}`));
    const unknown = await operator.call('DELETE', '/admin/sessions/01a1fc6c-1111-7c3a-8f00-5a4c3b2a1900');
    expectProblem(unknown, 404, 'session_not_found');
    const actions = (await operator.call('GET', '/admin/audit?action=session.end')).data;
    const ended = (actions as unknown as { actor: string; before: { operator: string } }[]).filter(
      ({ before }) => before.operator === 'ann-ended@shop.example',
    );
    expect(ended).toMatchObject([{ actor: 'tester' }]);
  });

  test.each([
    ['was not used for an hour', `last_seen_at = now() - interval '61 minutes'`],
    ['is over', 'expires_at = now()'],
  ])('ends when it %s', async (_, change) => {
    const { cookie } = await logIn('ann-idle', 'shop-support');
    expect((await withCookie(cookie, 'GET', '/admin/bans')).status).toBe(200);
    await sql.query(`update operator_sessions set ${change}`);
    await until('it is refused', async () => (await withCookie(cookie, 'GET', '/admin/bans')).status === 401);
  });

  test('is stored as a hash', async () => {
    const { cookie } = await logIn('ann', 'shop-support');
    const [, token = ''] = cookie.split('.');
    const { rows } = await sql.query(`select encode(digest, 'hex') as digest, s::text as all from operator_sessions s`);
    const hex = Buffer.from(token, 'base64url').toString('hex');
    for (const row of rows) expect(row.all + row.digest).not.toContain(hex);
    expect(service.api.log.join('\n')).not.toContain(token);
  });
});

inBrowser('on the page, an operator', () => {
  test('logs in with single sign-on, comes back to where they were, and logs out', async () => {
    const { page, context, faults } = await openPhone(browser as Browser, { viewport: { width: 1280, height: 800 } });
    await page.goto(`${url}/admin#/health`);
    const link = page.getByRole('link', { name: 'Log in with single sign-on' });
    await link.waitFor({ timeout: LIMIT_MS });
    expect(await accessibilityFindings(page)).toEqual([]);
    await link.press('Enter');
    await page.getByLabel('Name').fill('bea');
    await page.getByLabel('Groups').fill('shop-admins');
    await page.getByRole('button', { name: 'Continue' }).click();
    await page.getByRole('heading', { name: 'Health', exact: true }).waitFor({ timeout: LIMIT_MS });
    await page.getByText('bea@shop.example · admin').waitFor();
    const cookies = (await context.cookies(`${url}/admin`)).filter(({ name }) => name.startsWith('doorbuster'));
    expect(cookies.map(({ name, httpOnly, sameSite }) => [name, httpOnly, sameSite])).toEqual([
      ['doorbuster_operator', true, 'Strict'],
    ]);
    await page.getByRole('link', { name: 'Keys' }).click();
    await page
      .getByRole('rowheader', { name: /bea@shop\.example/ })
      .first()
      .waitFor({ timeout: LIMIT_MS });
    expect(await accessibilityFindings(page)).toEqual([]);
    await page.getByRole('button', { name: 'End the session of bea@shop.example' }).first().click();
    await page.getByRole('button', { name: 'End session' }).click();
    await page.goto(`${url}/admin#/`);
    await page.getByText('Operators').waitFor({ timeout: LIMIT_MS });
    expect(faults).toEqual([]);
  });

  test('reads why they have no access', async () => {
    const { page } = await openPhone(browser as Browser);
    await page.goto(`${url}/admin`);
    await page.getByRole('link', { name: 'Log in with single sign-on' }).click();
    await page.getByLabel('Name').fill('mallory');
    await page.getByRole('button', { name: 'Continue' }).click();
    await page.getByText('none of your groups has a role here').waitFor({ timeout: LIMIT_MS });
    expect(await accessibilityFindings(page)).toEqual([]);
  });
});

test('while the issuer is away, keys still work and the page says so', async () => {
  const { url: later } = await startApiProcess({ ...service.env, PORT: '0' });
  await stopIssuer();
  const refused = await fetch(`${later}/admin/login`, { redirect: 'manual' });
  expect([refused.status, refused.headers.get('location')]).toEqual([303, '/admin?login=unavailable']);
  expect((await operator.call('GET', '/admin/campaigns')).status).toBe(200);
});
