import { createHmac, type KeyObject } from 'node:crypto';
import type { Request } from 'express';
import type { SigningKey } from '../../../shared/config/environment-values.js';
import { derivedFingerprint, isDerivedFingerprint } from '../../../shared/domain/device.js';
import { type DeviceId, EXTERNAL_ID_PATTERN } from '../../../shared/domain/ids.js';
import { Problem } from '../../../shared/errors/catalogue.js';
import { addressOf } from './address.js';

const STABLE_HEADERS = [
  'user-agent',
  'accept-language',
  'sec-ch-ua',
  'sec-ch-ua-platform',
  'sec-ch-ua-model',
  'sec-ch-ua-mobile',
];

/** Returns the device in `X-Device-Fingerprint`; null = none. @throws Problem 400 if it is malformed */
export function namedDevice(req: Request): DeviceId | null {
  const header = req.headers['x-device-fingerprint'];
  if (header === undefined) return null;
  if (typeof header !== 'string' || !EXTERNAL_ID_PATTERN.test(header)) {
    throw new Problem(
      'invalid_request',
      'X-Device-Fingerprint must have 1 to 128 characters of A-Z a-z 0-9 . _ : @ -',
      {
        members: {
          errors: [
            { pointer: '#/headers/X-Device-Fingerprint', detail: 'has invalid characters or an invalid length' },
          ],
        },
      },
    );
  }
  return header as DeviceId;
}

/** The device of a request. */
export type RequestDevice = {
  /** The device that the client named; null = none, or a derived one, which other users share. */
  named: DeviceId | null;
  /** The device that is derived for the caller; null = the client named one. */
  derived: DeviceId | null;
  /** The device that a token is bound to: the one that the client sent, or else the derived one. */
  bound: DeviceId;
  /**
   * The key of the device's quota. Users with the same phone model behind one address share a derived device, so its
   * quota counts per user. No device has a `|` in its name.
   */
  counted: string;
};

/**
 * Derives devices for requests that name none: a keyed hash of stable headers and of the client's address without its
 * port. Without the key, strangers could compute the device of others. The first key makes new devices; a token is
 * bound to the device by the key that signed the token, so that rotating a key rejects no shopper.
 */
export class DerivedDevices {
  readonly #byId: ReadonlyMap<string, KeyObject>;
  readonly #newest: KeyObject;

  /** @param keys those of device tokens */
  constructor(keys: readonly SigningKey[]) {
    const [first] = keys;
    if (!first) throw new Error('at least one key is required');
    this.#newest = first.key;
    this.#byId = new Map(keys.map(({ id, key }) => [id, key]));
  }

  /**
   * Returns the device of a request. A name in the form of a derived device counts as none: it only ever means the
   * caller, who can have a token for it only if it was derived for them.
   * @param sent `device_fp` of the body, which overrides the header.
   * @param token the device token of the request
   * @throws Problem 400
   */
  of(req: Request, sent: string | undefined, user: string, token: string | undefined): RequestDevice {
    const given = (sent as DeviceId | undefined) ?? namedDevice(req);
    if (given !== null && !isDerivedFingerprint(given))
      return { named: given, derived: null, bound: given, counted: given };
    const derived = this.derive(req);
    const key = given === null && token !== undefined ? this.#keyOf(token) : this.#newest;
    const own = key === this.#newest ? derived : fingerprint(req, key);
    return { named: null, derived, bound: given ?? own, counted: `${derived}|${user}` };
  }

  /** Returns the device that a new token is bound to. @param sent as in `of` */
  ofToken(req: Request, sent: string | undefined): DeviceId {
    const given = (sent as DeviceId | undefined) ?? namedDevice(req);
    return given === null || isDerivedFingerprint(given) ? this.derive(req) : given;
  }

  derive(req: Request): DeviceId {
    return fingerprint(req, this.#newest);
  }

  #keyOf(token: string): KeyObject {
    return this.#byId.get(token.slice(0, Math.max(0, token.indexOf('.')))) ?? this.#newest;
  }
}

/** The word `device` distinguishes these hashes from signatures by the same keys. */
function fingerprint(req: Request, key: KeyObject): DeviceId {
  const hash = createHmac('sha256', key).update('device\n');
  for (const name of STABLE_HEADERS) hash.update(`${name}=${String(req.headers[name] ?? '')}\n`);
  return derivedFingerprint(hash.update(addressOf(req)).digest('hex'));
}
