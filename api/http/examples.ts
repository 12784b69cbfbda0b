import { DOCUMENTED_EVENTS, type DocumentedType } from '../../shared/contracts/events.js';
import { BY_FORMAT, OF_EVENT, OF_FRAME, OF_SCHEMA, SAMPLES } from './example-values.js';

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
    const value = this.#compose(schema, name, depth);
    const parts = OF_SCHEMA[componentOf(schema) ?? ''];
    return parts ? withParts(value, parts) : value;
  }

  /**
   * Returns an example of an event or of a frame.
   * @param type of the event or frame
   */
  ofMessage(type: string, schema: JsonSchema): unknown {
    const value = this.of(schema);
    if (!isEvent(type)) return withParts(value, OF_FRAME[type] ?? {});
    const event = value as { data: Record<string, unknown> };
    const data = withParts(event.data, OF_EVENT[type] ?? {});
    const subject = data.reservation_id ?? data.product_id ?? data.endpoint_id ?? data.payment_ref;
    return withParts(event, { id: SAMPLES.event_id, subject, data });
  }

  #compose(schema: JsonSchema, name: string, depth: number): unknown {
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
    return { name: this.of(additionalProperties, '', depth + 1) };
  }

  #merged(parts: readonly JsonSchema[], depth: number): unknown {
    const values = parts.map((part) => this.of(part, '', depth + 1));
    return values.every((value) => typeof value === 'object') ? Object.assign({}, ...values) : values[0];
  }

  #resolve(schema: JsonSchema): JsonSchema {
    const name = componentOf(schema);
    return name === undefined ? schema : (this.schemas[name] ?? {});
  }
}

const componentOf = ({ $ref }: JsonSchema): string | undefined => $ref?.split('/').at(-1);
const isEvent = (type: string): type is DocumentedType => Object.hasOwn(DOCUMENTED_EVENTS, type);

/** Returns an object with other values for some fields; undefined = without the field. */
function withParts(value: unknown, parts: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const all = Object.entries({ ...(value as Record<string, unknown>), ...parts });
  return Object.fromEntries(all.filter(([, field]) => field !== undefined));
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
