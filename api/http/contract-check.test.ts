import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { z } from 'zod';
import { Problem } from '../../shared/errors/catalogue.js';
import { Metrics } from '../../shared/observability/metrics.js';
import { atEnd } from '../../test/harness/cleanup.js';
import { recordingLog } from '../../test/harness/recording-log.js';
import { createApp, createHttpServer, exactRoutes } from './app.js';
import { checkResponses } from './contract-check.js';
import { type Call, defineRoute } from './define-route.js';
import { ProblemEdge } from './problem.js';
import { inspectResponses } from './respond.js';
import type { RouteContract } from './route.js';

const contract = {
  operationId: 'addPart',
  method: 'post',
  path: '/parts',
  summary: 'Adds a part',
  tag: 'operations',
  caller: 'anyone',
  answers: {
    200: {
      description: 'Added.',
      data: z.object({ total: z.int(), parts: z.array(z.object({ name: z.string() })).optional() }),
      members: z.object({ next: z.string().nullable() }),
    },
    202: { description: 'Later.', data: z.object({}), headers: ['Location'], optionalHeaders: ['RateLimit'] },
    206: { description: 'A table.', contentTypes: ['text/csv'] },
  },
  errors: ['sold_out', 'duplicate_request', 'campaign_paused'],
} as const satisfies RouteContract;

/** How the route handles the next request. */
let handle: (call: Call<typeof contract>) => void = () => {};
/** The same without types, for calls that do not compile. */
type Untyped = {
  reply(status: number, data: unknown, headers?: readonly string[], members?: unknown): void;
  begin(status: number, fields: readonly string[]): void;
};
const untyped = (act: (call: Untyped) => void) => {
  handle = (call) => act(call as unknown as Untyped);
};

const log = recordingLog();
const routes = [defineRoute(contract, (call) => handle(call))];
const edge = new ProblemEdge(log, new Metrics(false));
const app = createApp(routes, edge, { trustProxy: 0 });
const server = createHttpServer(app, edge, new Metrics(false), () => false, exactRoutes(routes));
server.listen(0, '127.0.0.1');
await once(server, 'listening');
const { port } = server.address() as AddressInfo;
atEnd('the server', () => {
  server.closeAllConnections();
  server.close();
});

async function post(): Promise<{ status: number; body: Record<string, any> }> {
  const response = await fetch(`http://127.0.0.1:${port}/parts`, { method: 'POST' });
  const text = await response.text();
  return { status: response.status, body: text.startsWith('{') ? JSON.parse(text) : {} };
}

describe('checkResponses', () => {
  let breaches: string[] = [];
  beforeEach(() => {
    breaches = [];
    checkResponses((breach) => breaches.push(breach));
  });
  afterEach(() => inspectResponses(null));

  it('lets through what the contract has', async () => {
    handle = (call) => call.reply(200, { total: 1, parts: [{ name: 'a' }] }, [], { next: null });
    expect(await post()).toEqual({ status: 200, body: { data: { total: 1, parts: [{ name: 'a' }] }, next: null } });
    handle = (call) => call.reply(202, {}, ['Location', '/x', 'RateLimit', '"a";r=1;t=1']);
    expect((await post()).status).toBe(202);
    handle = (call) => {
      call.begin(206, ['X-Request-Id', call.req.requestId, 'Content-Type', 'text/csv']);
      call.res.end();
    };
    expect((await post()).status).toBe(206);
    handle = (call) => {
      throw call.refusal('sold_out', 'None is left.');
    };
    expect((await post()).body.code).toBe('sold_out');
    handle = (call) => {
      const members = { original_status: 200, data: { total: 1 } };
      throw call.refusal('duplicate_request', 'Sent before.', { members });
    };
    expect((await post()).body.code).toBe('duplicate_request');
    expect(breaches).toEqual([]);
  });

  const next = { next: null };
  const BREACHES: [string, () => void, string][] = [
    ['a status', () => untyped((call) => call.reply(201, {})), '201: the contract has no such status'],
    [
      'data of another type',
      () => untyped((call) => call.reply(200, { total: '1' }, [], next)),
      '200: #/data/total: Invalid input: expected number, received string',
    ],
    [
      'a field that is not in it',
      () => untyped((call) => call.reply(200, { total: 1, parts: [{ name: 'a', secret: 1 }] }, [], next)),
      '200: #/data/parts/0/secret is not in the contract',
    ],
    [
      'a member beside data',
      () => untyped((call) => call.reply(202, {}, ['Location', '/x'], { more: 1 })),
      '202: #/more is not in the contract',
    ],
    [
      'a missing member',
      () => untyped((call) => call.reply(200, { total: 1 })),
      '200: #/next: Invalid input: expected string, received undefined',
    ],
    ['a missing header', () => untyped((call) => call.reply(202, {})), '202: Location is missing'],
    [
      'a header that is not in it',
      () => untyped((call) => call.reply(200, { total: 1 }, ['ETag', '"a"'], next)),
      '200: the contract has no field ETag',
    ],
    [
      'a code',
      () => {
        handle = () => {
          throw new Problem('not_waiting', 'Not in line.');
        };
      },
      '409: the contract has no `not_waiting`',
    ],
    [
      'a refusal without its headers',
      () => {
        handle = (call) => {
          throw call.refusal('campaign_paused', 'Paused.');
        };
      },
      '503: Retry-After is missing',
    ],
    [
      'a first answer with another status',
      () => {
        handle = (call) => {
          const members = { original_status: 201, data: { total: 1 } };
          throw call.refusal('duplicate_request', 'Sent before.', { members });
        };
      },
      '409: the contract has no such original_status',
    ],
  ];
  it.each(BREACHES)('sends 500 with the reason instead of %s', async (_, arrange, reason) => {
    arrange();
    const breach = `POST /parts ${reason}`;
    expect(await post()).toMatchObject({ status: 500, body: { code: 'internal_error', breach } });
    expect(breaches).toEqual([breach]);
  });

  it('reports a streamed body of a type that is not in the contract', async () => {
    untyped((call) => call.begin(206, ['X-Request-Id', 'a', 'Content-Type', 'text/html']));
    const ended = handle;
    handle = (call) => {
      ended(call);
      call.res.end();
    };
    expect((await post()).status).toBe(206);
    expect(breaches).toEqual(['POST /parts 206: the contract has no body of type text/html']);
  });
});

describe('ProblemEdge', () => {
  it('sends a refusal that the contract lacks, and logs it once', async () => {
    handle = () => {
      throw new Problem('forbidden', 'Not yours.');
    };
    const before = log.lines.length;
    for (let i = 0; i < 3; i += 1) expect((await post()).body.code).toBe('forbidden');
    const errors = log.lines.slice(before).filter(({ level }) => level === 'error');
    expect(errors).toMatchObject([{ fields: { method: 'POST', route: '/parts', code: 'forbidden' } }]);
  });
});

describe('Call', () => {
  it('has no reply and no refusal beyond the contract', () => {
    const never = (call: Call<typeof contract>) => {
      // @ts-expect-error a status that the contract does not have
      call.reply(201, {});
      // @ts-expect-error a field of another type
      call.reply(200, { total: '1' });
      // @ts-expect-error a field that is not in the contract
      call.reply(200, { total: 1, secret: 1 });
      // @ts-expect-error a status without data
      call.reply(206, {});
      // @ts-expect-error a code that the contract does not have
      call.refusal('not_waiting', 'Not in line.');
      // @ts-expect-error a problem that the contract does not have
      call.refusal(new Problem('not_waiting', 'Not in line.'));
    };
    expect(never).toBeInstanceOf(Function);
  });
});
