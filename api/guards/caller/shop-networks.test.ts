import { expect, test } from '@jest/globals';
import type { Request } from 'express';
import { turnsOf } from './shop-networks.js';

const request = (ip: string, url = '/flash-sale/checkout', socket = {}) =>
  ({ ip, url, headers: {}, socket: { remoteAddress: ip, ...socket } }) as unknown as Request;
const status = (user: string) => `/flash-sale/queue-status?product_id=p&user_id=${user}`;

test('a network is one line', () => {
  const { lineOf } = turnsOf([], 0);
  expect(lineOf(request('192.0.2.1', status('ann')))).toBe('192.0.2.1');
  expect(lineOf(request('2001:db8::7'))).toBe('2001:db8:0:0::/64');
});

test('the calls of a shop are lines by user, and by connection if the user is in the body', () => {
  const { lineOf } = turnsOf(['192.0.2.0/30', '198.51.100.4', '2001:db8::/32'], 0);
  for (const ip of ['192.0.2.3', '198.51.100.4', '2001:db8:1::7', '::ffff:192.0.2.1']) {
    expect(lineOf(request(ip, status('ann')))).toBe('user ann');
    expect(lineOf(request(ip, status('bob')))).toBe('user bob');
    const checkout = request(ip);
    expect(lineOf(checkout)).toBe(lineOf(checkout));
    expect(lineOf(request(ip))).not.toBe(lineOf(checkout));
  }
  for (const ip of ['192.0.2.4', '198.51.100.5']) expect(lineOf(request(ip, status('ann')))).toBe(ip);
  expect(lineOf(request('', status('ann')))).toBe('unknown');
});
