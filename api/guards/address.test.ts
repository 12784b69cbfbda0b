import { expect, test } from '@jest/globals';
import type { Request } from 'express';
import { networkOf } from './address.js';

const from = (ip: string | undefined, remoteAddress?: string) =>
  networkOf({ ip, headers: {}, socket: { remoteAddress } } as unknown as Request);

test('an IPv4 address is a network of its own, however it is written', () => {
  expect(from('203.0.113.7')).toBe('203.0.113.7');
  expect(from('::ffff:203.0.113.7')).toBe('203.0.113.7');
  expect(from('::FFFF:203.0.113.7')).toBe('203.0.113.7');
});

test('an IPv6 address counts for its whole /64', () => {
  const network = '2001:db8:1:2::/64';
  for (const ip of ['2001:db8:1:2::1', '2001:db8:1:2:ffff:ffff:ffff:ffff', '2001:db8:1:2:3:4:5:6'])
    expect([ip, from(ip)]).toEqual([ip, network]);
  expect(from('2001:db8:1:3::1')).toBe('2001:db8:1:3::/64');
});

test('a shortened address is filled up before it is cut', () => {
  expect(from('::1')).toBe('0:0:0:0::/64');
  expect(from('2001:db8::1')).toBe('2001:db8:0:0::/64');
  expect(from('2001:db8::5:6:7:8')).toBe('2001:db8:0:0::/64');
  expect(from('::4:5:6:7:8')).toBe('0:0:0:4::/64');
  expect(from('2001::')).toBe('2001:0:0:0::/64');
});

test('falls back on the socket', () => {
  expect(from(undefined, '203.0.113.9')).toBe('203.0.113.9');
  expect(from(undefined)).toBe('unknown');
});

test('on one connection, everybody whom a proxy names has a network of his own', () => {
  const socket = { remoteAddress: '203.0.113.1' };
  const request = (ip: string, forwarded?: string) =>
    networkOf({ ip, headers: { 'x-forwarded-for': forwarded }, socket } as unknown as Request);
  expect(request('203.0.113.1')).toBe('203.0.113.1');
  expect(request('198.51.100.7', '198.51.100.7')).toBe('198.51.100.7');
  expect(request('198.51.100.8', '198.51.100.8')).toBe('198.51.100.8');
  expect(request('203.0.113.1')).toBe('203.0.113.1');
});
