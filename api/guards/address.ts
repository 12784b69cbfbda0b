import type { Request } from 'express';

/**
 * The network a request comes from, for quotas: an IPv4 address, or the /64 of an IPv6 one, since whoever has one address
 * of it has them all. Behind `TRUST_PROXY` proxies Express takes it from X-Forwarded-For, otherwise from the socket.
 */
export function networkOf(req: Request & Known): string {
  // Who sends no X-Forwarded-For is who holds the connection, and stays so.
  const holder = (req.headers['x-forwarded-for'] === undefined ? req.socket : req) as Known;
  holder[NETWORK] ??= findNetwork(req);
  return holder[NETWORK];
}
/** Several guards of a request ask for it. */
const NETWORK = Symbol('network');
type Known = { [NETWORK]?: string };

function findNetwork(req: Request): string {
  const address = req.ip ?? req.socket.remoteAddress ?? 'unknown';
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address);
  if (mapped?.[1]) return mapped[1];
  if (!address.includes(':')) return address;
  const [head = '', tail] = address.split('::');
  const left = head === '' ? [] : head.split(':');
  const right = tail ? tail.split(':') : [];
  const zeros = tail === undefined ? [] : Array<string>(Math.max(0, 8 - left.length - right.length)).fill('0');
  const words = [...left, ...zeros, ...right].slice(0, 4).map((word) => Number.parseInt(word, 16).toString(16));
  return `${words.join(':')}::/64`;
}
