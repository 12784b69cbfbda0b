import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, test } from '@jest/globals';
import { RegionLink, RegionUnreachable } from './region-link.js';

const LIMITS = { callMs: 10_000, callTries: 3, callsInFlight: 2, responseBytes: 1_000 };
const REQUEST = { method: 'POST', path: '/', headers: { name: 'first' }, body: '{}' };
const ends: (() => void)[] = [];
afterEach(() => {
  for (const end of ends.splice(0)) end();
});

/** Another region that responds as `serve` says. */
async function linkTo(serve: (response: ServerResponse, name: string) => void, limits = LIMITS): Promise<RegionLink> {
  const server: Server = createServer((request, response) => {
    request.resume().on('end', () => serve(response, String(request.headers.name)));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const link = new RegionLink('us', `http://127.0.0.1:${(server.address() as AddressInfo).port}`, limits);
  ends.push(() => {
    link.close();
    server.closeAllConnections();
    server.close();
  });
  return link;
}

test('repeats a call whose response is lost, with the fields of a repetition', async () => {
  const names: string[] = [];
  const link = await linkTo((response, name) => {
    names.push(name);
    if (names.length === 2) response.destroy();
    else response.end(name);
  });
  await link.beat(REQUEST);
  const response = await link.call({ ...REQUEST, headersOfRetry: { name: 'again' } });
  expect(response).toMatchObject({ status: 200, text: 'again', tries: 2 });
  expect(names).toEqual(['first', 'first', 'again']);
});

test('gives up after its tries, and a beat without a response refuses calls at once', async () => {
  let isCut = false;
  let requests = 0;
  const link = await linkTo((response) => {
    requests += 1;
    if (isCut) response.destroy();
    else response.end();
  });
  await expect(link.call(REQUEST)).rejects.toThrow(RegionUnreachable);
  expect(requests).toBe(0);
  await link.beat(REQUEST);
  isCut = true;
  await expect(link.call(REQUEST)).rejects.toThrow(RegionUnreachable);
  expect(requests).toBe(4);
  await expect(link.beat(REQUEST)).rejects.toThrow(RegionUnreachable);
  await expect(link.call(REQUEST)).rejects.toThrow('the last beat got no response');
  expect([requests, link.isUp]).toEqual([5, false]);
});

test('refuses calls beyond those in flight, and responses that are too long', async () => {
  const held: ServerResponse[] = [];
  let holds = false;
  const link = await linkTo((response) => {
    if (holds) held.push(response);
    else response.end();
  });
  await link.beat(REQUEST);
  holds = true;
  const calls = [link.call(REQUEST), link.call(REQUEST)];
  await expect(link.call(REQUEST)).rejects.toThrow('too many calls are in flight');
  while (held.length < 2) await new Promise((resolve) => setImmediate(resolve));
  for (const response of held) response.end();
  expect((await Promise.all(calls)).map(({ tries }) => tries)).toEqual([1, 1]);
  expect(link.inFlight).toBe(0);
  const long = await linkTo((response) => response.end('x'.repeat(1_001)));
  await expect(long.beat(REQUEST)).rejects.toThrow('the response is too long');
});
