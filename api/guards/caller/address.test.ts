import { expect, test } from '@jest/globals';
import type { Request } from 'express';
import { addressOf, networkOf, wideNetwork } from './address.js';

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

test('on one connection, each client that a proxy names has its own network', () => {
  const socket = { remoteAddress: '203.0.113.1' };
  const request = (ip: string, forwarded?: string) =>
    networkOf({ ip, headers: { 'x-forwarded-for': forwarded }, socket } as unknown as Request);
  expect(request('203.0.113.1')).toBe('203.0.113.1');
  expect(request('198.51.100.7', '198.51.100.7')).toBe('198.51.100.7');
  expect(request('198.51.100.8', '198.51.100.8')).toBe('198.51.100.8');
  expect(request('203.0.113.1')).toBe('203.0.113.1');
});

test('a proxy may write the port, the brackets and the zone: none of them makes another network', () => {
  const same: [string, string][] = [
    ['203.0.113.7:4711', '203.0.113.7'],
    [' 203.0.113.7 ', '203.0.113.7'],
    ['[2001:db8:1:2::1]:4711', '2001:db8:1:2::/64'],
    ['[2001:db8:1:2::1]', '2001:db8:1:2::/64'],
    ['2001:DB8:1:2::1%eth0', '2001:db8:1:2::/64'],
    ['fe80::1%1', 'fe80:0:0:0::/64'],
    ['[::ffff:203.0.113.7]:4711', '203.0.113.7'],
  ];
  for (const [written, network] of same) expect([written, from(written, '192.0.2.1')]).toEqual([written, network]);
});

test('an IPv6 address that embeds an IPv4 address is the IPv4 address', () => {
  for (const ip of ['::ffff:cb00:7107', '0:0:0:0:0:ffff:203.0.113.7', '::ffff:0:203.0.113.7', '64:ff9b::cb00:7107'])
    expect([ip, from(ip)]).toEqual([ip, '203.0.113.7']);
  // One host of 6to4 has 65,536 networks.
  for (const ip of ['2002:cb00:7107::1', '2002:cb00:7107:ffff::1']) expect([ip, from(ip)]).toEqual([ip, '203.0.113.7']);
  expect(from('::ffff:cb00:7108')).toBe('203.0.113.8');
});

test('an invalid address is replaced by the address of the peer', () => {
  const nonsense = ['', 'unknown', '_hidden', '203.0.113', '203.0.113.256', '0x7f.0.0.1', '010.0.0.1', '1.2.3.4:x'];
  for (const ip of [...nonsense, '1:2:3:4:5:6:7:8:443', '[203.0.113.7', 'a:b', '::ffff:1.2.3.4.5'])
    expect([ip, from(ip, '192.0.2.1')]).toEqual([ip, '192.0.2.1']);
});

test('the address of a request has neither port nor zone, and no second spelling', () => {
  const request = (ip: string) => addressOf({ ip, headers: {}, socket: {} } as unknown as Request);
  expect(request('203.0.113.7:1')).toBe(request('::ffff:203.0.113.7'));
  expect(request('[2001:DB8:0::1]:2')).toBe('2001:db8::1');
});

test('networks of IPv6 belong to a /48, and other names to themselves', () => {
  expect(['2001:db8:7:1::/64', '2001:db8:7:ffff::/64'].map(wideNetwork)).toEqual(['2001:db8:7', '2001:db8:7']);
  expect(['192.0.2.1', 'unknown', 'user a:b:c:d'].map(wideNetwork)).toEqual(['192.0.2.1', 'unknown', 'user a:b:c:d']);
});
