import { createSecretKey } from 'node:crypto';
import { expect, test } from '@jest/globals';
import type { Request } from 'express';
import { EXTERNAL_ID_PATTERN } from '../../../shared/domain/ids.js';
import { DerivedDevices, namedDevice } from './fingerprint.js';

const keyOf = (id: string, byte: number) => ({ id, key: createSecretKey(Buffer.alloc(32, byte)) });
const devices = new DerivedDevices([keyOf('new', 1), keyOf('old', 2)]);
const derivedDevice = (req: Request) => devices.derive(req);

const asking = (headers: Record<string, string | string[]>, ip = '203.0.113.7', port = 1) =>
  ({ headers, ip, socket: { remotePort: port } }) as unknown as Request;

test('takes the device that a request names, if it is an id', () => {
  expect(namedDevice(asking({}))).toBeNull();
  expect(namedDevice(asking({ 'x-device-fingerprint': 'phone-1' }))).toBe('phone-1');
  for (const wrong of ['', 'a b', 'x'.repeat(129), 'a|b', ['a', 'b']]) {
    expect(() => namedDevice(asking({ 'x-device-fingerprint': wrong }))).toThrow('X-Device-Fingerprint must have');
  }
});

test('derives a device from stable headers only', () => {
  const headers = { 'user-agent': 'browser/1', 'accept-language': 'de', 'sec-ch-ua-platform': 'Linux' };
  const device = derivedDevice(asking(headers));
  expect(device).toMatch(EXTERNAL_ID_PATTERN);
  expect(derivedDevice(asking({ ...headers, cookie: 'x', 'x-request-id': 'y', host: 'z' }, '203.0.113.7', 9))).toBe(
    device,
  );
  expect(derivedDevice(asking({ ...headers, 'user-agent': 'browser/2' }))).not.toBe(device);
  expect(derivedDevice(asking({ ...headers, 'accept-language': 'fr' }))).not.toBe(device);
  expect(derivedDevice(asking(headers, '203.0.113.8'))).not.toBe(device);
});

test('one header cannot imitate two others', () => {
  const one = derivedDevice(asking({ 'user-agent': 'a\naccept-language=b' }));
  expect(derivedDevice(asking({ 'user-agent': 'a', 'accept-language': 'b' }))).not.toBe(one);
});

test('takes a name in the form of a derived device for no name', () => {
  const victim = devices.derive(asking({}, '203.0.113.8'));
  const own = devices.derive(asking({}));
  expect(devices.of(asking({}), victim, 'user-1', undefined)).toEqual({
    named: null,
    derived: own,
    bound: victim,
    counted: `${own}|user-1`,
  });
  expect(devices.ofToken(asking({}), victim)).toBe(own);
  expect(devices.ofToken(asking({ 'x-device-fingerprint': victim }), undefined)).toBe(own);
});

test('no name equals the quota of a derived device and its user', () => {
  const { counted } = devices.of(asking({}), undefined, 'user-1', undefined);
  expect(counted).not.toMatch(EXTERNAL_ID_PATTERN);
  const name = counted.replace('|', '.');
  expect(devices.of(asking({}), name, 'user-2', undefined)).toEqual({
    named: name,
    derived: null,
    bound: name,
    counted: name,
  });
});

test('is keyed: another key derives other devices, and a token is bound to the device by its own key', () => {
  const old = new DerivedDevices([keyOf('old', 2)]).derive(asking({}));
  expect(old).not.toBe(devices.derive(asking({})));
  const { bound, counted } = devices.of(asking({}), undefined, 'user-1', 'old.mac');
  expect([bound, counted]).toEqual([old, `${devices.derive(asking({}))}|user-1`]);
  expect(devices.of(asking({}), undefined, 'user-1', 'gone.mac').bound).toBe(devices.derive(asking({})));
});
