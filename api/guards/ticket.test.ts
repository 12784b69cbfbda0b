import { expect, test } from '@jest/globals';
import type { Request } from 'express';
import fc from 'fast-check';
import type { CampaignNo } from '../../shared/domain/ids.js';
import { Tickets } from './ticket.js';

const older = { id: 't0', key: Buffer.alloc(32, 1) };
const newer = { id: 't1', key: Buffer.alloc(32, 2) };
const tickets = new Tickets([newer, older]);
const no = (n: number) => n as CampaignNo;
const asking = (ticket?: string | string[]) =>
  ({ headers: ticket === undefined ? {} : { 'x-ticket': ticket } }) as unknown as Request;
const userId = fc.stringMatching(/^[A-Za-z0-9._:@-]{1,128}$/);

test('says again which user and campaign it was made for', () => {
  fc.assert(
    fc.property(userId, fc.integer({ min: 1, max: 0xffffffff }), (user, campaign) => {
      expect(tickets.verify(tickets.sign(no(campaign), user, 't1'))).toEqual({ campaignNo: campaign, user });
    }),
  );
});

test('is the same every time, so that a replayed answer is the same', () => {
  expect(tickets.sign(no(7), 'ann', 't0')).toBe(tickets.sign(no(7), 'ann', 't0'));
  expect(tickets.sign(no(7), 'ann', 't0')).not.toBe(tickets.sign(no(7), 'ann', 't1'));
});

test('is signed with the key of the first answer, or with the present one when that is retired', () => {
  expect(tickets.signingKeyId).toBe('t1');
  expect(tickets.sign(no(7), 'ann', 't0')).toMatch(/^t0\./);
  expect(tickets.sign(no(7), 'ann', 'gone')).toMatch(/^t1\./);
  const later = new Tickets([{ id: 't2', key: Buffer.alloc(32, 3) }, newer]);
  expect(later.verify(tickets.sign(no(7), 'ann', 't1'))).toEqual({ campaignNo: 7, user: 'ann' });
  expect(later.verify(tickets.sign(no(7), 'ann', 't0'))).toBeNull();
});

test('cannot be forged or carried over to another user, campaign or key', () => {
  const ticket = tickets.sign(no(7), 'ann', 't1');
  const [id, campaign, , mac] = ticket.split('.');
  const bob = Buffer.from('bob').toString('base64url');
  const ann = Buffer.from('ann').toString('base64url');
  for (const forged of [
    '',
    '...',
    `${id}.${campaign}.${bob}.${mac}`,
    `${id}.8.${ann}.${mac}`,
    `t0.${campaign}.${ann}.${mac}`,
    `t9.${campaign}.${ann}.${mac}`,
    ticket.slice(0, -1),
    `${ticket}.x`,
    `x.${ticket}`,
    `${id}.${campaign}.${ann}.`,
    `${id}..${ann}.${mac}`,
    `${ticket}=`,
    `${ticket}==`,
    `${ticket}!`,
    `${ticket}!!!`,
  ]) {
    expect([forged, tickets.verify(forged)]).toEqual([forged, null]);
  }
  fc.assert(fc.property(fc.string({ maxLength: 200 }), (text) => tickets.verify(text) === null));
});

test('reads the ticket of a request', () => {
  const ticket = tickets.sign(no(7), 'ann', 't1');
  expect(tickets.of(asking(ticket))).toEqual({ campaignNo: 7, user: 'ann' });
  expect(tickets.required(asking(ticket))).toEqual({ campaignNo: 7, user: 'ann' });
  expect(tickets.of(asking())).toBeNull();
});

test('asks for a ticket when it is missing, and always refuses one that is not genuine', () => {
  const refusal = expect.objectContaining({
    code: 'ticket_invalid',
    status: 401,
    extras: { headers: { 'WWW-Authenticate': 'Ticket realm="doorbuster"' } },
  });
  const attempts = [
    () => tickets.required(asking()),
    () => tickets.of(asking('nonsense')),
    () => tickets.of(asking(['a', 'b'])),
    () => tickets.of(asking('')),
  ];
  for (const attempt of attempts) expect(attempt).toThrow(refusal as never);
});
