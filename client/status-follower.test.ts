import { afterEach, beforeEach, expect, jest, test } from '@jest/globals';
import { Refusal } from './calls.js';
import { NOWHERE, StatusFollower, type StatusFollowerDeps } from './status-follower.js';
import type { SocketLike } from './types.js';

beforeEach(() => {
  jest.useFakeTimers();
});
afterEach(() => {
  jest.useRealTimers();
});

type Frame = Record<string, unknown> & { type: string };
const WELCOME: Frame = { type: 'welcome', status: 'queued', position: 2, queue_size: 3, poll_after_seconds: 2 };

type Options = Partial<Pick<StatusFollowerDeps, 'open' | 'standing' | 'restMs' | 'ask' | 'line'>> & {
  pace?: number;
  position?: number;
};

/**
 * Follows a ticket over sockets whose frames the test sends. @param options of the polls: their pace in s, the place
 * that they find (default: 3), or their response
 */
function follow({ pace = 2, position = 3, ask, ...deps }: Options = {}) {
  const sockets: SocketLike[] = [];
  const told: unknown[] = [];
  let [asked, lines] = [0, 0];
  const follower = new StatusFollower({
    standing: null,
    restMs: 0,
    open: () => {
      const socket = { onopen: null, onmessage: null, onclose: null, onerror: null, send: () => {}, close: () => {} };
      sockets.push(socket);
      return socket;
    },
    ticket: 't1',
    pingMs: 25_000,
    ask: async (...args) => {
      asked += 1;
      return (
        ask?.(...args) ?? {
          ...{ status: 200, headers: new Headers() },
          data: { status: 'queued', position, poll_after_seconds: pace },
        }
      );
    },
    line: async () => {
      lines += 1;
      return { status: 200, headers: new Headers(), data: { served: 100, waiting: 9_000, must_be_seen: false } };
    },
    estimateMs: () => 60_000,
    onStanding: ({ status, position }) => told.push(position ?? status),
    onConnection: (connection) => told.push(connection),
    onHeard: () => {},
    onPause: () => {},
    onLost: (code) => told.push(`lost: ${code}`),
    ...deps,
  });
  follower.start();
  const hear = (data: unknown) => sockets.at(-1)?.onmessage?.({ data } as never);
  let seq = 0;
  /** @param at number of the frame; default: the next one */
  const send = (frame: Frame, at = seq + 1) => {
    seq = at;
    hear(JSON.stringify({ seq, time: '2026-11-28T12:00:00.000Z', ...frame }));
  };
  const close = (code: number) => sockets.at(-1)?.onclose?.({ code } as never);
  return { follower, hear, send, close, told, sockets, asked: () => asked, lines: () => lines };
}

test.each([
  ['no JSON', '<html>'],
  ['null', 'null'],
  ['a list', '[1]'],
  ['a part', '{"type":"posi'],
  ['a blob', new Blob(['busy'])],
  ['a frame of another service', '{"type":"ping","message":1795880000}'],
  ['the same number again', '{"type":"promoted","seq":1,"time":"2026-11-28T12:00:00.000Z"}'],
])('%s on a live socket leads to polls and to a new socket', async (_, data) => {
  const { follower, hear, send, told, sockets } = follow();
  send(WELCOME);
  hear(data);
  await jest.advanceTimersByTimeAsync(3_000);
  expect([told.slice(0, 3), sockets.length]).toEqual([['live', 2, 'polling'], 2]);
  expect(told).toContain(3);
  follower.stop();
});

test('a frame that follows a lost one is not believed, because the lost one may have been the promotion', async () => {
  const { follower, send, told, sockets } = follow();
  send(WELCOME);
  send({ type: 'position', position: 1 });
  send({ type: 'heartbeat' }, 4);
  await jest.advanceTimersByTimeAsync(3_000);
  expect(told.slice(0, 4)).toEqual(['live', 2, 1, 'polling']);
  expect(sockets.length).toBe(2);
  follower.stop();
});

test.each([
  ['without a standing', { type: 'welcome' }],
  ['with a status of another service', { ...WELCOME, status: 'ok' }],
  ['without a place', { ...WELCOME, position: null }],
])('a `welcome` %s does not make a socket live', async (_, frame) => {
  const { follower, send, told } = follow();
  send(frame);
  await jest.advanceTimersByTimeAsync(4_000);
  expect(told).not.toContain('live');
  expect(told).toContain(3);
  follower.stop();
});

