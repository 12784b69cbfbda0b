import { ContractError } from '../errors/faults.js';

/**
 * The format of a record as one text. Names are in the order of the text, each with its type unless it is text:
 * `qty:int`, `code:int?` ("" = none), `slots:ints` (comma-separated), `rest:tail` (the last one, which may contain
 * separators), `reduced:rare` (the last one, which the text has only if it is not "").
 */
export type RecordFormat<Field extends string = string> = {
  readonly name: string;
  readonly fields: readonly Field[];
  readonly names: readonly string[];
  readonly types: readonly string[];
  /** Text before the first field. */
  readonly begin: string;
  readonly separator: string;
};

type NameOf<Field extends string> = Field extends `${infer Name}:${string}` ? Name : Field;
type ValueOf<Field extends string> = Field extends `${string}:int`
  ? number
  : Field extends `${string}:int?`
    ? number | null
    : Field extends `${string}:ints`
      ? number[]
      : string;
/** A record as an object with the names of its format. */
export type RecordOf<Format> =
  Format extends RecordFormat<infer Field> ? { [One in Field as NameOf<One>]: ValueOf<One> } : never;

export function defineRecord<const Field extends string>(
  name: string,
  fields: readonly Field[],
  { begin = '', separator = '|' }: Partial<RecordFormat> = {},
): RecordFormat<Field> {
  return { name, fields, names: fields.map(nameOf), types: fields.map(typeOf), begin, separator };
}

/** Writes a record; null becomes "". */
export function packRecord<Field extends string>(
  { names, types, begin, separator }: RecordFormat<Field>,
  record: RecordOf<RecordFormat<Field>>,
): string {
  const values = record as Record<string, string | number | readonly number[] | null>;
  let text = begin;
  for (let i = 0; i < names.length; i += 1) {
    if (types[i] === 'rare' && !values[names[i] as string]) break;
    if (i > 0) text += separator;
    text += values[names[i] as string] ?? '';
  }
  return text;
}

/** Reads a record. @throws ContractError if the number of fields or the beginning differs */
export function parseRecord<Field extends string>(
  format: RecordFormat<Field>,
  text: string,
): RecordOf<RecordFormat<Field>> {
  const record = recordIn(format, text);
  if (!record) throw new ContractError(`a ${format.name} record is malformed: ${text}`);
  return record;
}

/** Reads a record; null = the number of fields or the beginning differs. */
export function recordIn<Field extends string>(
  format: RecordFormat<Field>,
  text: string,
): RecordOf<RecordFormat<Field>> | null {
  const { names, types, begin, separator } = format;
  const values = text.slice(begin.length).split(separator);
  if (types.at(-1) === 'tail') values.push(values.splice(names.length - 1).join(separator));
  const least = types.at(-1) === 'rare' ? names.length - 1 : names.length;
  if (!text.startsWith(begin) || values.length < least || values.length > names.length) return null;
  const record: Record<string, unknown> = {};
  // A loop is faster, and every checkout has such a record.
  for (let i = 0; i < names.length; i += 1)
    record[names[i] as string] = fieldValue(types[i] as string, values[i] ?? '');
  return record as RecordOf<RecordFormat<Field>>;
}

/**
 * Returns the Lua expression that writes a record.
 * @param given name → expression
 * @throws Error if a name is missing or unknown
 */
export function luaPack(format: RecordFormat, given: ReadonlyMap<string, string>): string {
  // Scripts append a rare field by themselves.
  const names = format.names.filter((_, i) => format.types[i] !== 'rare');
  const wrong = [
    ...names.filter((name) => !given.has(name)),
    ...[...given.keys()].filter((name) => !names.includes(name)),
  ];
  if (wrong.length > 0) throw new Error(`pack_${format.name} lacks, or does not know: ${wrong.join(', ')}`);
  const values = names.map((name) => String(given.get(name))).join(` .. ${luaText(format.separator)} .. `);
  return format.begin ? `${luaText(format.begin)} .. ${values}` : values;
}

/** Returns the Lua function that reads a record: it returns a table with the names of the format; nil = malformed. */
export function luaParse({ name, names, types, begin, separator }: RecordFormat): string {
  const literal = (text: string) => text.replace(/[^\w|]/g, '%$&');
  const patterns = types.map((type) => LUA_PATTERN[type] ?? `([^${literal(separator)}]*)`);
  const match = (some: readonly string[]) =>
    `string.match(text, '^${literal(begin)}${some.join(literal(separator))}$') `;
  const members = names.map((one, i) => `${one} = ${types[i] === 'int' ? `tonumber(${one})` : one}`);
  const common = patterns.filter((_, i) => types[i] !== 'rare');
  return (
    `local function parse_${name}(text) local ${names.join(', ')} = ${match(common)}` +
    (common.length < patterns.length ? `if not ${names[0]} then ${names.join(', ')} = ${match(patterns)}end ` : '') +
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
