import { expect, test } from '@jest/globals';
import type { Request } from 'express';
import { EXTERNAL_ID_PATTERN } from '../../../shared/domain/ids.js';
import { derivedDevice, namedDevice } from './fingerprint.js';

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
