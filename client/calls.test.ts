import { expect, jest, test } from '@jest/globals';
import { type Answer, Calls, Refusal } from './calls.js';

test('each response tells its headers and when it was requested, also a refusal', async () => {
  const told: [string | null, number][] = [];
  const began = performance.now();
  const refused = { type: 'https://doorbuster.dev/errors/sold_out', code: 'sold_out', status: 409 };
  const answers = [Response.json({ data: {} }), Response.json(refused, { status: 409 })];
  for (const [i, answer] of answers.entries()) answer.headers.set('Date', `time ${i}`);
  const calls = new Calls({
    baseUrl: '',
    fetch: async () => answers[told.length] as Response,
    timeoutMs: 10_000,
    answered: (headers, askedAtMs) => told.push([headers.get('Date'), askedAtMs]),
  });
  await calls.once({ method: 'GET', path: '/', fits: () => true });
  await expect(calls.once({ method: 'GET', path: '/', fits: () => true })).rejects.toMatchObject({ code: 'sold_out' });
  expect(told.map(([date]) => date)).toEqual(['time 0', 'time 1']);
  for (const [, askedAtMs] of told) {
    expect(askedAtMs).toBeGreaterThanOrEqual(began);
    expect(askedAtMs).toBeLessThanOrEqual(performance.now());
  }
});

const callsWith = (answer: () => Response) =>
  new Calls({ baseUrl: '', fetch: async () => answer(), timeoutMs: 10_000 });
const refusalOf = (work: Promise<unknown>) => work.then(() => null).catch((error: Refusal) => error);

test.each([
  ['the page of an ingress', new Response('default backend', { status: 404 })],
  ['the page of a firewall', new Response('<html>', { status: 403 })],
  ['the login of a network', new Response('<html>', { status: 407 })],
  ['JSON of another service', Response.json({ code: 'NotFound', type: 'about:blank' }, { status: 404 })],
  ['a problem document of another service', Response.json({ type: '/errors/', code: 'gone' }, { status: 410 })],
  [
    'a problem document with a code of its own',
    Response.json({ type: 'https://gw/errors/no_such_route', code: 'no_such_route' }, { status: 404 }),
  ],
  ['a problem document without a code', Response.json({ type: 'https://gw/errors/undefined' }, { status: 404 })],
  ['a redirect', new Response(null, { status: 302, headers: { Location: '/login' } })],
  ['a 304 that was not asked for', new Response(null, { status: 304 })],
  ['data without what was asked for', Response.json({ data: {} })],
  ['data that are no object', Response.json({ data: 'status' })],
  [
    'a problem document of another service with a code of ours',
    Response.json({ type: 'https://gw/errors/sold_out', code: 'sold_out', status: 410 }, { status: 410 }),
  ],
  [
    'a problem document with another status',
    Response.json({ type: 'https://doorbuster.dev/errors/sold_out', code: 'sold_out', status: 410 }, { status: 404 }),
  ],
  ['JSON that is no object', Response.json('busy', { status: 400 })],
  ['null', Response.json(null, { status: 409 })],
  ['a page of the portal', new Response('<html>')],
])('%s counts as no response', async (_, answer) => {
  const refusal = await refusalOf(
    callsWith(() => answer).once({ method: 'GET', path: '/', fits: ({ status }) => status === 'queued' }),
  );
  expect(refusal).toMatchObject({ code: 'unreachable', status: 0, passes: true, isFinal: false });
  expect(refusal?.message).toContain(`${answer.status} of another server`);
});

test.each([
  ['5', 5_000],
  ['2592000', 60_000],
  ['0', null],
  ['-5', null],
  ['soon', null],
  ['Wed, 21 Oct 2015 07:28:00 GMT', null],
  ['Wed, 21 Oct 2015 07:28:07 GMT', 7_000],
  ['Wed, 21 Oct 2015 09:28:00 GMT', 60_000],
])('429 of another server with `Retry-After: %s` passes after %s ms', async (after, ms) => {
  const now = jest.spyOn(Date, 'now').mockReturnValue(Date.parse('2015-10-21T07:28:00Z'));
  try {
    const answer = () => new Response('', { status: 429, headers: { 'Retry-After': after } });
    const refusal = await refusalOf(callsWith(answer).once({ method: 'GET', path: '/', fits: () => true }));
    expect(refusal).toMatchObject({ passes: true, retryAfterMs: ms });
  } finally {
    now.mockRestore();
  }
});

test('a call is given up in time, also when the clock of the device is set back', async () => {
  let now = Date.now();
  const clock = jest.spyOn(Date, 'now').mockImplementation(() => {
    now -= 3_600_000;
    return now;
  });
  try {
    const calls = callsWith(() => new Response('', { status: 502 }));
    const retried = calls.withRetry(
      () => calls.once({ method: 'GET', path: '/', fits: () => true }) as Promise<Answer>,
      500,
      () => {},
    );
    expect(await refusalOf(retried)).toBeInstanceOf(Refusal);
  } finally {
    clock.mockRestore();
  }
});

test('no call follows a redirect', async () => {
  const modes: unknown[] = [];
  const send = async (_: unknown, init?: RequestInit) => {
    modes.push(init?.redirect);
    return Response.json({ data: {} });
  };
  await new Calls({ baseUrl: '', fetch: send as typeof fetch, timeoutMs: 10_000 }).once({
    method: 'GET',
    path: '/',
    fits: () => true,
  });
  expect(modes).toEqual(['manual']);
});

test('a date of `Retry-After` is by the clock of the server', async () => {
  const headers = { 'Retry-After': 'Wed, 21 Oct 2015 07:28:02 GMT', Date: 'Wed, 21 Oct 2015 07:28:00 GMT' };
  const refusal = await refusalOf(
    callsWith(() => new Response('', { status: 429, headers })).once({ method: 'GET', path: '/', fits: () => true }),
  );
  expect(refusal).toMatchObject({ retryAfterMs: 2_000 });
});

test('a refusal of the service may ask for a minute', async () => {
  const body = { type: 'https://doorbuster.dev/errors/rate_limited', code: 'rate_limited', status: 429 };
  const answer = () => Response.json(body, { status: 429, headers: { 'Retry-After': '3600' } });
  const refusal = await refusalOf(callsWith(answer).once({ method: 'GET', path: '/', fits: () => true }));
  expect(refusal).toMatchObject({ code: 'rate_limited', retryAfterMs: 60_000 });
});

test('the headers of another server are not told', async () => {
  const told: unknown[] = [];
  const calls = new Calls({
    ...{ baseUrl: '', timeoutMs: 10_000, answered: (headers: Headers) => told.push(headers) },
    fetch: async () => Response.json({ data: [] }, { headers: { Date: 'Thu, 01 Jan 1970 00:00:00 GMT' } }),
  });
  await refusalOf(calls.once({ method: 'GET', path: '/', fits: () => false }));
  expect(told).toEqual([]);
});
