import { createHash } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { midtransProvider } from './midtrans.js';
import { InvalidWebhook } from './provider.js';

const key = 'SB-Mid-server-of-a-test';
/** Reads a notification with a valid signature, which does not cover these fields. */
function read(fields: Record<string, string>) {
  const signed = { order_id: 'o-1', status_code: '200', gross_amount: '49000.00' };
  const signature_key = createHash('sha512')
    .update(`${Object.values(signed).join('')}${key}`)
    .digest('hex');
  const body = { ...signed, signature_key, transaction_id: 't-1', transaction_status: 'settlement', ...fields };
  return midtransProvider(key).read(Buffer.from(JSON.stringify(body)), {});
}

test('a notification is read', () => expect(read({})).toMatchObject({ kind: 'succeeded', paymentRef: 't-1' }));

test.each([
  { transaction_id: '' },
  { transaction_id: 't\0' },
  { transaction_id: 't\ud800' },
  { transaction_status: 'refund', refund_amount: '1\0' },
])('a notification that no database could store is refused: %j', (fields) => {
  expect(() => read(fields)).toThrow(InvalidWebhook);
});
