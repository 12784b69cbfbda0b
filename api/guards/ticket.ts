import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Request } from 'express';
import type { SigningKey } from '../../shared/config/config.js';
import { decodeBase64url } from '../../shared/domain/base64url.js';
import { type CampaignNo, EXTERNAL_ID_PATTERN, type UserId } from '../../shared/domain/ids.js';
import { Problem } from '../../shared/errors/catalogue.js';

/** What a ticket proves: this user, in this campaign. */
export type Ticket = { campaignNo: CampaignNo; user: UserId };

const MAC_BYTES = 16;

/**
 * Tickets: `<key id>.<campaign number>.<user>.<mac>`, where number and user are base 36 and base64url. They carry no time,
 * so that a replayed answer holds the same ticket as the first one; they end with their campaign.
 */
export class Tickets {
  readonly #byId: ReadonlyMap<string, Buffer>;
  readonly signingKeyId: string;

  constructor(keys: readonly SigningKey[]) {
    const [first] = keys;
    if (!first) throw new Error('at least one ticket key is needed');
    this.signingKeyId = first.id;
    this.#byId = new Map(keys.map(({ id, key }) => [id, key]));
  }

  /** @param keyId the key that signed the first answer; should it be retired, the present one signs */
  sign(campaignNo: number, user: string, keyId: string): string {
    const id = this.#byId.has(keyId) ? keyId : this.signingKeyId;
    const payload = `${id}.${campaignNo.toString(36)}.${Buffer.from(user).toString('base64url')}`;
    return `${payload}.${mac(this.#byId.get(id) as Buffer, payload).toString('base64url')}`;
  }

  /** null when it is forged, malformed or signed with a retired key. */
  verify(text: string): Ticket | null {
    const end = text.lastIndexOf('.');
    const [keyId, no, user, ...rest] = text.slice(0, Math.max(0, end)).split('.');
    const key = keyId === undefined ? undefined : this.#byId.get(keyId);
    if (!key || !no || !user || rest.length > 0) return null;
    const given = decodeBase64url(text.slice(end + 1));
    const expected = mac(key, text.slice(0, end));
    if (given?.length !== expected.length || !timingSafeEqual(given, expected)) return null;
    const userId = Buffer.from(user, 'base64url').toString();
    if (!EXTERNAL_ID_PATTERN.test(userId)) return null;
    return { campaignNo: Number.parseInt(no, 36) as CampaignNo, user: userId as UserId };
  }

  /** The ticket of a request; null when it has none. @throws Problem 401 when it is not genuine */
  of(req: Request): Ticket | null {
    const text = req.headers['x-ticket'];
    if (text === undefined) return null;
    const ticket = typeof text === 'string' ? this.verify(text) : null;
    if (!ticket)
      throw new Problem('ticket_invalid', 'X-Ticket is not a ticket of ours.', { headers: TICKET_CHALLENGE });
    return ticket;
  }

  /** @throws Problem 401 when there is none or it is not genuine */
  required(req: Request): Ticket {
    const ticket = this.of(req);
    if (!ticket) throw new Problem('ticket_invalid', 'X-Ticket is missing.', { headers: TICKET_CHALLENGE });
    return ticket;
  }
}

const TICKET_CHALLENGE = { 'WWW-Authenticate': 'Ticket realm="doorbuster"' };

function mac(key: Buffer, payload: string): Buffer {
  return createHmac('sha256', key).update(payload).digest().subarray(0, MAC_BYTES);
}
