import type { LookupAddress, LookupOptions } from 'node:dns';
import { lookup } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import ipaddr from 'ipaddr.js';

/** The address of an endpoint is private: this machine, its network, or the metadata service of a cloud. */
export class PrivateAddress extends Error {
  override readonly name = 'PrivateAddress';
}

/**
 * Internal cloud services at addresses in public ranges: only Azure has one, which also issues certificates. The
 * metadata services of other clouds are in ranges that are not public: 169.254.169.254, fd00:ec2::254, 100.100.100.200,
 * 192.0.0.192.
 */
const METADATA = new Set(['168.63.129.16']);

/** Whether the address can belong to a host on the internet. Rejects all special ranges, not only private ones. */
export function isPublicAddress(address: string): boolean {
  if (!ipaddr.isValid(address)) return false;
  const parsed = ipaddr.process(address);
  if (parsed.range() !== 'unicast' || METADATA.has(parsed.toString())) return false;
  // Global IPv6 addresses are in 2000::/3, but ipaddr also calls other ranges `unicast`.
  return parsed.kind() === 'ipv4' || ((parsed as ipaddr.IPv6).parts[0] ?? 0) >> 13 === 1;
}

/**
 * Why a URL cannot be the URL of an endpoint; null = it can. Host names are not resolved here, because their addresses
 * may change. Each connection checks them.
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

const RESOLVE_LIMIT_MS = 3_000;
/** The name does not exist, or has no address. Other errors of a resolver pass. */
const NO_ADDRESS: ReadonlySet<string | undefined> = new Set(['ENOTFOUND', 'ENODATA']);

/**
 * Why the host name of a URL leads to no possible endpoint now; null = it does, or the resolver does not respond.
 * Deliveries resolve it again.
 */
export async function endpointHostProblem(
  text: string,
  allowPrivate: boolean,
  resolve: Resolve = resolveByDns,
): Promise<string | null> {
  const url = new URL(text);
  if (literalAddress(url) !== null) return null;
  const name = url.hostname;
  return new Promise((done) => {
    const timer = setTimeout(done, RESOLVE_LIMIT_MS, null);
    resolve(name, (error: NodeJS.ErrnoException | null, addresses = []) => {
      clearTimeout(timer);
      const hidden = addresses.find(({ address }) => !isPublicAddress(address));
      if (error && NO_ADDRESS.has(error.code)) done(`the host name ${name} has no address`);
      else if (hidden && !allowPrivate) done(`${name} resolves to a private address. Use a public one`);
      else done(null);
    });
  });
}

/**
 * The IP address in a URL; null = the host is a name. `URL` has already turned 0x7f.1 and 2130706433 into 127.0.0.1.
 */
export function literalAddress(url: URL): string | null {
  const host = url.hostname.replace(/^\[|\]$/g, '');
  return isIP(host) === 0 ? null : host;
}

type Resolve = (name: string, done: (error: Error | null, addresses: LookupAddress[]) => void) => void;
const resolveByDns: Resolve = (name, done) => lookup(name, { all: true }, done);

/**
 * Makes the `lookup` function of a connection. The connection uses exactly the addresses that this function checked, so
 * a name cannot resolve to another address between check and use. A name with any private address is rejected.
 */
export function publicLookup(resolve: Resolve = resolveByDns): LookupFunction {
  return (name: string, options: LookupOptions, done: Parameters<LookupFunction>[2]) => {
    resolve(name, (error, addresses) => {
      const [first] = addresses ?? [];
      if (error) done(error, '');
      else if (!first) done(new Error(`${name} has no address`), '');
      else if (!addresses.every(({ address }) => isPublicAddress(address)))
        done(new PrivateAddress(`${name} resolves to a private address`), '');
      else if (options.all) done(null, addresses);
      else done(null, first.address, first.family);
    });
  };
}
