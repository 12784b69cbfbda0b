import type { Socket } from 'node:net';
import type { Request } from 'express';
import ipaddr from 'ipaddr.js';

/** One client controls all addresses of an IPv6 /64, so smaller networks are not distinguished. */
export const IPV6_BITS = 64;

/**
 * Returns the network of a request, for quotas and bans: an IPv4 address or the /64 of an IPv6 address, in the notation
 * of `networkNotation`.
 */
export function networkOf(req: Request): string {
  return found(req).network;
}

/**
 * Returns the caller of a poll for its quota, before its query is checked: a user in a campaign, each network apart, so
 * that no user can exhaust the quota of another one.
 */
export function pollerOf(req: Request): string {
  const { product_id, user_id } = req.query;
  return `${product_id}|${user_id}|${networkOf(req)}`;
}

/** Returns the client's address in canonical notation, without port and zone; "unknown" = the connection is closed. */
export function addressOf(req: Request): string {
  return found(req).address;
}

/**
 * Sets the address of a request, for one that another region has forwarded for its client.
 * @param text an address that cannot be parsed counts as unknown
 */
export function setAddress(req: Request, text: string): void {
  // A request with this header has an address of its own, other than its connection.
  req.headers['x-forwarded-for'] = text;
  (req as Known)[FOUND] = foundIn(parseAddress(text));
}

type Found = { network: string; address: string };
/** Caches the address, because several guards of a request read it. */
const FOUND = Symbol('found');
type Known = { [FOUND]?: Found };

function found(req: Request): Found {
  // Without X-Forwarded-For, the address is that of the connection, which does not change.
  const holder = (req.headers['x-forwarded-for'] === undefined ? req.socket : req) as Known;
  holder[FOUND] ??= find(req);
  return holder[FOUND];
}

/**
 * Behind `TRUST_PROXY` proxies, Express reads the address from X-Forwarded-For. If it cannot be parsed, the address of
 * the proxy is used.
 */
function find(req: Request): Found {
  const { ip = '' } = req;
  return foundIn(parseAddress(ip) ?? parseAddress(req.socket.remoteAddress ?? ''));
}

function foundIn(parsed: ReturnType<typeof parseAddress>): Found {
  return parsed === null
    ? { network: 'unknown', address: 'unknown' }
    : { network: networkNotation(parsed), address: parsed.toString() };
}

/** Returns the wide network (`wideNetwork`) of the peer of a connection; "unknown" = the connection is closed. */
export const wideNetworkOf = ({ remoteAddress = '' }: Socket): string =>
  wideNetwork(foundIn(parseAddress(remoteAddress)).network);

const IPV4 = /^\d{1,3}(\.\d{1,3}){3}$/;

/**
 * Parses an address in any form that proxies write: `203.0.113.7`, `203.0.113.7:4711`, `2001:db8::1`, `[2001:db8::1]`,
 * `[2001:db8::1]:4711`, `fe80::1%eth0`. An IPv6 address that embeds an IPv4 address yields the IPv4 address. null = not
 * an address.
 */
export function parseAddress(text: string): ipaddr.IPv4 | ipaddr.IPv6 | null {
  const bare = text
    .trim()
    .replace(/^\[([^\]]*)\](:\d+)?$/, '$1')
    .replace(/^([\d.]+):\d+$/, '$1')
    .replace(/%.*$/, '');
  if (IPV4.test(bare)) return ipaddr.IPv4.isValidFourPartDecimal(bare) ? ipaddr.IPv4.parse(bare) : null;
  if (!bare.includes(':') || !ipaddr.IPv6.isValid(bare)) return null;
  const six = ipaddr.IPv6.parse(bare);
  return embeddedIpv4(six) ?? six;
}

/**
 * Returns the IPv4 address embedded in an IPv6 address: mapped (`::ffff:0:0/96`), translated (`::ffff:0:0:0/96`, RFC
 * 6145), behind NAT64 (`64:ff9b::/96` and `64:ff9b:1::/48` read as /96, RFC 6052 and 8215), or 6to4 (`2002::/16`),
 * where one IPv4 host has 65,536 networks of /64. null = none.
 */
function embeddedIpv4(address: ipaddr.IPv6): ipaddr.IPv4 | null {
  const bytes = address.toByteArray();
  switch (address.range()) {
    case 'ipv4Mapped':
    case 'rfc6145':
    case 'rfc6052':
      return new ipaddr.IPv4(bytes.slice(12));
    case '6to4':
      return new ipaddr.IPv4(bytes.slice(2, 6));
    default:
      return null;
  }
}

/** Returns the canonical notation of the network of an address: `203.0.113.7`, `2001:db8:0:0::/64`. */
export function networkNotation(address: ipaddr.IPv4 | ipaddr.IPv6): string {
  if (address.kind() === 'ipv4') return address.toString();
  const { parts } = address as ipaddr.IPv6;
  return `${parts
    .slice(0, IPV6_BITS / 16)
    .map((part) => part.toString(16))
    .join(':')}::/${IPV6_BITS}`;
}

/** A network of IPv6 in the notation of `networkNotation`. */
const IPV6_NETWORK = /^((?:[0-9a-f]+:){2}[0-9a-f]+):[0-9a-f]+::\/64$/;

/**
 * The first 48 bits of an IPv6 network, which one customer may have as a whole; other networks, and other text, as they
 * are.
 * @param network in the notation of `networkNotation`
 */
export const wideNetwork = (network: string): string => IPV6_NETWORK.exec(network)?.[1] ?? network;
