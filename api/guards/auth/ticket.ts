import { createHmac, type KeyObject, timingSafeEqual } from 'node:crypto';
import type { Request } from 'express';
import type { SigningKey } from '../../../shared/config/environment-values.js';
import { decodeBase64url } from '../../../shared/domain/base64url.js';
import {
  type CampaignNo,
  EXTERNAL_ID_PATTERN,
  type ReservationId,
  reservationIdOf,
  type UserId,
} from '../../../shared/domain/ids.js';
import { Problem } from '../../../shared/errors/catalogue.js';

/** Content of a ticket: user, campaign, and the place or unit by the id that its reservation has or will have. */
export type Ticket = { campaignNo: CampaignNo; user: UserId; reservation: ReservationId };

const MAC_BYTES = 16;
/** Number of characters of a reservation id before the campaign number. */
const RESERVATION_PREFIX = 28;

/** `<campaign number>-<first digits of the reservation id>` */
const SUBJECT = /^([0-9a-z]{1,7})-([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})$/;

/**
 * Signs and verifies tickets: `<key id>.<campaign number>-<reservation>.<user>.<mac>`. The number is in base 36, the
 * reservation is the part of its id before the number, and the user is in base64url. A ticket contains no time, so that
 * a replay returns the ticket of the first response. It is valid as long as its place.
 */
export class Tickets {
  readonly #byId: ReadonlyMap<string, KeyObject>;
  readonly signingKeyId: string;

  constructor(keys: readonly SigningKey[]) {
    const [first] = keys;
    if (!first) throw new Error('at least one ticket key is required');
    this.signingKeyId = first.id;
    this.#byId = new Map(keys.map(({ id, key }) => [id, key]));
  }

  /**
   * Returns the ticket of a place or unit.
   * @param keyId the key that signed the first response; if it is retired, the current key signs
   */
  sign(campaignNo: number, user: string, reservation: string, keyId: string): string {
    const id = this.#byId.has(keyId) ? keyId : this.signingKeyId;
    const place = reservation.slice(0, RESERVATION_PREFIX).replaceAll('-', '');
    const payload = `${id}.${campaignNo.toString(36)}-${place}.${Buffer.from(user).toString('base64url')}`;
    return `${payload}.${mac(this.#byId.get(id) as KeyObject, payload).toString('base64url')}`;
  }

  /** Returns the content of a ticket; null = forged, malformed or signed with a retired key. */
  verify(text: string): Ticket | null {
    const end = text.lastIndexOf('.');
    const [keyId, subject, user, ...rest] = text.slice(0, Math.max(0, end)).split('.');
    const key = keyId === undefined ? undefined : this.#byId.get(keyId);
    if (!key || !subject || !user || rest.length > 0) return null;
    const given = decodeBase64url(text.slice(end + 1));
    const expected = mac(key, text.slice(0, end));
    if (given?.length !== expected.length || !timingSafeEqual(given, expected)) return null;
    const userId = decodeBase64url(user)?.toString() ?? '';
    const [, no, ...parts] = SUBJECT.exec(subject) ?? [];
    if (no === undefined || !EXTERNAL_ID_PATTERN.test(userId)) return null;
    const campaignNo = Number.parseInt(no, 36) as CampaignNo;
    return { campaignNo, user: userId as UserId, reservation: reservationIdOf(parts.join('-'), campaignNo) };
  }

  /** Returns the ticket of a request; null = none. @throws Problem 401 if the ticket is not valid */
  of(req: Request): Ticket | null {
    const text = req.headers['x-ticket'];
    if (text === undefined) return null;
    const ticket = typeof text === 'string' ? this.verify(text) : null;
    if (!ticket)
      throw new Problem('ticket_invalid', 'The ticket in X-Ticket is not valid.', { headers: TICKET_CHALLENGE });
    return ticket;
  }

  /** Returns the ticket of a request. @throws Problem 401 if it is missing or not valid */
  required(req: Request): Ticket {
    const ticket = this.of(req);
    if (!ticket) throw new Problem('ticket_invalid', 'X-Ticket is missing.', { headers: TICKET_CHALLENGE });
    return ticket;
  }
}

const TICKET_CHALLENGE = { 'WWW-Authenticate': 'Ticket realm="doorbuster"' };

/** Whether the ticket is valid for a reservation. @param reservation "" = none yet */
export function isFor({ reservation: own }: Ticket, reservation: string): boolean {
  return reservation === '' || own === reservation;
}

function mac(key: KeyObject, payload: string): Buffer {
  // As text first: `digest()` takes memory outside of the heap for each ticket, which costs 0.6 µs more.
  const digest = createHmac('sha256', key).update(payload).digest('binary');
  return Buffer.from(digest.slice(0, MAC_BYTES), 'binary');
}
