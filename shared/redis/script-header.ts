/** The header of a script, which is its interface (lua/README.md). */
export type ScriptHeader = {
  purpose: string;
  /** Names of the keys in their order. The last one may be a list, `names...`. */
  keys: string[];
  /** Maximum number of keys in the list. */
  maxListedKeys: number;
  /** Names of the arguments in their order, each with its type unless it is a string: `user`, `qty:int`. */
  args: string[];
  /** Names of the arguments that each row of a call has. */
  each: string[];
  maxRows: number;
  /** Kind of reply → names of its fields. */
  replies: Map<string, string[]>;
  journals: string[];
  /** For a script with JSON input: names in the argument, names in each of its requests, kind of decision → names. */
  input: string[];
  request: string[];
  decisions: Map<string, string[]>;
};

/** Parses the header of a script. @throws Error if the header is missing or incomplete */
export function readHeader(source: string): ScriptHeader {
  const parts = partsOf(source);
  const of = (name: string): string[] => {
    const found = parts.get(name);
    if (!found || found.length === 0) throw new Error(`the header has no ${name}`);
    return found;
  };
  const rows = parts.get('EACH');
  const args = rows ? (parts.get('ARGV') ?? []) : of('ARGV');
  const keys = of('KEYS').join(' ');
  return {
    purpose: of('purpose').join(' '),
    keys: keys.replace(/ \(.*\)$/, '').split(', '),
    maxListedKeys: keys.includes('...') ? boundOf(keys) : 0,
    args: namesIn(args),
    each: rows ? namesIn(rows) : [],
    maxRows: rows ? boundOf(String(rows[0])) : 0,
    replies: repliesIn(of('REPLY')),
    journals: journaledKinds(of('JOURNALS').join(' ')),
    input: namesIn(parts.get('INPUT') ?? []),
    request: namesIn(parts.get('REQUEST') ?? []),
    decisions: repliesIn(parts.get('DECISION') ?? []),
  };
}

/** Returns the lines of each part of the header by the name of the part. */
function partsOf(source: string): Map<string, string[]> {
  const lines = source
    .slice(0, /^(?!--)/m.exec(source)?.index ?? 0)
    .split('\n')
    .map((line) => line.replace(/^-- ?/, ''));
  const parts = new Map<string, string[]>([['purpose', []]]);
  let part = 'purpose';
  for (const line of lines) {
    const [, whole, begun, rest = ''] =
      /^(ARGV|EACH|INPUT|REQUEST|REPLY|DECISION)$|^(KEYS|EACH|JOURNALS) (.*)$/.exec(line) ?? [];
    const name = whole ?? begun;
    if (name) {
      part = name;
      parts.set(name, rest ? [rest] : []);
    } else if (line.trim()) {
      parts.get(part)?.push(line);
    }
  }
  return parts;
}

/** Parses the bound in `names... (at most 64)`. @throws Error if there is none */
function boundOf(text: string): number {
  const [, atMost] = /\(at most (\d+)\)$/.exec(text) ?? [];
  if (!atMost) throw new Error(`the header has no bound for ${text}`);
  return Number(atMost);
}

/**
 * Returns the entries of a part. A line indented by two spaces starts an entry; text after two more spaces explains it.
 */
function entriesOf(lines: readonly string[]): string[] {
  return lines.filter((line) => /^ {2}\S/.test(line)).map((line) => String(line.slice(2).split(/ {2,}/)[0]));
}

function namesIn(lines: readonly string[]): string[] {
  return entriesOf(lines).flatMap((entry) => entry.split(' '));
}

function repliesIn(lines: readonly string[]): Map<string, string[]> {
  return new Map(
    entriesOf(lines)
      .flatMap((entry) => entry.split(' | '))
      .map((entry) => entry.split(' '))
      .map(([kind, ...fields]) => [String(kind), fields]),
  );
}

/** Parses the list of journaled kinds: `redeemed, reserved (the next in line)`, or `nothing` with a reason. */
function journaledKinds(text: string): string[] {
  const list = String(text.replace(/\([^)]*\)/g, '').split(/[.:]/)[0]);
  if (list.trim() === 'nothing') return [];
  return list.split(',').map((kind) => kind.trim());
}
