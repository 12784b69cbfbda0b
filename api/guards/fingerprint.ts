import { createHash } from 'node:crypto';
import type { Request } from 'express';
import { derivedFingerprint, isDerivedFingerprint } from '../../shared/domain/device.js';
import { type DeviceId, EXTERNAL_ID_PATTERN } from '../../shared/domain/ids.js';
import { Problem } from '../../shared/errors/catalogue.js';
import { addressOf } from './address.js';

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
