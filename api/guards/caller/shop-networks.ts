import { BlockList, isIP, type Socket } from 'node:net';
import type { Request } from 'express';
import { addressOf, networkOf, parseAddress, wideNetwork, wideNetworkOf } from './address.js';

const FAMILIES: Readonly<Record<number, 'ipv4' | 'ipv6'>> = { 4: 'ipv4', 6: 'ipv6' };
const USER = /[?&]user_id=([^&#]*)/;

/** By whom requests wait for their turns. */
type Turns = {
  /** Names the line in which a request waits: of its network, or of a user or a connection of the shop. */
  lineOf: (req: Request) => string;
  wideOf: (network: string) => string;
  /** The wide network of a connection; null = the clients of a proxy or of the shop share it. */
  networkOf: (socket: Socket) => string | null;
};

/**
 * Requests wait in one line for each network, but those of the servers of the shop in one for each user, or for each
 * connection if the user is not in the URL. So a shop that calls for all of its users does not wait as one client.
 * @param shopNetworks addresses and ranges (CIDR)
 * @param trustProxy number of proxies in front
 */
export function turnsOf(shopNetworks: readonly string[], trustProxy: number): Turns {
  const ofPeer = trustProxy > 0 ? () => null : wideNetworkOf;
  if (shopNetworks.length === 0) return { lineOf: networkOf, wideOf: wideNetwork, networkOf: ofPeer };
  const shops = new BlockList();
  for (const network of shopNetworks) {
    const [address = '', bits] = network.split('/');
    const family = FAMILIES[isIP(address)] as 'ipv4' | 'ipv6';
    shops.addSubnet(address, Number(bits ?? (family === 'ipv6' ? 128 : 32)), family);
  }
  const isShop = (address: string) => {
    const family = FAMILIES[isIP(address)];
    return family !== undefined && shops.check(address, family);
  };
  const numbers = new WeakMap<Socket, string>();
  let connections = 0;
  const lineOf = (req: Request) => {
    if (!isShop(addressOf(req))) return networkOf(req);
    const user = USER.exec(req.url)?.[1];
    if (user !== undefined) return `user ${user}`;
    const known = numbers.get(req.socket);
    if (known !== undefined) return known;
    connections += 1;
    const number = `connection ${connections}`;
    numbers.set(req.socket, number);
    return number;
  };
  const ofClient = (socket: Socket) =>
    isShop(parseAddress(socket.remoteAddress ?? '')?.toString() ?? '') ? null : ofPeer(socket);
  return { lineOf, wideOf: wideNetwork, networkOf: ofClient };
}
