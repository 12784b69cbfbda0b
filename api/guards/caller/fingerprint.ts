import { createHash } from 'node:crypto';
import type { Request } from 'express';
import { derivedFingerprint, isDerivedFingerprint } from '../../../shared/domain/device.js';
import { type DeviceId, EXTERNAL_ID_PATTERN } from '../../../shared/domain/ids.js';
import { Problem } from '../../../shared/errors/catalogue.js';
import { addressOf } from './address.js';

const DERIVED_FORM = /^fp-[0-9a-f]{40}$/;
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
  /** The device that the client named; null = none, or the derived one, which other users share. */
  named: DeviceId | null;
  /** The device that a token is bound to: the named one, or else the derived one. */
  bound: DeviceId;
  /**
   * The key of the device's quota. Users with the same phone model behind one address share a derived device, so its
   * quota counts per user.
   */
  counted: string;
};

/**
 * Returns the device of a request.
 * @param sent `device_fp` of the body, which overrides the header.
 * @throws Problem 400
 */
export function deviceOf(req: Request, sent: string | undefined, user: string): RequestDevice {
  const given = (sent as DeviceId | undefined) ?? namedDevice(req);
  if (given !== null && !DERIVED_FORM.test(given)) return { named: given, bound: given, counted: given };
  const derived = derivedDevice(req);
  if (given !== null && given !== derived) return { named: given, bound: given, counted: given };
  return { named: null, bound: derived, counted: `${derived}.${user}` };
}

/**
 * Derives a device for a request that names none: a hash of stable headers and of the client's address without its
 * port.
 */
export function derivedDevice(req: Request): DeviceId {
  const hash = createHash('sha256');
  for (const name of STABLE_HEADERS) hash.update(`${name}=${String(req.headers[name] ?? '')}\n`);
  return derivedFingerprint(hash.update(addressOf(req)).digest('hex'));
}

/**
 * Returns the device that a request has proved, for a caller who asks for the ticket of a place that the device took.
 * @param genuine whether the request contains a genuine token for the device
 * @returns null for a derived fingerprint, which strangers may share
 */
export function provenDevice(named: DeviceId | null, genuine: boolean): DeviceId | null {
  return genuine && named !== null && !isDerivedFingerprint(named) ? named : null;
}
