import { ContractError } from '../errors/faults.js';

/**
 * How a record is written as one text. Names are in the order of the text, each with its type unless it is text: `qty:int`,
 * `code:int?` ("" = none), `slots:ints` (comma-separated), `rest:tail` (the last one, which may contain separators).
 */
export type RecordFormat<Field extends string = string> = {
  readonly name: string;
  readonly fields: readonly Field[];
  readonly names: readonly string[];
  readonly types: readonly string[];
  /** What stands before the first field. */
  readonly begin: string;
  readonly separator: string;
  /** Fields that every record has; those after them may be missing in records of earlier versions. */
  readonly least: number;
};

type NameOf<Field extends string> = Field extends `${infer Name}:${string}` ? Name : Field;
type ValueOf<Field extends string> = Field extends `${string}:int`
  ? number
  : Field extends `${string}:int?`
    ? number | null
    : Field extends `${string}:ints`
      ? number[]
      : string;
/** A record by the names of its format. */
export type RecordOf<Format> =
  Format extends RecordFormat<infer Field> ? { [One in Field as NameOf<One>]: ValueOf<One> } : never;

export function defineRecord<const Field extends string>(
  name: string,
  fields: readonly Field[],
  { begin = '', separator = '|', least = fields.length }: Partial<RecordFormat> = {},
): RecordFormat<Field> {
  return { name, fields, names: fields.map(nameOf), types: fields.map(typeOf), begin, separator, least };
}

/** Writes a record; null becomes "". */
export function packRecord<Field extends string>(
  { names, begin, separator }: RecordFormat<Field>,
  record: RecordOf<RecordFormat<Field>>,
): string {
  const values = record as Record<string, string | number | readonly number[] | null>;
  let text = begin;
  for (let i = 0; i < names.length; i += 1) {
    if (i > 0) text += separator;
    text += values[names[i] as string] ?? '';
  }
  return text;
}

/** Reads a record. @throws ContractError when it has another number of fields or another beginning */
export function parseRecord<Field extends string>(
  format: RecordFormat<Field>,
  text: string,
): RecordOf<RecordFormat<Field>> {
  const record = recordIn(format, text);
  if (!record) throw new ContractError(`a ${format.name} record is malformed: ${text}`);
  return record;
}

/** Reads a record. Returns null when it has another number of fields or another beginning. */
export function recordIn<Field extends string>(
  format: RecordFormat<Field>,
  text: string,
): RecordOf<RecordFormat<Field>> | null {
  const { names, types, begin, separator, least } = format;
  const values = text.slice(begin.length).split(separator);
  if (types.at(-1) === 'tail') values.push(values.splice(names.length - 1).join(separator));
  if (!text.startsWith(begin) || values.length < least || values.length > names.length) return null;
  const record: Record<string, unknown> = {};
  // A loop: there is such a record for every checkout.
  for (let i = 0; i < names.length; i += 1)
    record[names[i] as string] = fieldValue(types[i] as string, values[i] ?? '');
  return record as RecordOf<RecordFormat<Field>>;
}

/** The expression in Lua that writes a record. @param given name → expression @throws Error when a name is missing or unknown */
export function luaPack(format: RecordFormat, given: ReadonlyMap<string, string>): string {
  const { names } = format;
  const wrong = [
    ...names.filter((name) => !given.has(name)),
    ...[...given.keys()].filter((name) => !names.includes(name)),
  ];
  if (wrong.length > 0) throw new Error(`pack_${format.name} lacks, or does not know: ${wrong.join(', ')}`);
  const values = names.map((name) => String(given.get(name))).join(` .. ${luaText(format.separator)} .. `);
  return format.begin ? `${luaText(format.begin)} .. ${values}` : values;
}

/** The function in Lua that reads a record: a table by the names of the format, or nil when it is malformed. */
export function luaParse({ name, names, types, begin, separator }: RecordFormat): string {
  const literal = (text: string) => text.replace(/[^\w|]/g, '%$&');
  const pattern = types.map((type) => LUA_PATTERN[type] ?? `([^${literal(separator)}]*)`);
  const members = names.map((one, i) => `${one} = ${types[i] === 'int' ? `tonumber(${one})` : one}`);
  return (
    `local function parse_${name}(text) local ${names.join(', ')} = ` +
    `string.match(text, '^${literal(begin)}${pattern.join(literal(separator))}$') ` +
    `if not ${names[0]} then return nil end return { ${members.join(', ')} } end`
  );
}

const LUA_PATTERN: Record<string, string> = { int: '(%d+)', ints: '([%d,]*)', tail: '(.*)' };

const luaText = (text: string): string => `'${text.replaceAll('\t', '\\t')}'`;
const nameOf = (field: string): string => String(field.split(':')[0]);
const typeOf = (field: string): string => field.split(':')[1] ?? 'text';

function fieldValue(type: string, text: string): string | number | number[] | null {
  if (type === 'int') return Number(text);
  if (type === 'int?') return text === '' ? null : Number(text);
  if (type === 'ints') return text === '' ? [] : text.split(',').map(Number);
  return text;
}
