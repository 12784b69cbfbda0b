import { createSecretKey } from 'node:crypto';
import { expect, test } from '@jest/globals';
import type { Request } from 'express';
import fc from 'fast-check';
import type { CampaignNo } from '../../../shared/domain/ids.js';
import { isFor, type Ticket, Tickets } from './ticket.js';

const older = { id: 't0', key: createSecretKey(Buffer.alloc(32, 1)) };
const newer = { id: 't1', key: createSecretKey(Buffer.alloc(32, 2)) };
const tickets = new Tickets([newer, older]);
const no = (n: number) => n as CampaignNo;
const asking = (ticket?: string | string[]) =>
  ({ headers: ticket === undefined ? {} : { 'x-ticket': ticket } }) as unknown as Request;
const PLACE = '01a20117-e760-733f-9aaf-17f000000007';
const ANNS = { campaignNo: 7, user: 'ann', reservation: PLACE };
const userId = fc.stringMatching(/^[A-Za-z0-9._:@-]{1,128}$/);

test('says again which user and campaign it was made for', () => {
  fc.assert(
    fc.property(userId, fc.integer({ min: 1, max: 0xffffffff }), (user, campaign) => {
      const reservation = PLACE.slice(0, 28) + campaign.toString(16).padStart(8, '0');
      expect(tickets.verify(tickets.sign(no(campaign), user, reservation, 't1'))).toEqual({
        campaignNo: campaign,
        user,
        reservation,
      });
    }),
  );
});

test('names the place that it is for', () => {
  fc.assert(
    fc.property(fc.uuid({ version: 7 }), fc.integer({ min: 1, max: 0xffffffff }), (uuid, campaign) => {
      const reservation = uuid.slice(0, 28) + campaign.toString(16).padStart(8, '0');
      const ticket = tickets.verify(tickets.sign(no(campaign), 'ann', reservation, 't1'));
      expect(ticket).toEqual({ campaignNo: campaign, user: 'ann', reservation });
    }),
  );
});

test('is for its own place, and while there is no unit for the place in line', () => {
  const ours = ANNS as Ticket;
  const other = '01a20117-e760-733f-9aaf-17f100000007';
  expect([isFor(ours, PLACE), isFor(ours, ''), isFor(ours, other)]).toEqual([true, true, false]);
});

test('has one text only', () => {
  const ticket = tickets.sign(no(7), 'ann', PLACE, 't1');
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
  // 22 characters hold 132 bits for 128: the last one has 15 other spellings.
  const last = alphabet.indexOf(ticket.slice(-1));
  for (let bits = 1; bits < 16; bits += 1) {
    expect(tickets.verify(ticket.slice(0, -1) + alphabet[last ^ bits])).toBeNull();
  }
  for (const other of [`${ticket}=`, `${ticket}==`, `${ticket}!!!`, `${ticket} `])
    expect(tickets.verify(other)).toBeNull();
});

test('is the same every time, so that a replayed answer is the same', () => {
  expect(tickets.sign(no(7), 'ann', PLACE, 't0')).toBe(tickets.sign(no(7), 'ann', PLACE, 't0'));
  expect(tickets.sign(no(7), 'ann', PLACE, 't0')).not.toBe(tickets.sign(no(7), 'ann', PLACE, 't1'));
});

test('is signed with the key of the first answer, or with the present one when that is retired', () => {
  expect(tickets.signingKeyId).toBe('t1');
  expect(tickets.sign(no(7), 'ann', PLACE, 't0')).toMatch(/^t0\./);
  expect(tickets.sign(no(7), 'ann', PLACE, 'gone')).toMatch(/^t1\./);
  const later = new Tickets([{ id: 't2', key: createSecretKey(Buffer.alloc(32, 3)) }, newer]);
  expect(later.verify(tickets.sign(no(7), 'ann', PLACE, 't1'))).toEqual(ANNS);
  expect(later.verify(tickets.sign(no(7), 'ann', PLACE, 't0'))).toBeNull();
});

test('cannot be forged or carried over to another user, campaign or key', () => {
  const ticket = tickets.sign(no(7), 'ann', PLACE, 't1');
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
  const ticket = tickets.sign(no(7), 'ann', PLACE, 't1');
  expect(tickets.of(asking(ticket))).toEqual(ANNS);
  expect(tickets.required(asking(ticket))).toEqual(ANNS);
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
