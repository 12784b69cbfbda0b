import { expect, test } from '@jest/globals';
import { calendarFile } from './calendar.js';

const sale = {
  product_id: 'p',
  name: 'Night sale',
  status: 'scheduled',
  starts_at: '2026-11-27T13:00:00.000Z',
  ends_at: null,
  server_time: '2026-11-22T13:00:00.500Z',
  has_line: true,
  sold_out: false,
} as const;
const fileOf = (branding: object) =>
  calendarFile({ sale, branding, timeZone: 'UTC', perUserLimit: 1, version: '' }, 'https://shop.example/sale/p');

test('has the start of the sale, its name and its page', () => {
  const lines = fileOf({}).split('\r\n');
  expect(lines).toEqual(
    expect.arrayContaining([
      'UID:p@doorbuster',
      'DTSTART:20261127T130000Z',
      'DTEND:20261127T133000Z',
      'SUMMARY:Night sale',
      'URL:https://shop.example/sale/p',
    ]),
  );
  expect([lines[0], lines.at(-2), lines.at(-1)]).toEqual(['BEGIN:VCALENDAR', 'END:VCALENDAR', '']);
});

test('escapes texts, and folds long lines between characters', () => {
  const description = `${'🦉'.repeat(30)}; lamps, \\ owls\nand more`;
  const file = fileOf({ title: 'Owls, lamps; more', description });
  expect(file).toContain('SUMMARY:Owls\\, lamps\\; more\r\n');
  for (const line of file.split('\r\n')) expect(Buffer.byteLength(line)).toBeLessThanOrEqual(75);
  expect(file.replaceAll('\r\n ', '')).toContain(`DESCRIPTION:${'🦉'.repeat(30)}\\; lamps\\, \\\\ owls\\nand more\r\n`);
});
