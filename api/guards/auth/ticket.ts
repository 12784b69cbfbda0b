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

/**
 * What a ticket proves: this user, in this campaign, and which place or unit is theirs, by the id that its reservation has
 * or will have. null = of an earlier version, for each of the user's.
 */
export type Ticket = { campaignNo: CampaignNo; user: UserId; reservation: ReservationId | null };

const MAC_BYTES = 16;
/** Characters of a reservation id before the campaign's number. */
const RESERVATION_PREFIX = 28;

/** `<campaign number>-<first digits of the reservation id>`; an earlier version reads the number and ignores the rest. */
const SUBJECT = /^([0-9a-z]{1,7})(?:-([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4}))?$/;

/**
 * Tickets: `<key id>.<campaign number>-<reservation>.<user>.<mac>`, where the number is base 36, the reservation the part of
 * its id before the number, and the user base64url. They carry no time, so that a replayed answer holds the same ticket as
 * the first one; they end with their place.
 */
export class Tickets {
  readonly #byId: ReadonlyMap<string, KeyObject>;
  readonly signingKeyId: string;

  constructor(keys: readonly SigningKey[]) {
    const [first] = keys;
    if (!first) throw new Error('at least one ticket key is needed');
    this.signingKeyId = first.id;
    this.#byId = new Map(keys.map(({ id, key }) => [id, key]));
  }

  /**
   * @param reservation null = of an answer that an earlier version gave
   * @param keyId the key that signed the first answer; should it be retired, the present one signs
   */
  sign(campaignNo: number, user: string, reservation: string | null, keyId: string): string {
    const id = this.#byId.has(keyId) ? keyId : this.signingKeyId;
    const place = reservation === null ? '' : `-${reservation.slice(0, RESERVATION_PREFIX).replaceAll('-', '')}`;
    const payload = `${id}.${campaignNo.toString(36)}${place}.${Buffer.from(user).toString('base64url')}`;
    return `${payload}.${mac(this.#byId.get(id) as KeyObject, payload).toString('base64url')}`;
  }

  /** null when it is forged, malformed or signed with a retired key. */
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
    const reservation = parts[0] === undefined ? null : reservationIdOf(parts.join('-'), campaignNo);
    return { campaignNo, user: userId as UserId, reservation };
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

/** Whether the ticket is for this unit. @param reservation "" = there is no unit yet */
export function isFor({ reservation: own }: Ticket, reservation: string): boolean {
  return own === null || reservation === '' || own === reservation;
}

function mac(key: KeyObject, payload: string): Buffer {
  return createHmac('sha256', key).update(payload).digest().subarray(0, MAC_BYTES);
}
