import { describe, expect, it } from '@jest/globals';
import { parseRedisUrl, redisUrlWithoutSecrets } from './redis-target.js';

const CERTIFICATE = `-----BEGIN CERTIFICATE-----
MIIBfTCCASOgAwIBAgIUZ2Zz0m5b0s7m0v1c0n1c1n0v0Z0wCgYIKoZIzj0EAwIw
-----END CERTIFICATE-----`;

const missing = () => {
  throw Object.assign(new Error('no such file'), { code: 'ENOENT' });
};
const parse = (url: string, readFile: (path: string) => string = missing) => parseRedisUrl(url, readFile);
const problemOf = (url: string, readFile?: (path: string) => string) => {
  const parsed = parse(url, readFile);
  return 'problem' in parsed ? parsed.problem : null;
};

const SERVER = {
  kind: 'server',
  server: { host: 'h', port: 6379 },
  username: null,
  password: null,
  db: 0,
  tls: null,
};
const CLUSTER = {
  kind: 'cluster',
  nodes: [
    { host: 'h1', port: 6379 },
    { host: 'h2', port: 7001 },
  ],
  namespace: '',
  username: null,
  password: null,
  tls: null,
};
const SENTINELS = {
  kind: 'sentinel',
  sentinels: [
    { host: 'h1', port: 26379 },
    { host: 'h2', port: 26380 },
    { host: 'h3', port: 26379 },
  ],
  name: 'doorbuster',
  username: null,
  password: null,
  db: 0,
  tls: null,
  sentinelLogin: { username: null, password: null },
  sentinelTls: null,
};

describe('parseRedisUrl', () => {
  it.each([
    ['redis://h', {}],
    ['REDIS://h/', {}],
    ['redis://h:7000/3', { server: { host: 'h', port: 7000 }, db: 3 }],
    ['redis://[::1]:7000', { server: { host: '::1', port: 7000 } }],
    ['redis://:p%40ss@h', { password: 'p@ss' }],
    ['redis://api:p%3Aa%2Fss@h', { username: 'api', password: 'p:a/ss' }],
    ['redis://api:a@b@h', { username: 'api', password: 'a@b' }],
    ['rediss://h', { tls: { ca: null } }],
  ])('reads %s', (url, expected) => {
    expect(parse(url)).toEqual({ target: { ...SERVER, ...expected } });
  });

  it.each([
    ['redis+cluster://h1,h2:7001', {}],
    ['REDIS+CLUSTER://h1,h2:7001/', {}],
    [
      'redis+cluster://api:p%40ss@h1,h2:7001/0?namespace=shop',
      { username: 'api', password: 'p@ss', namespace: 'shop' },
    ],
    ['rediss+cluster://h1,h2:7001', { tls: { ca: null } }],
  ])('reads %s', (url, expected) => {
    expect(parse(url)).toEqual({ target: { ...CLUSTER, ...expected } });
  });

  it.each([
    ['redis+sentinel://h1,h2:26380,h3/doorbuster', {}],
    ['redis+sentinel://api:secret@h1,h2:26380,h3/doorbuster/2', { username: 'api', password: 'secret', db: 2 }],
    [
      'redis+sentinel://h1,h2:26380,h3/doorbuster?sentinel_user=watch&sentinel_password=a%26b+c',
      { sentinelLogin: { username: 'watch', password: 'a&b+c' } },
    ],
    ['redis+sentinel://h1,h2:26380,h3/doorbuster?tls=1', { tls: { ca: null } }],
    ['rediss+sentinel://h1,h2:26380,h3/doorbuster', { tls: { ca: null }, sentinelTls: { ca: null } }],
  ])('reads %s', (url, expected) => {
    expect(parse(url)).toEqual({ target: { ...SENTINELS, ...expected } });
  });

  it.each([
    ['http://h', 'must be a URL starting with redis://'],
    ['h:6379', 'must be a URL starting with redis://'],
    ['redis+cluster://h1,h2/1', 'a cluster has only database 0'],
    ['redis+cluster://h1?namespace=a:b', '`namespace` must have at most 32 letters'],
    ['redis+cluster://h1?tls=1', 'has the unknown parameter `tls`'],
    ['redis://', 'each host must be a name or an address'],
    ['redis://h:0', 'with a port from 1 to 65535'],
    ['redis://h:70000', 'with a port from 1 to 65535'],
    ['redis://h1,h2', 'must name exactly one host'],
    ['redis://user@h', 'must have a password after the user'],
    ['redis://:%zz@h', 'must be percent-encoded'],
    ['redis://h/one', 'the number of the database must be a whole number'],
    ['redis://h?timeout=1', 'has the unknown parameter `timeout`; known: ca'],
    ['redis://h?ca=/ca.pem', '`ca` requires TLS; use rediss://'],
    ['rediss://h?ca=/ca.pem', 'the file of `ca`, /ca.pem, does not exist'],
    ['redis+sentinel://h1,h2', 'must end with the name of the primary'],
    ['redis+sentinel://h1,h2/name/0/1', 'must end with the name of the primary'],
    ['redis+sentinel://h1,,h2/name', 'each host must be a name or an address'],
    ['redis+sentinel://h1/name?tls=yes', '`tls` must be 0 or 1'],
  ])('refuses %s', (url, expected) => {
    expect(problemOf(url)).toContain(expected);
  });

  it('refuses a file that is not a certificate', () => {
    expect(problemOf('rediss://h?ca=/ca.pem', () => 'hello')).toBe(
      'the file of `ca`, /ca.pem, is not a certificate in PEM form',
    );
    expect(problemOf('rediss://h?ca=/ca.pem', () => CERTIFICATE)).toContain('is not a certificate');
  });
});

describe('redisUrlWithoutSecrets', () => {
  it.each([
    ['redis://h:6379/0', 'redis://h:6379/0'],
    ['redis://user:secret@h', 'redis://***@h'],
    ['redis://user:sec@ret@h', 'redis://***@h'],
    [
      'redis+sentinel://:secret@h1,h2/name?sentinel_password=secret&tls=1',
      'redis+sentinel://***@h1,h2/name?sentinel_password=***&tls=1',
    ],
    ['redis://:secret', null],
    ['redis://user:secret/more@h', 'redis://***@h'],
    ['secret', null],
  ])('shows %s as %s', (url, shown) => {
    expect(redisUrlWithoutSecrets(url)).toBe(shown);
  });
});
