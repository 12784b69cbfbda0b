import type { Attempt, SaleOptions } from '../../client/sale.js';
import { remembered, rememberedInTab } from './remembered.js';

/**
 * A visitor whom the shop has identified, with the proof for the server, or who continues here what they began on
 * another device.
 */
export type Visitor = {
  userId: string;
  proof: Pick<SaleOptions, 'authorization' | 'handOver'>;
  transfer?: Attempt;
};

/** Parameters in the link, after `#`, which is not sent to servers or written to logs, or after `?`. */
const JWT = 'access_token';
const HAND_OVER = 'shopper';
const CONTINUE = 'continue';
/** Marks the link of a notification, which names no user: this browser remembers for whom it asked. */
const TURN = 'turn';

/** Remembers the user of a sale for the link of a notification. */
export function keepForTurn(productId: string, userId: string): void {
  remembered.setItem(named(`${TURN}|${productId}`), userId);
}

/**
 * Reads the identity of the visitor from the link of the shop: a JWT (`#access_token=…`) or a hand-over (`#shopper=…`).
 * Removes it from the address and the history, and stores it for reloads of this tab. The server verifies the proof;
 * the page only reads the user id.
 * @returns null when the link has neither
 */
export function readVisitor(productId: string): Visitor | null {
  const [jwt = null, handOver = null, link = null, turn = null] = takeFromAddress();
  if (turn !== null) keep(TURN, remembered.getItem(named(`${TURN}|${productId}`)));
  if (link) keep(CONTINUE, link);
  const continued = continuedBy(link ?? rememberedInTab.getItem(named(CONTINUE)));
  if (continued) return continued;
  // A new link replaces the proof of an earlier one.
  if (jwt || handOver) {
    keep(JWT, jwt);
    keep(HAND_OVER, handOver);
  }
  const proofs = {
    jwt: jwt ?? rememberedInTab.getItem(named(JWT)),
    handOver: handOver ?? rememberedInTab.getItem(named(HAND_OVER)),
  };
  const byJwt = memberOf(proofs.jwt, 1, 'sub');
  if (byJwt) return { userId: byJwt, proof: { authorization: () => `Bearer ${proofs.jwt}` } };
  const byHandOver = memberOf(proofs.handOver, 2, 'user_id');
  if (byHandOver) return { userId: byHandOver, proof: { handOver: () => proofs.handOver } };
  const notified = rememberedInTab.getItem(named(TURN));
  const isNamed = new URL(location.href).searchParams.has('user_id');
  // The ticket that this browser has proves the place.
  return notified && !isNamed ? { userId: notified, proof: {} } : null;
}

const named = (name: string) => `doorbuster|${name}`;

/** The link by which another device of this shopper continues. It has the ticket, so it is behind `#`. */
export function continueLink(page: string, userId: string, transfer: Attempt): string {
  const { origin, pathname } = new URL(page);
  const text = new TextEncoder().encode(JSON.stringify([userId, transfer]));
  return `${origin}${pathname}#${CONTINUE}=${btoa(String.fromCharCode(...text))
    .replaceAll('+', '-')
    .replaceAll('/', '_')}`;
}

function continuedBy(link: string | null | undefined): Visitor | null {
  const [userId, transfer] = (jsonIn(link) ?? []) as [unknown, Attempt?];
  if (typeof userId !== 'string' || typeof transfer?.key !== 'string') return null;
  return { userId, proof: {}, transfer };
}

function takeFromAddress(): (string | null)[] {
  const address = new URL(location.href);
  const hash = new URLSearchParams(address.hash.slice(1));
  const names = [JWT, HAND_OVER, CONTINUE, TURN];
  const found = names.map((name) => hash.get(name) ?? address.searchParams.get(name));
  if (found.some((value) => value !== null)) {
    address.hash = '';
    for (const name of names) address.searchParams.delete(name);
    history.replaceState(history.state, '', address.pathname + address.search);
  }
  return found;
}

function keep(name: string, value: string | null): void {
  if (value === null) rememberedInTab.removeItem(named(name));
  else rememberedInTab.setItem(named(name), value);
}

/** Reads a member of the base64url-encoded JSON in one part of a signed text. */
function memberOf(text: string | null | undefined, part: number, name: string): string | null {
  const value = (jsonIn(text?.split('.')[part]) as Record<string, unknown> | null)?.[name];
  return typeof value === 'string' ? value : null;
}

/** Reads base64url-encoded JSON; null = it is none. */
function jsonIn(encoded: string | null | undefined): unknown {
  try {
    const text = atob((encoded ?? '').replaceAll('-', '+').replaceAll('_', '/'));
    return JSON.parse(new TextDecoder().decode(Uint8Array.from(text, (character) => character.charCodeAt(0))));
  } catch {
    return null;
  }
}
