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

/** The device a request names in its `X-Device-Fingerprint`; null when it names none. @throws Problem 400 */
export function namedDevice(req: Request): DeviceId | null {
  const header = req.headers['x-device-fingerprint'];
  if (header === undefined) return null;
  if (typeof header !== 'string' || !EXTERNAL_ID_PATTERN.test(header)) {
    throw new Problem(
      'invalid_request',
      'X-Device-Fingerprint must have 1 to 128 characters of A-Z a-z 0-9 . _ : @ -',
      {
        members: {
          errors: [{ pointer: '#/headers/X-Device-Fingerprint', detail: 'has other characters or another length' }],
        },
      },
    );
  }
  return header as DeviceId;
}

/** What a request says of its device. */
export type RequestDevice = {
  /** As the shopper named it; null = it named none, or the derived one, which others share. */
  named: DeviceId | null;
  /** What a token is bound to: the device that was sent, else the derived one. */
  bound: DeviceId;
  /**
   * What the device's quota counts. A derived device is the same for everybody with the same telephone behind one address,
   * so it counts for each of its users apart.
   */
  counted: string;
};

/** @param sent `device_fp` of the body, which goes before the header. @throws Problem 400 */
export function deviceOf(req: Request, sent: string | undefined, user: string): RequestDevice {
  const given = (sent as DeviceId | undefined) ?? namedDevice(req);
  if (given !== null && !DERIVED_FORM.test(given)) return { named: given, bound: given, counted: given };
  const derived = derivedDevice(req);
  if (given !== null && given !== derived) return { named: given, bound: given, counted: given };
  return { named: null, bound: derived, counted: `${derived}.${user}` };
}

/** A device for requests that name none: a hash of stable headers and the client's address, without its port. */
export function derivedDevice(req: Request): DeviceId {
  const hash = createHash('sha256');
  for (const name of STABLE_HEADERS) hash.update(`${name}=${String(req.headers[name] ?? '')}\n`);
  return derivedFingerprint(hash.update(addressOf(req)).digest('hex'));
}

/**
 * The device that a request has proved to use, for whoever asks for the ticket of a place that it took.
 * @param genuine whether a genuine token for the device came with the request
 * @returns null for a derived fingerprint, which strangers share
 */
export function provenDevice(named: DeviceId | null, genuine: boolean): DeviceId | null {
  return genuine && named !== null && !isDerivedFingerprint(named) ? named : null;
}
