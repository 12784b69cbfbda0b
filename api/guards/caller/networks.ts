import ipaddr from 'ipaddr.js';
import { IPV6_BITS, networkNotation, parseAddress } from './address.js';

const LEAST_IPV4_BITS = 8;
const LEAST_IPV6_BITS = 16;

/**
 * Returns the canonical notation of a network that an operator names: `203.0.113.7`, `203.0.113.0/24`,
 * `2001:db8:0:0::/64`, `2001:db8::/32`. A single address becomes the network that `networkOf` returns for it. null =
 * not a network, one so large that it must be a mistake, or an IPv6 range that embeds IPv4 addresses, for which the
 * IPv4 range must be named.
 */
export function canonicalNetwork(text: string): string | null {
  const [address = '', bits, ...rest] = text.split('/');
  const isIpv6 = address.includes(':');
  if (rest.length > 0 || !(isIpv6 ? /^[0-9a-f:.]+$/i : /^[\d.]+$/).test(address)) return null;
  const parsed = ipaddr.isValid(address) ? parseAddress(address) : null;
  if (parsed === null || (bits !== undefined && !/^\d{1,3}$/.test(bits))) return null;
  const written = isIpv6 ? 128 : 32;
  const length = Number(bits ?? written);
  if (length > written || length < (isIpv6 ? LEAST_IPV6_BITS : LEAST_IPV4_BITS)) return null;
  if (length === written) return networkNotation(parsed);
  if (!isIpv6) return `${maskedBytes(parsed, length).join('.')}/${length}`;
  if (parsed.kind() === 'ipv4') return null;
  const masked = new ipaddr.IPv6(maskedBytes(parsed, length));
  return networkNotation(masked).replace(/\d+$/, String(Math.min(length, IPV6_BITS)));
}

/** Values by address range. Finding the ranges around an address costs one look-up per prefix length in use. */
export class NetworkRanges<Value> {
  readonly #byLength = new Map<string, Map<string, Value>>();
  size = 0;

  /** @param network a range in the notation of `canonicalNetwork` */
  set(network: string, value: Value): void {
    const { family, length, start } = taken(network);
    const name = `${family}/${length}`;
    const ranges = this.#byLength.get(name) ?? new Map<string, Value>();
    this.#byLength.set(name, ranges);
    if (!ranges.has(start)) this.size += 1;
    ranges.set(start, value);
  }

  get(network: string): Value | undefined {
    const { family, length, start } = taken(network);
    return this.#byLength.get(`${family}/${length}`)?.get(start);
  }

  delete(network: string): void {
    const { family, length, start } = taken(network);
    const ranges = this.#byLength.get(`${family}/${length}`);
    if (ranges?.delete(start)) this.size -= 1;
    if (ranges?.size === 0) this.#byLength.delete(`${family}/${length}`);
  }

  clear(): void {
    this.#byLength.clear();
    this.size = 0;
  }

  /** Yields the values of all ranges that contain a network of `networkOf`. */
  *around(network: string): Generator<Value> {
    if (this.size === 0) return;
    const address = network.replace(/\/\d+$/, '');
    if (!ipaddr.isValid(address)) return;
    const parsed = ipaddr.parse(address);
    for (const [name, ranges] of this.#byLength) {
      const [family, length] = name.split('/');
      if (family !== parsed.kind()) continue;
      const value = ranges.get(maskedBytes(parsed, Number(length)).join('.'));
      if (value !== undefined) yield value;
    }
  }
}

export const isRange = (network: string): boolean => network.includes('/') && !network.endsWith('::/64');

function taken(network: string): { family: string; length: number; start: string } {
  const [address = '', bits = ''] = network.split('/');
  const parsed = ipaddr.parse(address);
  const length = Number(bits);
  return { family: parsed.kind(), length, start: maskedBytes(parsed, length).join('.') };
}

function maskedBytes(address: ipaddr.IPv4 | ipaddr.IPv6, bits: number): number[] {
  return address.toByteArray().map((byte, i) => {
    const kept = Math.max(0, Math.min(8, bits - i * 8));
    return byte & (0xff << (8 - kept)) & 0xff;
  });
}
