import type { SaleOptions } from '../../client/sale.js';

/** A visitor whom the shop has identified, with the proof for the server. */
export type Visitor = { userId: string; proof: Pick<SaleOptions, 'authorization' | 'handOver'> };

/** Parameters in the link, after `#`, which is not sent to servers or written to logs, or after `?`. */
const JWT = 'access_token';
const HAND_OVER = 'shopper';

/**
 * Reads the identity of the visitor from the link of the shop: a JWT (`#access_token=…`) or a hand-over (`#shopper=…`).
 * Removes it from the address and the history, and stores it for reloads of this tab. The server verifies the proof;
 * the page only reads the user id.
 * @returns null when the link has neither
 */
export function readVisitor(): Visitor | null {
  const [jwt, handOver] = takeFromAddress();
  const store = tabStore();
  // A new link replaces the proof of an earlier one.
  if (jwt || handOver) {
    keep(store, JWT, jwt);
    keep(store, HAND_OVER, handOver);
  }
  const proofs = { jwt: jwt ?? store?.getItem(named(JWT)), handOver: handOver ?? store?.getItem(named(HAND_OVER)) };
  const byJwt = memberOf(proofs.jwt, 1, 'sub');
  if (byJwt) return { userId: byJwt, proof: { authorization: () => `Bearer ${proofs.jwt}` } };
  const byHandOver = memberOf(proofs.handOver, 2, 'user_id');
  if (byHandOver) return { userId: byHandOver, proof: { handOver: () => proofs.handOver } };
  return null;
}

const named = (name: string) => `doorbuster|${name}`;

function takeFromAddress(): [string | null, string | null] {
  const address = new URL(location.href);
  const hash = new URLSearchParams(address.hash.slice(1));
  const found = [JWT, HAND_OVER].map((name) => hash.get(name) ?? address.searchParams.get(name));
  if (found.some((value) => value !== null)) {
    address.hash = '';
    for (const name of [JWT, HAND_OVER]) address.searchParams.delete(name);
    history.replaceState(null, '', address.pathname + address.search);
  }
  return [found[0] ?? null, found[1] ?? null];
}

function keep(store: Storage | null, name: string, value: string | null): void {
  if (value === null) store?.removeItem(named(name));
  else store?.setItem(named(name), value);
}

/** The session storage; null where the browser does not allow it, as in some private windows. */
function tabStore(): Storage | null {
  try {
    sessionStorage.setItem('doorbuster', '1');
    return sessionStorage;
  } catch {
    return null;
  }
}

/** Reads a member of the base64url-encoded JSON in one part of a signed text. */
function memberOf(text: string | null | undefined, part: number, name: string): string | null {
  try {
    const encoded = text?.split('.')[part]?.replaceAll('-', '+').replaceAll('_', '/') ?? '';
    const bytes = Uint8Array.from(atob(encoded), (character) => character.charCodeAt(0));
    const value = (JSON.parse(new TextDecoder().decode(bytes)) as Record<string, unknown>)[name];
    return typeof value === 'string' ? value : null;
  } catch {
    return null;
  }
}