test('close code 4401, which other services use too, is decided by a poll', async () => {
  const { follower, send, close, told } = follow();
  send(WELCOME);
  close(4401);
  await jest.advanceTimersByTimeAsync(3_000);
  expect(told.slice(2, 4)).toEqual(['polling', 'polling']);
  expect(told).toContain(3);
  follower.stop();
});

test.each([
  [401, 'unauthorized', ['lost: ticket_invalid']],
  [401, 'ticket_invalid', ['lost: ticket_invalid']],
  [503, 'temporarily_unavailable', []],
  [0, 'unreachable', []],
])('after close code 4401 the ticket alone is asked about: %s %s', async (status, code, lost) => {
  const alone: boolean[] = [];
  const { follower, send, close, told } = follow({
    ask: async (_, ticketAlone) => {
      alone.push(ticketAlone);
      if (ticketAlone) throw new Refusal(code, status, null, {});
      return { status: 200, headers: new Headers(), data: { status: 'queued', position: 3, poll_after_seconds: 2 } };
    },
  });
  send(WELCOME);
  close(4401);
  await jest.advanceTimersByTimeAsync(8_000);
  expect(alone.slice(0, 2)).toEqual(lost.length > 0 ? [true] : [true, false]);
  expect(told.filter((text) => String(text).startsWith('lost'))).toEqual(lost);
  follower.stop();
});

test('a doubt about the ticket that comes during a poll is decided by the next one, also where estimates would do', async () => {
  const alone: boolean[] = [];
  const { follower, close, lines } = follow({
    ask: async (_, ticketAlone) => {
      alone.push(ticketAlone);
      if (alone.length === 1) close(4401);
      return { status: 200, headers: new Headers(), data: { status: 'queued', position: 900, poll_after_seconds: 2 } };
    },
  });
  await jest.advanceTimersByTimeAsync(10_000);
  expect(alone.slice(0, 2)).toEqual([false, true]);
  expect(lines()).toBeGreaterThan(1);
  follower.stop();
});

test('what a poll brings after the end of its follower does not end the next one', async () => {
  let refuse = (_: Refusal) => {};
  const { follower, told } = follow({
    open: null,
    ask: () =>
      new Promise((_, reject) => {
        refuse = reject;
      }),
  });
  await jest.advanceTimersByTimeAsync(10);
  follower.stop();
  refuse(new Refusal('ticket_invalid', 401, null, {}));
  await jest.advanceTimersByTimeAsync(10);
  expect(told).toEqual([]);
});

test.each([
  ['the network comes back', (f: ReturnType<typeof follow>) => f.follower.wake()],
  ['a socket dies', (f: ReturnType<typeof follow>) => f.close(1006)],
])('polls go on, and not before `Retry-After`, if %s during one', async (_, event) => {
  let passes = 0;
  const followed = follow({
    ask: async () => {
      passes += 1;
      event(followed);
      await new Promise((resolve) => setTimeout(resolve, 3_000));
      if (passes < 3) return { status: 200, headers: new Headers(), data: { status: 'queued', position: 3 } };
      throw new Refusal('rate_limited', 429, 30_000, {});
    },
  });
  await jest.advanceTimersByTimeAsync(20_000);
  expect(passes).toBe(3);
  await jest.advanceTimersByTimeAsync(100_000);
  expect(passes).toBeGreaterThanOrEqual(5);
  expect(passes).toBeLessThanOrEqual(7);
  followed.follower.stop();
});

test('waking up a live socket a thousand times sends one ping', async () => {
  const { follower, send, sockets } = follow();
  const sent: unknown[] = [];
  send(WELCOME);
  Object.assign(sockets[0] as SocketLike, { send: (text: unknown) => sent.push(text) });
  for (let i = 0; i < 1_000; i += 1) follower.wake();
  expect(sent).toHaveLength(1);
  send({ type: 'pong' });
  follower.wake();
  expect(sent).toHaveLength(2);
  follower.stop();
});

test('an exact place corrects an estimate, also if it is the same as before', async () => {
  const etags: unknown[] = [];
  const { follower } = follow({
    open: null,
    ask: async (etag) => {
      etags.push(etag);
      const data = { status: 'queued', position: 900, poll_after_seconds: 25 };
      return { status: 200, headers: new Headers({ ETag: '"1"' }), data };
    },
  });
  await jest.advanceTimersByTimeAsync(120_000);
  expect(etags.slice(0, 2)).toEqual([null, null]);
  follower.stop();
});

