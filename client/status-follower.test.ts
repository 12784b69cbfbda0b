import { afterEach, expect, jest, test } from '@jest/globals';
import { StatusFollower } from './status-follower.js';
import type { SocketLike } from './types.js';

afterEach(() => {
  jest.useRealTimers();
});

/** Follows a ticket over a socket whose frames the test sends. */
function follow() {
  const socket: SocketLike = {
    onopen: null,
    onmessage: null,
    onclose: null,
    onerror: null,
    send: () => {},
    close: () => {},
  };
  const told: unknown[] = [];
  const follower = new StatusFollower({
    open: () => socket,
    ticket: 't1',
    pingMs: 25_000,
    ask: async () => ({ status: 200, headers: new Headers(), data: { status: 'queued', position: 3 } }),
    line: () => Promise.reject(new Error('there is no line')),
    onStanding: ({ position }) => told.push(position),
    onConnection: (connection) => told.push(connection),
    onHeard: () => {},
    onPause: () => {},
    onLost: () => {},
  });
  follower.start();
  const hear = (data: unknown) => socket.onmessage?.({ data } as never);
  return { follower, hear, told };
}

test('a frame that is no JSON is ignored', () => {
  const { follower, hear, told } = follow();
  hear('{"type":"welcome","status":"queued","position":2}');
  for (const data of ['<html>', '', '{"type":"posi', new Blob(['busy'])]) hear(data);
  hear('{"type":"position","position":1}');
  expect(told).toEqual(['live', 2, 1]);
  follower.stop();
});

test('a socket that has no other frames gives way to polling', async () => {
  jest.useFakeTimers();
  const { follower, hear, told } = follow();
  hear('<html>');
  await jest.advanceTimersByTimeAsync(4_000);
  expect(told).toEqual(['polling', 3]);
  follower.stop();
});
