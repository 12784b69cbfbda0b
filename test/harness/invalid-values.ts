/**
 * JSON texts of values that a field of some kind must refuse. Texts and not values, since JSON has more of them than
 * JavaScript can write: 1e400, lone surrogates, duplicate names.
 */
const NO_STRING = ['null', 'true', '0', '1.5', '1e400', '[]', '["a"]', '{}', '{"a":1}'];
const NO_NUMBER = ['null', 'true', '"1"', '""', '"NaN"', '[]', '[1]', '{}', '{"valueOf":1}'];
const NO_INTEGER = [...NO_NUMBER, '1.5', '-1', '1e400', '-1e400', '1e300', '-9007199254740993'];

export const INVALID_VALUES = {
  /** product_id, user_id, device_fp */
  externalId: [
    ...NO_STRING,
    '""',
    '" "',
    '"a b"',
    '"a|b"',
    '"a/b"',
    '"a\\u0000b"',
    '"a\\nb"',
    '"\\ud800"',
    '"\\udc00\\ud800"',
    '"é"',
    '"🍜"',
    '"{x}"',
    '"$x"',
    `"${'x'.repeat(129)}"`,
    `"${'x'.repeat(8_000)}"`,
  ],
  text: NO_STRING,
  url: [...NO_STRING, '""', '"https://shop.example/\\u0000"', '"https://shop.example/\\ud800"'],
  branding: [
    ...NO_STRING,
    '{"description":"a\\u0000b"}',
    '{"description":"a\\ud800"}',
    '{"texts":{"en":{"buy":"a\\u0000"}}}',
    '{"image_url":"https://shop.example/\\u0000"}',
    '{"shop_url":"https://shop.example/\\udc00"}',
  ],
  key: [
    ...NO_STRING,
    '""',
    '"short"',
    '"with a space"',
    '"\\ud800\\ud800\\ud800\\ud800\\ud800\\ud800\\ud800\\ud800"',
    `"${'x'.repeat(256)}"`,
  ],
  /** a count of 1 or more */
  count: [...NO_INTEGER, '0', '1000000000000'],
  /** too many have a code of their own, `buckets_unavailable` */
  buckets: [...NO_INTEGER, '0'],
  kept: [...NO_INTEGER, '1000000000000'],
  seconds: NO_INTEGER,
  reservationId: [...NO_STRING, '""', `"${'x'.repeat(65)}"`],
  note: [...NO_STRING, '"a\\u0000b"', '"a\\nb"', '"\\u001b[31m"', `"${'x'.repeat(257)}"`],
  flag: ['null', '0', '1', '"true"', '""', '[]', '{}'],
  time: [
    ...NO_STRING,
    '""',
    '"now"',
    '"2031-01-01"',
    '"2031-13-01T00:00:00Z"',
    '"2031-02-30T00:00:00Z"',
    '"2031-01-01T00:00:00"',
    '1719000030',
  ],
  /** a code as a user types it: a text with the form of a code is refused as unknown, and is not in this list */
  typedCode: [...NO_STRING, '""', `"${'A'.repeat(129)}"`, `"${'A'.repeat(10_000)}"`, `"${'é'.repeat(129)}"`],
  typedCodes: [
    'null',
    'true',
    '0',
    '"CODE"',
    '{}',
    '{"0":"CODE"}',
    '[]',
    '[null]',
    '[1]',
    '["CODE",2]',
    '[["CODE"]]',
    '[""]',
    `["${'A'.repeat(129)}"]`,
    `[${Array(11).fill('"CODE"').join(',')}]`,
  ],
  codePrefix: [
    ...NO_STRING,
    '"é"',
    '"А"',
    '"a|b"',
    '"a\\u0000"',
    '"\\ud800"',
    `"${'A'.repeat(17)}"`,
    `"${'A'.repeat(10_000)}"`,
  ],
  /** what a caller says of a user */
  attributes: [
    'null',
    'true',
    '0',
    '"text"',
    '[]',
    '[["country","ID"]]',
    `{"${'n'.repeat(65)}":1}`,
    `{${Array.from({ length: 101 }, (_, i) => `"a${i}":1`).join(',')}}`,
  ],
  /** what a shop attaches to a claim */
  metadata: [
    'null',
    'true',
    '0',
    '"text"',
    '[]',
    '{"":"a"}',
    '{"a b":"c"}',
    '{"a":1}',
    '{"a":null}',
    '{"a":{"b":"c"}}',
    '{"a":"\\u0000"}',
    '{"a":"\\ud800"}',
    `{"${'n'.repeat(41)}":"a"}`,
    `{"a":"${'a'.repeat(501)}"}`,
    `{${Array.from({ length: 21 }, (_, i) => `"a${i}":""`).join(',')}}`,
    `{${Array.from({ length: 5 }, (_, i) => `"a${i}":"${'a'.repeat(450)}"`).join(',')}}`,
  ],
  cart: [
    'null',
    'true',
    '1000',
    '"1000 IDR"',
    '[]',
    '{}',
    '{"subtotal":1000}',
    '{"currency":"IDR"}',
    ...[
      'null',
      '"1000"',
      '-1',
      '-0.5',
      '0.5',
      '10.000001',
      '1e400',
      '-1e400',
      '1e300',
      '1e15',
      '9007199254740993',
      '[1000]',
      '{}',
    ].map((subtotal) => `{"subtotal":${subtotal},"currency":"IDR"}`),
    ...[
      'null',
      '360',
      '""',
      '"idr"',
      '"IDRX"',
      '"ID"',
      '"ZZZ"',
      '" IDR"',
      '"I\\u0000R"',
      '["IDR","USD"]',
      '{"a":"IDR"}',
    ].map((currency) => `{"subtotal":1000,"currency":${currency}}`),
    ...['null', '{}', '"item"', '0'].map((items) => `{"subtotal":1000,"currency":"IDR","items":${items}}`),
  ],
  oneTimeToken: [...NO_STRING, `"${'x'.repeat(513)}"`],
  delta: [...NO_INTEGER.filter((text) => text !== '-1'), '0', '1000000000000'],
} as const satisfies Record<string, readonly string[]>;

export type FieldKind = keyof typeof INVALID_VALUES;

/** A JSON object from texts of its members, with one of them replaced. */
export function objectText(members: Readonly<Record<string, string>>, field?: string, text?: string): string {
  const all = field === undefined || text === undefined ? members : { ...members, [field]: text };
  return `{${Object.entries(all)
    .map(([name, value]) => `${JSON.stringify(name)}:${value}`)
    .join(',')}}`;
}
