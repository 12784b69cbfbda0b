import { describe, expect, it, test } from '@jest/globals';
import {
  endpointHostProblem,
  endpointUrlProblem,
  isPublicAddress,
  PrivateAddress,
  publicLookup,
} from './public-address.js';

const PRIVATE = [
  '127.0.0.1',
  '127.8.8.8',
  '0.0.0.0',
  '10.0.0.1',
  '172.16.0.1',
  '172.31.255.255',
  '192.168.1.1',
  '169.254.169.254',
  '168.63.129.16',
  '::ffff:168.63.129.16',
  '100.100.100.200',
  '192.0.0.192',
  'fd00:ec2::254',
  '100.64.0.1',
  '100.127.255.255',
  '192.0.2.1',
  '198.18.0.1',
  '224.0.0.1',
  '240.0.0.1',
  '255.255.255.255',
  '::',
  '::1',
  '::7f00:1',
  'fe80::1',
  'fc00::1',
  'fd12::1',
  'ff02::1',
  '::ffff:127.0.0.1',
  '::ffff:10.0.0.1',
  '64:ff9b::7f00:1',
  '2002:7f00:1::',
  '2001:db8::1',
  'fec0::1',
  '',
  'x',
];
for (const address of PRIVATE) {
  test(`"${address}" is not public`, () => expect(isPublicAddress(address)).toBe(false));
}
for (const address of ['1.1.1.1', '172.15.0.1', '172.32.0.1', '100.63.0.1', '::ffff:1.1.1.1', '2606:4700::1111']) {
  test(`${address} is public`, () => expect(isPublicAddress(address)).toBe(true));
}

for (const url of [
  'http://127.0.0.1/',
  'http://2130706433/',
  'http://0x7f.1/',
  'http://017700000001/',
  'https://[::1]:80/',
  'http://[::ffff:10.1.1.1]/',
  'http://169.254.169.254/latest/meta-data',
  'http://127.0.0.1./',
]) {
  test(`${url} is a private address`, () => {
    expect(endpointUrlProblem(url, false)).toBe('must not be a private address');
    expect(endpointUrlProblem(url, true)).toBe(null);
  });
}

test('an endpoint is a web address without a password', () => {
  expect(endpointUrlProblem('https://shop.example/hook?x=1', false)).toBe(null);
  expect(endpointUrlProblem('ftp://shop.example/', true)).toBe('must be a URL starting with https:// or http://');
  expect(endpointUrlProblem('https://a:b@shop.example/', true)).toBe('must not have a user or password');
  expect(endpointUrlProblem('shop', true)).toBe('must be a URL');
});

type Found = { error: Error | null; address: unknown; family?: number | undefined };
function look(addresses: { address: string; family: number }[], all: boolean): Promise<Found> {
  const lookup = publicLookup((_name, done) => done(null, addresses));
  return new Promise((resolve) =>
    lookup('shop.example', { all }, (error, address, family) => resolve({ error, address, family })),
  );
}
const PUBLIC = { address: '1.1.1.1', family: 4 };

test('a name is connected to at the addresses that were checked', async () => {
  expect(await look([PUBLIC], true)).toEqual({ error: null, address: [PUBLIC], family: undefined });
  expect(await look([PUBLIC], false)).toEqual({ error: null, address: '1.1.1.1', family: 4 });
});

test('a name with a private address among its addresses is refused, and so is one without any', async () => {
  expect((await look([PUBLIC, { address: '10.0.0.1', family: 4 }], true)).error).toBeInstanceOf(PrivateAddress);
  expect((await look([PUBLIC, { address: '::1', family: 6 }], false)).error).toBeInstanceOf(PrivateAddress);
  expect((await look([], true)).error?.message).toBe('shop.example has no address');
});

describe('the host name of an endpoint', () => {
  const resolver = (addresses: string[]) => (_: string, done: (error: null, found: any[]) => void) =>
    done(
      null,
      addresses.map((address) => ({ address, family: 4 })),
    );
  const failing = (code: string) => (_: string, done: (error: Error, found: any[]) => void) =>
    done(Object.assign(new Error(code), { code }), []);
  const url = 'https://hooks.example/x';

  it('must have an address, and no private one unless that is allowed', async () => {
    expect(await endpointHostProblem(url, false, resolver(['1.1.1.1']))).toBe(null);
    expect(await endpointHostProblem(url, false, resolver(['1.1.1.1', '10.0.0.1']))).toBe(
      'hooks.example resolves to a private address. Use a public one',
    );
    expect(await endpointHostProblem(url, true, resolver(['10.0.0.1']))).toBe(null);
    expect(await endpointHostProblem(url, true, failing('ENOTFOUND'))).toBe(
      'the host name hooks.example has no address',
    );
  });

  it('is accepted while the resolver does not respond properly, and when it is an address', async () => {
    expect(await endpointHostProblem(url, false, failing('EAI_AGAIN'))).toBe(null);
    expect(await endpointHostProblem('https://1.1.1.1/', false, failing('ENOTFOUND'))).toBe(null);
  });
});
