import { luaPack, luaParse, type RecordFormat } from './record-format.js';
import { RECORD_FORMATS } from './record-formats.js';

/**
 * Expands the record formats in a script. `pack_<record>{ name = value, … }` becomes the concatenation of the values in
 * the order of the format, which costs neither a table nor a call. A line `--#parse <record>` becomes the function
 * `parse_<record>`. The number of lines stays the same.
 * @throws Error if a record is unknown, or a field is missing or unknown
 */
export function expandRecords(source: string): string {
  const parsed = source.replace(/^--#parse (\w+)$/gm, (_line, name: string) => luaParse(formatOf(name)));
  let expanded = '';
  let at = 0;
  for (const found of parsed.matchAll(/\bpack_(\w+)\{/g)) {
    const begin = found.index + found[0].length;
    const end = endOf(parsed, begin);
    const inside = parsed.slice(begin, end);
    const lines = '\n'.repeat(inside.split('\n').length - 1);
    expanded += parsed.slice(at, found.index) + luaPack(formatOf(String(found[1])), fieldsIn(inside)) + lines;
    at = end + 1;
  }
  return expanded + parsed.slice(at);
}

function formatOf(name: string): RecordFormat {
  const format = RECORD_FORMATS.get(name);
  if (!format) throw new Error(`no record is called ${name}`);
  return format;
}

/** Returns the index of the brace that closes the one before `from`. */
function endOf(source: string, from: number): number {
  let depth = 1;
  for (let i = from; i < source.length; i += 1) {
    if (source[i] === '{') depth += 1;
    if (source[i] === '}') depth -= 1;
    if (depth === 0) return i;
  }
  throw new Error('a record has no end');
}

/** Parses `a = 1, b = f(x, y)` to name → expression, in parentheses unless it is a name, a text or a call. */
function fieldsIn(inside: string): Map<string, string> {
  const parts: string[] = [''];
  let depth = 0;
  for (const char of inside) {
    if (char === '(') depth += 1;
    if (char === ')') depth -= 1;
    if (char === ',' && depth === 0) parts.push('');
    else parts[parts.length - 1] += char;
  }
  const given = parts.map((part) => part.trim()).filter((part) => part !== '');
  return new Map(
    given.map((part) => {
      const [, name, value] = /^(\w+) = (.*)$/s.exec(part) ?? [];
      if (!name || !value) throw new Error(`a field of a record is written as ${part}`);
      return [name, /^([\w.]+|'[^']*'|[\w.]+\([^()]*\))$/.test(value) ? value : `(${value})`];
    }),
  );
}
