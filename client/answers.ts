// What tells an answer of the service from one of a proxy, a captive portal or another service: the fields that it
// always has (docs/integrate.md). What does not fit counts as no answer.
import type { Standing } from './types.js';

/** The data of a response, or the fields of a frame. */
export type Fields = Record<string, unknown>;

const STATUSES = [
  'not_queued',
  'queued',
  'promoted',
  'completed',
  'redeemed',
  'released',
  'expired',
  'left',
  'closed',
] satisfies readonly Standing['status'][];
const isText = (value: unknown) => typeof value === 'string' && value !== '';
const isCount = (value: unknown, least = 0) => Number.isInteger(value) && (value as number) >= least;

/** A standing, as queue-status and `welcome` have it. */
export const isStanding = ({ status, position, queue_size, poll_after_seconds }: Fields): boolean =>
  STATUSES.includes(status as Standing['status']) &&
  isCount(queue_size) &&
  (poll_after_seconds as number) > 0 &&
  (status !== 'queued' || isCount(position, 1));

/** The response to a checkout: a unit, or a place in line. */
export const isPromise = (data: Fields): boolean =>
  data.status === 'completed'
    ? isText(data.reservation_id) && isText(data.order_id)
    : data.status === 'queued' && isStanding(data);

export const isDeviceToken = ({ attestation, device_fp, expires_at }: Fields): boolean =>
  isText(attestation) && isText(device_fp) && isCount(expires_at);

export const isLine = ({ served, waiting, must_be_seen }: Fields): boolean =>
  isCount(served) && isCount(waiting) && typeof must_be_seen === 'boolean';

export const isCampaign = ({ product_id, starts_at }: Fields): boolean =>
  isText(product_id) && Date.parse(String(starts_at)) > 0;
