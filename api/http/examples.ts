/** A JSON schema of the OpenAPI document, as far as examples need it. */
export type JsonSchema = {
  $ref?: string;
  type?: string | readonly string[];
  format?: string;
  enum?: readonly unknown[];
  const?: unknown;
  default?: unknown;
  description?: string;
  examples?: readonly unknown[];
  properties?: Record<string, JsonSchema>;
  additionalProperties?: JsonSchema | boolean;
  items?: JsonSchema;
  allOf?: readonly JsonSchema[];
  anyOf?: readonly JsonSchema[];
  oneOf?: readonly JsonSchema[];
  minimum?: number;
  minLength?: number;
};

/** Values by the name of the field, so that all examples are about the same sale. */
const SAMPLES: Readonly<Record<string, unknown>> = {
  accent: '#c2185b',
  account_created_at: '2024-05-01T08:00:00Z',
  algorithm: 'SHA-256',
  already_paid_by: 'pi_3Pq7cR2eZvKYlo2C1aJ9bT4x',
  amount: 25_000,
  audience: { attribute: 'tier', in: ['gold'] },
  attestation: 'a1.YuTSgOuE68-sTKU7E69Lx1NpR5KsTz83GgQUrT4R-Yw',
  attributes: { country: 'ID', tier: 'gold' },
  campaign_id: '01a1fc6c-1111-7c3a-8f00-5a4c3b2a1900',
  cart: { subtotal: 250_000, currency: 'IDR' },
  checkout_url: 'https://shop.example/pay?order=ord_01a1fc6d483b7a4a9e25913b00000001&sig=v1.c1.1795809900.AAAA',
  code: 'SAVE10',
  codes: ['SAVE10', 'FREESHIP'],
  created_at: '2026-11-20T09:00:00.000Z',
  currency: 'IDR',
  cursor: 128,
  delta: 50,
  detail: 'The journal has 0 entries.',
  device_fp: '9f0c2c1e-6a53-4f0e-9c0e-8d1f5a3b7e21',
  discount: { kind: 'percent', percent: 10 },
  discount_amount: 25_000,
  ends_at: '2026-11-27T22:00:00.000Z',
  ends_at_local: '2026-11-28T05:00:00+07:00',
  estimated_wait_seconds: 95,
  endpoint: 'https://fcm.googleapis.com/fcm/send/dpH5lCsTSSM:APA91bHqjZxM0VImWWqDRN7U0a3AycjUf4O',
  event_id: '6d1f0c2b-9a4e-8b7c-8d21-0f3e5a7b9c11',
  expires_at: '2026-11-27T20:05:00.000Z',
  free: 12,
  held: 60,
  id: '01a1fc6c-1111-7c3a-8f00-5a4c3b2a1900',
  idempotency_key: 'c0a8012e-7b1d-4f3a-9c55-2d6e8f0a1b3c',
  'idempotency-key': 'c0a8012e-7b1d-4f3a-9c55-2d6e8f0a1b3c',
  key: 'the-secret-of-a-key',
  kind: 'percent',
  keys: {
    p256dh: 'BNcRdreALRFXTkOOUHK1EtK2wtaz5Ry4YfYCA_0QTpQtUbVlUls0VJXg7A8u-Ts1XbjhazAkj7I99e8QcYP7DkM',
    auth: 'tBHItJI5svbpez7KI4CCXg',
  },
  language: 'en',
  last_error: null,
  line_no: 128,
  metadata: { cart: 'c-4711', channel: 'app' },
  name: 'Indomie flash sale',
  next_cursor: null,
  nonce: 'u5Jk2n8QmVw1xY3zA7bCdE',
  operator: 'anna',
  order_id: 'ord_01a1fc6d483b7a4a9e25913b00000001',
  pay_before: '2026-11-27T20:05:00.000Z',
  percent: 10,
  payment_ref: 'pi_3Pq7cR2eZvKYlo2C1aJ9bT4x',
  poll_after_seconds: 2,
  position: 17,
  prefix: 'VIP',
  product_id: 'flash-indomie-2026',
  qty: 1,
  queue_size: 230,
  reason: 'the order was cancelled',
  redeemed: 28,
  reservation_id: '01a1fc6d-483b-7a4a-9e25-913b00000001',
  secret_count: 1,
  secrets: ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo='],
  server_time: '2026-11-27T20:00:01.250Z',
  starts_at: '2026-11-27T20:00:00.000Z',
  starts_at_local: '2026-11-28T03:00:00+07:00',
  ticket: 't1.1.c2hvcHBlci0xNzk1MjM2MzgyLTI5Njgy.k_fREe-18WrkxPq1Tw-sFA',
  time_zone: 'Asia/Jakarta',
  token: 'o1.c2hvcHBlci0xNzk1MjM2MzgyLTI5Njgy.k_fREe-18WrkxPq1Tw-sFA',
  total: 225_000,
  total_limit: 100,
  types: null,
  url: 'https://shop.example/hooks/doorbuster',
  user_id: 'user-4711',
  version: 1,
  waiting: 230,
};

