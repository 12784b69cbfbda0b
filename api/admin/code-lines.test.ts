import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { CodeLines } from './code-lines.js';

type Read = { codes: [number, string, string | null][]; bad: [number, string][]; badLines: number; line: number };

function read(
  bytes: Buffer | string,
  { chunk = 1 << 16, allowUsers = true, maxErrors = 100, maxLineBytes = 64 } = {},
): Read {
  const codes: Read['codes'] = [];
  const lines = new CodeLines({
    allowUsers,
    maxLineBytes,
    maxErrors,
    onCode: (...row) => codes.push(row),
  });
  const buffer = Buffer.from(bytes as string);
  for (let from = 0; from < buffer.length; from += chunk) lines.read(buffer.subarray(from, from + chunk));
  lines.end();
  const { errors, badLines, total } = lines.summary();
  expect(total).toBe(codes.length);
  return { codes, bad: errors.map(({ line, detail }) => [line, detail]), badLines, line: lines.line };
}

describe('the lines of an upload', () => {
  test.each([
    ['with a header', 'code,user_id\nA1,u1\n', [[2, 'A1', 'u1']]],
    ['with a header of one column', 'CODE\nA1\n', [[2, 'A1', null]]],
    [
      'without a header',
      'A1\nB2\n',
      [
        [1, 'A1', null],
        [2, 'B2', null],
      ],
    ],
    [
      'with a code "code" below',
      'A1\ncode\n',
      [
        [1, 'A1', null],
        [2, 'CODE', null],
      ],
    ],
    ['with a byte order mark and CRLF', '\ufeffcode\r\nA1\r\n', [[2, 'A1', null]]],
    [
      'without a last line end',
      'A1\nB2',
      [
        [1, 'A1', null],
        [2, 'B2', null],
      ],
    ],
    ['with empty lines', '\n\r\nA1\n  \n', [[3, 'A1', null]]],
    ['with quotes', '"a-1","u""1"\n"b 2" , "u2"\n', [[2, 'B2', 'u2']]],
    [
      'with users as an export escapes them',
      "A1,'@u1\nB2,'-u2\nC3,@u3\n",
      [
        [1, 'A1', '@u1'],
        [2, 'B2', '-u2'],
        [3, 'C3', '@u3'],
      ],
    ],
    [
      'with an empty user',
      'A1,\nB2,""\n',
      [
        [1, 'A1', null],
        [2, 'B2', null],
      ],
    ],
    ['typed with spaces and hyphens', 'ab-cd\u00a0ef , u1 \n', [[1, 'ABCDEF', 'u1']]],
  ])('%s', (_what, text, codes) => expect(read(text).codes).toEqual(codes));

  test.each<[string, Buffer | string, RegExp]>([
    ['no UTF-8', Buffer.from([0x41, 0xe4, 0x42]), /UTF-8/],
    ['UTF-16', Buffer.from('A1', 'utf16le'), /letters/],
    ['another script', 'САLЕ', /letters/],
    ['no code', ',u1', /empty/],
    ['a third column', 'A1,u1,x', /columns/],
    ['an open quote', '"A1', /quotes/],
    ['something behind a quote', '"A"1', /quotes/],
    ['a quote inside', 'A"1', /quotes/],
    ['a strange user', 'A1,u 1', /user_id/],
    ['a formula', '=1+1', /letters/],
    ['another separator', 'A1;u1', /letters/],
    ['a long line', 'A'.repeat(65), /longer/],
  ])('refuses %s, by its number, and goes on', (_what, line, why) => {
    const { codes, bad } = read(
      Buffer.concat([Buffer.from('A0\n'), Buffer.from(line as string), Buffer.from('\nB2\n')]),
    );
    expect(codes).toEqual([
      [1, 'A0', null],
      [3, 'B2', null],
    ]);
    expect(bad).toEqual([[2, expect.stringMatching(why)]]);
  });

  test('refuses a user_id for codes of a pool', () => {
    const { codes, bad } = read('A1,u1\nB2,\n', { allowUsers: false });
    expect([codes, bad.map(([line]) => line)]).toEqual([[[2, 'B2', null]], [1]]);
  });

  test('keeps a line without an end out of memory', () => {
    const lines = new CodeLines({ allowUsers: true, maxLineBytes: 1_024, maxErrors: 1, onCode: () => {} });
    const chunk = Buffer.alloc(1 << 20, 'A');
    const before = process.memoryUsage().arrayBuffers;
    for (let i = 0; i < 1_024; i += 1) lines.read(chunk);
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(1 << 20);
    lines.end();
    expect(lines.summary()).toMatchObject({ total: 0, badLines: 1 });
  });

  test('names the first bad lines and counts the others', () => {
    const { bad, badLines } = read('!\n'.repeat(50), { maxErrors: 3 });
    expect([bad.map(([line]) => line), badLines]).toEqual([[1, 2, 3], 50]);
  });

  test('are the same however the bytes are cut', () => {
    const text = `\ufeffcode,user_id\r\nA1,u1\r\n"b-2"\n\nÄ\nC3,u 3\nD4${'x'.repeat(80)}\nE5`;
    const whole = read(text);
    expect(whole.codes.map(([line]) => line)).toEqual([2, 3, 8]);
    for (let chunk = 1; chunk < 40; chunk += 1) expect(read(text, { chunk })).toEqual(whole);
  });

  test('are either taken or refused, and never crash, whatever the bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 400 }), fc.integer({ min: 1, max: 50 }), (bytes, chunk) => {
        const { codes, badLines, line } = read(Buffer.from(bytes), { chunk });
        expect(codes.length + badLines).toBeLessThanOrEqual(line);
      }),
    );
  });
});

test('a line of any form is read in one pass', () => {
  // A pattern that tries each blank in two ways takes two minutes for these lines, a single pass a few milliseconds.
  const long = 1_000;
  const lines = [
    `"A1",${' '.repeat(long)}x`,
    `"A1",${' '.repeat(long)}"`,
    `"${'""'.repeat(long / 2)}x`,
    `"${'" "'.repeat(long / 3)}`,
    `${' '.repeat(long)}"A1"${' '.repeat(10)}x`,
    `"A1"${' '.repeat(long)}x`,
  ];
  const text = `${lines.join('\n')}\n`.repeat(200);
  const startedAt = performance.now();
  const { badLines, line } = read(text, { maxLineBytes: 1_024 });
  expect(performance.now() - startedAt).toBeLessThan(20_000);
  expect([line, badLines]).toEqual([1_200, 1_000]);
});

test('cells are the same with and without quotes and surrounding blanks', () => {
  const blanks = fc.constantFrom('', ' ', '\t', '  ');
  const cell = fc.stringMatching(/^[A-Z0-9]{1,8}$/);
  fc.assert(
    fc.property(
      cell,
      cell,
      blanks,
      blanks,
      blanks,
      blanks,
      fc.boolean(),
      fc.boolean(),
      (code, user, a, b, c, d, first, second) => {
        const quoted = (text: string, is: boolean) => (is ? `"${text}"` : text);
        const { codes } = read(`${a}${quoted(code, first)}${b},${c}${quoted(user, second)}${d}\n`);
        if (code.toLowerCase() !== 'code') expect(codes).toEqual([[1, code, user]]);
      },
    ),
  );
});
