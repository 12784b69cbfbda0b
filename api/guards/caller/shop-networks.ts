import { BlockList, isIP, type Socket } from 'node:net';
import type { Request } from 'express';
import { addressOf, networkOf } from './address.js';

const FAMILIES: Readonly<Record<number, 'ipv4' | 'ipv6'>> = { 4: 'ipv4', 6: 'ipv6' };
const USER = /[?&]user_id=([^&#]*)/;

/**
 * Returns the function that names the line in which a request waits for its turn: one for each network, but for the
 * servers of the shop one for each user, or for each connection if the user is not in the URL. So a shop that calls for
 * all of its users does not wait as one client.
 * @param shopNetworks addresses and ranges (CIDR)
 */
export function turnsOf(shopNetworks: readonly string[]): (req: Request) => string {
  if (shopNetworks.length === 0) return networkOf;
  const shops = new BlockList();
  for (const network of shopNetworks) {
    const [address = '', bits] = network.split('/');
    const family = FAMILIES[isIP(address)] as 'ipv4' | 'ipv6';
    shops.addSubnet(address, Number(bits ?? (family === 'ipv6' ? 128 : 32)), family);
  }
  const numbers = new WeakMap<Socket, string>();
  let connections = 0;
  return (req) => {
    const address = addressOf(req);
    const family = FAMILIES[isIP(address)];
    if (family === undefined || !shops.check(address, family)) return networkOf(req);
    const user = USER.exec(req.url)?.[1];
    if (user !== undefined) return `user ${user}`;
    const known = numbers.get(req.socket);
    if (known !== undefined) return known;
    connections += 1;
    const number = `connection ${connections}`;
    numbers.set(req.socket, number);
    return number;
  };
}