const BY_FORMAT: Readonly<Record<string, unknown>> = {
  'date-time': '2026-11-27T20:00:00.000Z',
  uuid: '01a1fc6d-483b-7a4a-9e25-913b00000001',
  uri: 'https://shop.example/',
};
const MAX_DEPTH = 12;

/** Composes values that fit JSON schemas. Not every rule of a schema is followed, so tests validate the results. */
export class Examples {
  /** @param schemas `components.schemas` of the document */
  constructor(readonly schemas: Readonly<Record<string, JsonSchema>>) {}

  /**
   * Returns an example of a schema.
   * @param name of the field; its sample is used if the type fits
   */
  of(schema: JsonSchema, name = '', depth = 0): unknown {
    if (depth > MAX_DEPTH) return null;
    const resolved = this.#resolve(schema);
    if (resolved.const !== undefined) return resolved.const;
    if (resolved.enum) return resolved.enum.includes(SAMPLES[name]) ? SAMPLES[name] : resolved.enum[0];
    if (resolved.examples?.[0] !== undefined) return resolved.examples[0];
    const types = typesOf(resolved);
    if (Object.hasOwn(SAMPLES, name) && fits(SAMPLES[name], types)) return SAMPLES[name];
    const variant = (resolved.oneOf ?? resolved.anyOf)?.find((each) => !typesOf(this.#resolve(each)).includes('null'));
    if (variant) return this.of(variant, name, depth + 1);
    if (resolved.allOf) return this.#merged(resolved.allOf, depth);
    return this.#byType(types, resolved, name, depth);
  }

  #byType(types: readonly string[], schema: JsonSchema, name: string, depth: number): unknown {
    switch (types.find((type) => type !== 'null')) {
      case 'object':
        return this.#object(schema, depth);
      case 'array':
        return schema.items ? [this.of(schema.items, name, depth + 1)] : [];
      case 'string':
        return BY_FORMAT[schema.format ?? ''] ?? 'text'.padEnd(schema.minLength ?? 0, '.');
      case 'integer':
      case 'number':
        return Math.max(schema.minimum ?? 0, 0);
      case 'boolean':
        return schema.default ?? true;
      default:
        return null;
    }
  }

  #object({ properties, additionalProperties }: JsonSchema, depth: number): unknown {
    if (properties)
      return Object.fromEntries(
        Object.entries(properties)
          // `{not: {}}` is a field that must be absent.
          .filter(([, field]) => !('not' in field))
          .map(([name, field]) => [name, this.of(field, name, depth + 1)]),
      );
    if (typeof additionalProperties !== 'object') return {};
    return { redis: this.of(additionalProperties, '', depth + 1) };
  }

  #merged(parts: readonly JsonSchema[], depth: number): unknown {
    const values = parts.map((part) => this.of(part, '', depth + 1));
    return values.every((value) => typeof value === 'object') ? Object.assign({}, ...values) : values[0];
  }

  #resolve(schema: JsonSchema): JsonSchema {
    const name = schema.$ref?.split('/').at(-1);
    return name === undefined ? schema : (this.schemas[name] ?? {});
  }
}

function typesOf({ type = [] }: JsonSchema): readonly string[] {
  return typeof type === 'string' ? [type] : type;
}

function fits(value: unknown, types: readonly string[]): boolean {
  if (value === null) return types.includes('null');
  if (Array.isArray(value)) return types.includes('array');
  if (typeof value === 'number') return types.includes('integer') || types.includes('number');
  return types.includes(typeof value);
}