test('data of the line that cannot be had are requested once a minute', async () => {
  let lines = 0;
  const { follower, asked } = follow({
    open: null,
    position: 900,
    pace: 5,
    line: async () => {
      lines += 1;
      throw new Error('there are none');
    },
  });
  await jest.advanceTimersByTimeAsync(590_000);
  expect(asked()).toBeGreaterThan(90);
  expect(lines).toBeGreaterThan(8);
  expect(lines).toBeLessThan(12);
  follower.stop();
});

test('the service may ask for rest before the first poll', async () => {
  const { follower, asked } = follow({ open: null, restMs: 30_000 });
  await jest.advanceTimersByTimeAsync(29_000);
  expect(asked()).toBe(0);
  await jest.advanceTimersByTimeAsync(1_000);
  expect(asked()).toBe(1);
  follower.stop();
});

test('a foreign server may put a poll off by 10 s, and the service by a minute', async () => {
  for (const [status, least, most] of [
    [0, 17, 20],
    [429, 3, 4],
  ] as const) {
    const { follower, asked } = follow({
      ask: () => Promise.reject(new Refusal('rate_limited', status, 60_000, {})),
    });
    await jest.advanceTimersByTimeAsync(200_000);
    expect(asked()).toBeGreaterThanOrEqual(least);
    expect(asked()).toBeLessThanOrEqual(most);
    follower.stop();
  }
});

test.each([
  // Every second look is an estimate.
  [30, 20, 10],
  // An estimate would not live until the next look.
  [60, 0, 10],
])('looks that come every %i s do not request data of the line in vain', async (pace, lines, exact) => {
  const random = jest.spyOn(Math, 'random').mockReturnValue(0);
  const standing = { ...NOWHERE, status: 'queued', position: 5_000, poll_after_seconds: pace } as const;
  const followed = follow({ pace, position: 5_000, open: null, standing });
  await jest.advanceTimersByTimeAsync(595_000);
  expect([followed.lines(), followed.asked()]).toEqual([lines, exact]);
  followed.follower.stop();
  random.mockRestore();
});

test('a `welcome` may take 20 s', async () => {
  const { follower, send, told } = follow();
  await jest.advanceTimersByTimeAsync(20_000);
  send(WELCOME);
  expect(told.at(-2)).toBe('live');
  follower.stop();
});

test('a socket that stays silent from the beginning is replaced', async () => {
  const { follower, sockets } = follow();
  await jest.advanceTimersByTimeAsync(120_000);
  expect(sockets.length).toBeGreaterThan(1);
  expect(sockets.length).toBeLessThan(6);
  follower.stop();
});

test.each([
  ['asks to reconnect at once', (f: ReturnType<typeof follow>) => f.send({ type: 'reconnect', after_ms: -1 })],
  ['is cut', (f: ReturnType<typeof follow>) => f.close(1006)],
])('a server that %s after each `welcome` does not get a storm', async (_, end) => {
  const followed = follow();
  const { follower, sockets } = followed;
  for (let at = 0; at < 60_000; at += 10) {
    if (sockets.at(-1)?.onmessage) {
      followed.send(WELCOME, 1);
      end(followed);
    }
    await jest.advanceTimersByTimeAsync(10);
  }
  expect(sockets.length).toBeGreaterThan(2);
  expect(sockets.length).toBeLessThan(12);
  follower.stop();
});

test('a socket that comes and goes does not put off the polls', async () => {
  // Each time after the longest pause.
  const random = jest.spyOn(Math, 'random').mockReturnValue(0.999);
  const { follower, asked, close } = follow({ pace: 20 });
  for (let at = 0; at < 200_000; at += 5_000) {
    close(1006);
    await jest.advanceTimersByTimeAsync(5_000);
  }
  expect(asked()).toBeGreaterThan(6);
  follower.stop();
  random.mockRestore();
});

test.each([0.001, -5, 1e11])(
  'polls that should come every %s s keep a pace between a second and a minute',
  async (pace) => {
    const { follower, asked } = follow({ pace });
    await jest.advanceTimersByTimeAsync(200_000);
    expect(asked()).toBeGreaterThan(2);
    expect(asked()).toBeLessThan(201);
    follower.stop();
  },
);
