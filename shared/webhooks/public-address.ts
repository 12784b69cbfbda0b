import type { LookupAddress, LookupOptions } from 'node:dns';
import { lookup } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import ipaddr from 'ipaddr.js';

/** The address an endpoint stands for is one that only we can reach: our own machine, our network, a cloud's metadata. */
export class PrivateAddress extends Error {
  override readonly name = 'PrivateAddress';
}

/**
 * Services that clouds give their machines at addresses of public ranges: Azure's (which also hands out certificates). The others'
 * metadata services lie in ranges that are not public: 169.254.169.254, fd00:ec2::254, 100.100.100.200, 192.0.0.192.
 */
const METADATA = new Set(['168.63.129.16']);

/** Whether anybody on the internet could be reached there. Everything with a special meaning is refused, not only what is private. */
export function isPublicAddress(address: string): boolean {
  if (!ipaddr.isValid(address)) return false;
  const parsed = ipaddr.process(address);
  if (parsed.range() !== 'unicast' || METADATA.has(parsed.toString())) return false;
  // Global IPv6 lies in 2000::/3; ipaddr calls the rest `unicast` as well.
  return parsed.kind() === 'ipv4' || ((parsed as ipaddr.IPv6).parts[0] ?? 0) >> 13 === 1;
}

/**
 * What is wrong with a URL as an endpoint's; null = nothing. Names are not looked up here: what they mean is decided when a
 * connection is made, since it may change.
 */
export function endpointUrlProblem(text: string, allowPrivate: boolean): string | null {
  if (!URL.canParse(text)) return 'must be a URL';
  const url = new URL(text);
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return 'must be a URL starting with https:// or http://';
  if (url.username || url.password) return 'must not have a user or password';
  const literal = literalAddress(url);
  if (literal !== null && !allowPrivate && !isPublicAddress(literal)) return 'must not be a private address';
  return null;
}

/** The address in a URL that names none by DNS. `URL` has turned 0x7f.1 and 2130706433 into 127.0.0.1 already. */
export function literalAddress(url: URL): string | null {
  const host = url.hostname.replace(/^\[|\]$/g, '');
  return isIP(host) === 0 ? null : host;
}

type Resolve = (name: string, done: (error: Error | null, addresses: LookupAddress[]) => void) => void;
const resolveByDns: Resolve = (name, done) => lookup(name, { all: true }, done);

/**
 * `lookup` for a connection: the addresses it answers are those that are connected to, so a name cannot mean one thing when
 * it is checked and another one afterwards. One private address among several is enough to refuse.
 */
export function publicLookup(resolve: Resolve = resolveByDns): LookupFunction {
  return (name: string, options: LookupOptions, done: Parameters<LookupFunction>[2]) => {
    resolve(name, (error, addresses) => {
      const [first] = addresses ?? [];
      if (error) done(error, '');
      else if (!first) done(new Error(`${name} has no address`), '');
      else if (!addresses.every(({ address }) => isPublicAddress(address)))
        done(new PrivateAddress(`${name} means a private address`), '');
      else if (options.all) done(null, addresses);
      else done(null, first.address, first.family);
    });
  };
}
